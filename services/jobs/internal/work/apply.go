package work

import (
	"bytes"
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Apply takes over what the node reports of this execution. It answers whether that is news.
// Reports of another execution are none; an attempt never goes back a phase and its exit is final.
func (w *Work) Apply(s Seen) bool {
	if s.Key != w.Key || w.Released() {
		return false
	}
	if w.Kind == Attempt && (w.Exit != nil || gang.PhaseRank(s.Phase) < gang.PhaseRank(w.Phase)) {
		return false
	}
	if w.Kind == Attempt && s.Phase != gang.PhaseExited && s.Phase != gang.PhaseGone {
		s.Exit = nil // an attempt has ended only when all it wrote is delivered
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
	if same(w.Seen, s) {
		return false
	}
	w.Seen = s
	return true
}

// missingGrace is how long a work that was told and never seen may be missing from a node's report
// before a stop believes that it is not there: the report may have been written before the telling.
const missingGrace = 5 * time.Second

// Miss is told that the node's whole report does not name this work. It answers whether that is
// news. A work that the node knew and lost has ended without a word; one that was never seen is
// still on its way, unless its end is wanted and has been for a while.
func (w *Work) Miss(now time.Time) bool {
	if w.Released() {
		return false
	}
	known := gang.PhaseRank(w.Phase) > gang.PhaseRank(gang.PhasePending)
	if !known && (w.Desired == WantRunning || now.Before(w.DesiredAt.Add(missingGrace))) {
		return false
	}
	if w.Kind == Engine && w.Desired == WantRunning {
		w.Forget() // the node starts it anew from what it is told
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

// Settle is what follows for an engine from what was seen. Attempts are settled with their job.
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
	// An engine that ended by itself stays as it is: the registry decides what its revision becomes.
}

func lostExit() *gang.Exit { return &gang.Exit{Code: -1, Reason: gang.ExitLost} }

func same(a, b Seen) bool {
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
