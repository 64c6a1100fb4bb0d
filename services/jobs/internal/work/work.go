// Package work owns what nodes are asked to do: the attempts of jobs and the engines of the
// registry, told to their nodes over the agents' stream.
//
// It is level-triggered both ways. Desired work is sent whole, whenever it changed and with every
// heartbeat; observed work is applied only where (work, generation, fence) still names the execution
// that the rows know, so a message that was lost, doubled or late costs time and nothing else. What
// a node reports and nobody wants is answered with `gone`.
//
// work.go and apply.go are pure; store*.go alone speak SQL; stream.go, *server.go and *_proto.go
// alone speak proto.
package work

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Kind is what a work runs.
type Kind string

// The kinds.
const (
	Attempt Kind = "attempt"
	Engine  Kind = "engine"
)

// Desired is what shall become of a work.
type Desired string

// What can be desired.
const (
	WantRunning Desired = "running"
	WantStopped Desired = "stopped"
	WantGone    Desired = "gone"
)

// WaitCapacity is why an engine is not placed.
const WaitCapacity = "no_capacity"

// Key names one execution.
type Key struct {
	ID         string
	Generation int64
	Fence      int64
}

// Seen is what a node reports of one execution.
type Seen struct {
	Key
	Phase       string
	Detail      string
	PreparingAt *time.Time
	RunningAt   *time.Time
	ExitedAt    *time.Time
	Exit        *gang.Exit
	Engine      []byte // the engine's report without its key, opaque here
	EngineKey   secret.String
}

// Work is one thing that a node is, or shall be, asked to do.
type Work struct {
	Seen
	Kind      Kind
	Desired   Desired
	DesiredAt time.Time
	Force     bool   // what is to be stopped is killed at once
	Spec      []byte // opaque
	Pool      string
	GPUs      int
	Slots     int
	CPUs      int // of its node; engines ask for none
	Memory    int64
	OwnerID   string
	ProjectID string
	NodeID    string
	Waiting   string // why it has no node
	// Deadline is until when an engine may run, nil without end.
	Deadline *time.Time

	// Of attempts.
	JobID  string
	Number int
	Rank   int
	NNodes int
	Role   string
	Master string
	// Of engines.
	Driver string

	CreatedAt  time.Time
	UpdatedAt  time.Time
	ReleasedAt *time.Time // its place on the node is free again
}

// Released says whether the work takes no place on its node any more.
func (w *Work) Released() bool { return w.ReleasedAt != nil }

// Forget clears what was observed: another execution begins.
func (w *Work) Forget() {
	w.Seen = Seen{Key: w.Key}
	w.ReleasedAt = nil
}

// Unplace takes an engine off its node; the scheduler finds it a place under a new fence.
func (w *Work) Unplace() {
	w.Forget()
	w.NodeID, w.Waiting = "", WaitCapacity
}
