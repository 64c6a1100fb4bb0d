package assignment

import (
	"bytes"
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Apply applies a node's report on this work and reports whether anything changed. Reports on another
// execution are ignored. An attempt never returns to an earlier phase, and its exit is final.
func (w *Work) Apply(s Observed) bool {
	if s.Key != w.Key || w.Released() {
		return false
	}
	if w.Kind == Attempt && (w.Exit != nil || gang.PhaseRank(s.Phase) < gang.PhaseRank(w.Phase)) {
		return false
	}
	if w.Kind == Attempt && s.Phase != gang.PhaseExited && s.Phase != gang.PhaseGone {
		s.Exit = nil // an attempt has not ended until all its output is delivered
	}
	if w.Kind == Attempt && s.Exit == nil && gang.PhaseRank(s.Phase) >= gang.PhaseRank(gang.PhaseExited) {
		s.Exit = lostExit()
	}
	if s.PreparingAt == nil {
		s.PreparingAt = w.PreparingAt
	}
	if s.RunningAt == nil && w.Kind == Attempt {
		s.RunningAt = w.RunningAt
	}
	if same(w.Observed, s) {
		return false
	}
	w.Observed = s
	return true
}

// missingGrace is how long Miss ignores that a work is missing, if the work should stop and was never observed. The
// node may have sent its report before it received the work.
const missingGrace = 5 * time.Second

// Miss handles a full report of the node that does not include this work, and reports whether anything changed. A
// work that was observed before is gone and, unless its exit is known, counts as lost. An engine that should run is
// only forgotten. A work that was never observed stays as it is, unless it should stop and missingGrace has passed.
func (w *Work) Miss(now time.Time) bool {
	if w.Released() {
		return false
	}
	known := gang.PhaseRank(w.Phase) > gang.PhaseRank(gang.PhasePending)
	if !known && (w.Desired == WantRunning || now.Before(w.DesiredAt.Add(missingGrace))) {
		return false
	}
	if w.Kind == Engine && w.Desired == WantRunning {
		w.Forget() // the node starts it again from the next desired works
		return true
	}
	if w.Exit != nil && w.Phase == gang.PhaseExited && w.Desired != WantGone {
		return false
	}
	w.Phase = gang.PhaseGone
	if w.Exit == nil {
		w.Exit = lostExit()
	}
	return true
}

// Settle releases or unplaces an engine that has ended. Attempts are settled together with their job.
func (w *Work) Settle(now time.Time) {
	if w.Kind != Engine || w.Released() || (w.Phase != gang.PhaseExited && w.Phase != gang.PhaseGone) {
		return
	}
	taken := w.Phase == gang.PhaseGone || w.Exit == nil || w.Exit.Reason == gang.ExitStopped || w.Exit.Reason == gang.ExitLost
	switch {
	case w.Desired != WantRunning:
		w.ReleasedAt = &now
		if w.Desired == WantGone {
			w.Phase = gang.PhaseGone
		}
	case taken:
		w.Unplace()
	}
	// An engine that exited by itself is not changed, because the registry decides about its revision.
}

func lostExit() *gang.Exit { return &gang.Exit{Code: -1, Reason: gang.ExitLost} }

func same(a, b Observed) bool {
	return a.Phase == b.Phase && a.Detail == b.Detail && sameTime(a.PreparingAt, b.PreparingAt) &&
		sameTime(a.RunningAt, b.RunningAt) && sameTime(a.ExitedAt, b.ExitedAt) && sameExit(a.Exit, b.Exit) &&
		bytes.Equal(a.Engine, b.Engine) && a.EngineKey.Equal(b.EngineKey)
}

func sameTime(a, b *time.Time) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Equal(*b))
}

func sameExit(a, b *gang.Exit) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}
