package work

import (
	"bytes"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Order is what the registry asks of an engine.
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
	Deadline   *time.Time
}

// NewEngine makes the work of a first order; it waits for its place.
func NewEngine(o Order, now time.Time) *Work {
	return &Work{
		Seen: Seen{Key: Key{ID: o.ID, Generation: o.Generation}},
		Kind: Engine, Desired: o.Desired, DesiredAt: now, Spec: o.Spec, Pool: o.Pool, Driver: o.Driver,
		GPUs: o.GPUs, Slots: o.Slots, OwnerID: o.OwnerID, ProjectID: o.ProjectID, NNodes: 1, Waiting: WaitCapacity, Deadline: o.Deadline,
	}
}

// Put takes over a repeated order. An older generation is a conflict, and so is another spec under
// the same one. An engine that is placed keeps its place; one that had ended, or that shall move to
// another pool, is placed anew.
func (w *Work) Put(o Order, now time.Time) (changed bool, err error) {
	switch {
	case w.Kind != Engine:
		return false, fault.New(fault.Conflict, "work_kind", "work %s is no engine", w.ID)
	case o.Generation < w.Generation:
		return false, fault.New(fault.Conflict, "work_generation",
			"generation %d of work %s is older than %d", o.Generation, w.ID, w.Generation)
	case o.Generation == w.Generation && !bytes.Equal(o.Spec, w.Spec):
		return false, fault.New(fault.Conflict, "work_generation",
			"generation %d of work %s is known with another spec", o.Generation, w.ID)
	case o.Generation == w.Generation && o.Desired == w.Desired:
		// A deadline moves without anything else: the engine goes on.
		moved := !sameTime(o.Deadline, w.Deadline)
		w.Deadline = o.Deadline
		return moved, nil
	}
	w.Deadline = o.Deadline
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

// leave ends a work that is on no node: there is nothing to stop.
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
