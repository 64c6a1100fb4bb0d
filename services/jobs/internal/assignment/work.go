// Package assignment owns the work that nodes run: attempts of jobs and engines of the registry. It sends the
// desired works to the nodes over the agents' stream and applies what the nodes report.
//
// Both directions are level-triggered. The list of desired works is complete; it is sent after every change and with every
// heartbeat. It has no specs: a node fetches the spec of a work that it does not have. An observed work is applied only if
// its (work, generation, fence) still matches the row. A lost, duplicated or late message therefore only costs time. If a
// node reports a work that it should not have, the server sends this work with the desired state gone.
//
// work.go and put.go are pure. Only store*.go use SQL. Only stream.go, *server.go and *_proto.go use
// proto.
package assignment

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Kind is the kind of a work.
type Kind string

// The kinds of works.
const (
	Attempt Kind = "attempt"
	Engine  Kind = "engine"
)

// Desired is the desired state of a work.
type Desired string

// The desired states of works.
const (
	WantRunning Desired = "running"
	WantStopped Desired = "stopped"
	WantGone    Desired = "gone"
)

// The reasons why an engine is not placed: the scheduler has not considered it yet, no node has room for it, or the
// quota of its owner or of its project's team does not allow its GPUs.
const (
	WaitStart    = "starting"
	WaitCapacity = "no_capacity"
	WaitQuota    = "account_quota"
	// WaitTeamQuota: the quota of the project's team does not allow the engine's GPUs.
	WaitTeamQuota = "team_quota"
	// WaitIsolation: the nodes that have room do not isolate work as the pool requires.
	WaitIsolation = "isolation"
)

// Key identifies one execution of a work.
type Key struct {
	ID         string
	Generation int64
	Fence      int64
}

// DetailFrozen is the detail with which an agent reports a running work whose processes are stopped because the disk of the
// node is full.
const DetailFrozen = "frozen: the disk of the node is full"

// Observed is what a node reports on one execution.
type Observed struct {
	Key
	Phase       string
	Detail      string
	PreparingAt *time.Time
	RunningAt   *time.Time
	ExitedAt    *time.Time
	Exit        *gang.Exit `db:"-"`
	// Uncollected means that the node has not delivered all output and reports of an ended attempt.
	Uncollected bool
	Engine      []byte        // the serialized EngineReport without its API key
	EngineKey   secret.String `db:"-"`

	// Only for works with Batch: the id in the batch system, why the work waits there, and the host names of its nodes by
	// rank.
	BatchID, BatchReason, BatchDetail string
	BatchNodes                        []string
}

// Work is one unit of work, placed on a node or waiting for placement.
type Work struct {
	Observed
	Kind      Kind
	Desired   Desired
	DesiredAt time.Time
	Force     bool   // kill at once when stopping
	Spec      []byte // the serialized AttemptSpec or EngineSpec; nil if it was not loaded
	Pool      string
	GPUs      int
	Slots     int
	CPUs      int   // CPUs taken from the node; 0 for engines
	Memory    int64 `db:"memory_bytes"`
	OwnerID   string
	ProjectID string
	NodeID    string
	Waiting   string // why the work is not placed
	// Deadline is when the engine must end at the latest; nil means never.
	Deadline *time.Time

	// Only for attempts.
	JobID  string
	Number int `db:"attempt"`
	Rank   int
	NNodes int
	Role   string
	Master string // name of the node of rank 0
	// MasterPort is the port at which rank 0 listens, 0 for the first of masterPorts.
	MasterPort int
	// Batch is true if the work is the whole attempt, which the node gives to a batch system.
	Batch bool
	// Only for engines.
	Driver string
	// TeamID is the team that the project had at the first order, empty if it had none. It is nil while not known: for
	// an engine without GPUs, and for one that an earlier version stored, until its next order.
	TeamID *string

	// RenewedAt is when the work's lease was granted or last renewed, nil without a lease. Save writes it only when
	// another execution begins: it then sets the column to NULL.
	RenewedAt  *time.Time
	CreatedAt  time.Time
	UpdatedAt  time.Time
	ReleasedAt *time.Time // when the work was released, see Released
}

// Team returns the team whose quota the engine's GPUs count against, or an empty string.
func (w *Work) Team() string {
	if w.TeamID == nil {
		return ""
	}
	return *w.TeamID
}

// Released reports whether the work is over. An attempt stops taking capacity of its node when its processes end,
// which may be before the work is over; see db.TakesRoom.
func (w *Work) Released() bool { return w.ReleasedAt != nil }

// RenewedSince reports whether the work's lease was renewed at the given time or later.
func (w *Work) RenewedSince(at time.Time) bool { return w.RenewedAt != nil && !w.RenewedAt.Before(at) }

// Held reports whether a batch system has not started the work yet, as far as is known.
func (w *Work) Held() bool {
	return w.Batch && w.Exit == nil && gang.PhaseRank(w.Phase) <= gang.PhaseRank(gang.PhasePending)
}

// KeepsPlace reports whether a batch system holds the work in its queue, and will start it without an agent. No rank has
// renewed the lease of such a work.
func (w *Work) KeepsPlace() bool {
	return w.Held() && w.BatchID != "" && w.RenewedAt == nil && w.Desired == WantRunning
}

// Forget clears the observed state, because a new execution begins.
func (w *Work) Forget() {
	w.Observed = Observed{Key: w.Key}
	w.ReleasedAt = nil
}

// Unplace removes an engine from its node. The scheduler places it again under a new fence.
func (w *Work) Unplace() {
	w.Forget()
	w.NodeID, w.Waiting = "", WaitStart
}

// maxAhead is how far the fence in a report may exceed the stored fence if Supersede is to accept the report. It keeps
// fences from overflowing.
const maxAhead = 1 << 32

// Supersede handles a report on a newer execution of an engine than this work has, and reports whether anything
// changed. Such a report arrives only if the database was restored to an earlier state. The node would ignore the
// stored execution, so the engine begins a new execution with a fence above the reported one. The node then ends the
// reported execution. Attempts are not changed, because they have only one execution.
func (w *Work) Supersede(s Observed) bool {
	newer := s.Fence > w.Fence || s.Fence == w.Fence && s.Generation > w.Generation
	if w.Kind != Engine || w.Released() || s.ID != w.ID || !newer || s.Fence-w.Fence > maxAhead {
		return false
	}
	w.Fence = s.Fence + 1
	w.Forget()
	return true
}

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
		s.Exit, s.Uncollected = lostExit(), true
	}
	if s.PreparingAt == nil {
		s.PreparingAt = w.PreparingAt
	}
	if s.RunningAt == nil && w.Kind == Attempt {
		s.RunningAt = w.RunningAt
	}
	w.fillBatch(&s)
	if same(w.Observed, s) {
		return false
	}
	w.Observed = s
	return true
}

// fillBatch completes what a report states about a batch system. A report need not repeat the id and the nodes. A work
// that has started waits for nothing.
func (w *Work) fillBatch(s *Observed) {
	if !w.Batch {
		s.BatchID, s.BatchReason, s.BatchDetail, s.BatchNodes = "", "", "", nil
		return
	}
	s.BatchID = cmp.Or(s.BatchID, w.BatchID)
	if len(s.BatchNodes) == 0 {
		s.BatchNodes = w.BatchNodes
	}
	s.BatchNodes = s.BatchNodes[:min(len(s.BatchNodes), w.NNodes)]
	if gang.PhaseRank(s.Phase) > gang.PhaseRank(gang.PhasePending) {
		s.BatchReason, s.BatchDetail = "", ""
	}
}

// missingGrace is how long Miss ignores that a work is missing, if the work should stop and was never observed. The
// node may have sent its report before it received the work.
const missingGrace = 5 * time.Second

// Miss handles a full report of the node that does not include this work, and reports whether anything changed. A work
// that was observed before is gone and, unless its exit is known, counts as lost. For an engine that should run, Miss
// only clears the observed state. A work that was never observed stays as it is, unless it should stop and missingGrace
// has passed.
func (w *Work) Miss(now time.Time) bool {
	if w.Released() {
		return false
	}
	known := gang.PhaseRank(w.Phase) > gang.PhaseRank(gang.PhasePending)
	if !known && (w.Desired == WantRunning || now.Before(w.DesiredAt.Add(missingGrace))) {
		return false
	}
	if w.Kind == Engine && w.Desired == WantRunning {
		w.Forget() // the node starts it again when it receives the next desired works
		return true
	}
	if w.Exit != nil && w.Phase == gang.PhaseExited && w.Desired != WantGone {
		return false
	}
	w.Phase = gang.PhaseGone
	if w.Exit == nil {
		w.Exit, w.Uncollected = lostExit(), w.Kind == Attempt
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
		a.Uncollected == b.Uncollected && a.BatchID == b.BatchID && a.BatchReason == b.BatchReason && a.BatchDetail == b.BatchDetail &&
		slices.Equal(a.BatchNodes, b.BatchNodes) &&
		bytes.Equal(a.Engine, b.Engine) && a.EngineKey.Equal(b.EngineKey)
}

func sameTime(a, b *time.Time) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Equal(*b))
}

func sameExit(a, b *gang.Exit) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}
