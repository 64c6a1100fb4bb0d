package assignment

import (
	"bytes"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Order is the registry's request for an engine.
type Order struct {
	ID         string
	Generation int64
	Desired    Desired
	Pool       string
	Driver     string
	GPUs       int
	Slots      int
	Spec       []byte
	OwnerID    string
	ProjectID  string
	// TeamID is the team of the project, nil if it was not looked up.
	TeamID   *string
	Deadline *time.Time
}

// NewEngine returns a new work for the engine. The work waits for placement.
func NewEngine(o Order, now time.Time) *Work {
	return &Work{
		Observed: Observed{Key: Key{ID: o.ID, Generation: o.Generation}},
		Kind:     Engine, Desired: o.Desired, DesiredAt: now, Spec: o.Spec, Pool: o.Pool, Driver: o.Driver,
		GPUs: o.GPUs, Slots: o.Slots, OwnerID: o.OwnerID, ProjectID: o.ProjectID, NNodes: 1, Waiting: WaitStart, Deadline: o.Deadline,
		TeamID: o.TeamID,
	}
}

// Put applies a further order and reports whether anything changed. An older generation is a conflict, and so is a
// different spec under the same generation. A placed engine keeps its node. An engine that was released, or whose
// pool, driver or size changes, is placed again.
func (w *Work) Put(o Order, now time.Time) (changed bool, err error) {
	switch {
	case w.Kind != Engine:
		return false, fault.New(fault.Conflict, "work_kind", "work %s is not an engine", w.ID)
	case o.Generation < w.Generation:
		return false, fault.New(fault.Conflict, "work_generation",
			"generation %d of work %s is older than the current generation %d", o.Generation, w.ID, w.Generation)
	case o.Generation == w.Generation && !bytes.Equal(o.Spec, w.Spec):
		return false, fault.New(fault.Conflict, "work_generation",
			"generation %d of work %s already has a different spec", o.Generation, w.ID)
	case o.Generation == w.Generation && o.Desired == w.Desired:
		// A new deadline does not need a new generation: the engine keeps running.
		moved := !sameTime(o.Deadline, w.Deadline)
		w.Deadline = o.Deadline
		return w.joinTeam(o) || moved, nil
	}
	w.Deadline = o.Deadline
	w.joinTeam(o)
	renewed := o.Generation > w.Generation
	moved := renewed && (o.Pool != w.Pool || o.GPUs != w.GPUs || o.Slots != w.Slots || o.Driver != w.Driver)
	w.Desired, w.DesiredAt = o.Desired, now
	if renewed {
		w.Generation, w.Spec, w.Pool, w.Driver, w.GPUs, w.Slots = o.Generation, o.Spec, o.Pool, o.Driver, o.GPUs, o.Slots
	}
	if w.Desired == WantRunning && (w.Released() || moved) {
		w.Unplace()
	} else if renewed && !w.Released() {
		w.Forget()
	}
	if w.NodeID == "" && w.Desired != WantRunning {
		w.leave(now)
	}
	return true, nil
}

// joinTeam sets the team whose quota the engine uses, if the team is not known yet, and reports whether it set one.
func (w *Work) joinTeam(o Order) bool {
	if w.TeamID != nil || o.TeamID == nil {
		return false
	}
	w.TeamID = o.TeamID
	return true
}

// leave releases a work that is not placed: there is nothing to stop.
func (w *Work) leave(now time.Time) {
	w.Waiting, w.ReleasedAt = "", &now
	w.Phase = phaseLeft(w.Desired)
}

func phaseLeft(d Desired) string {
	if d == WantGone {
		return gang.PhaseGone
	}
	return gang.PhaseExited
}
