// Package assignment owns the work that nodes run: attempts of jobs and engines of the registry. It sends the
// desired works to the nodes over the agents' stream and applies what the nodes report.
//
// Both directions are level-triggered. Desired works are sent in full, after every change and with every
// heartbeat. An observed work is applied only if its (work, generation, fence) still matches the row. A
// lost, duplicated or late message therefore only costs time. If a node reports a work that it should not
// have, the server sends the work as desired gone.
//
// work.go, apply.go and put.go are pure. Only store*.go use SQL. Only stream.go, *server.go and *_proto.go use
// proto.
package assignment

import (
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

// The reasons of an engine that is not placed: the scheduler has not considered it yet, no node has room for it, or its
// owner's quota does not allow its GPUs.
const (
	WaitStart    = "starting"
	WaitCapacity = "no_capacity"
	WaitQuota    = "account_quota"
)

// Key identifies one execution of a work.
type Key struct {
	ID         string
	Generation int64
	Fence      int64
}

// Observed is what a node reports on one execution.
type Observed struct {
	Key
	Phase       string
	Detail      string
	PreparingAt *time.Time
	RunningAt   *time.Time
	ExitedAt    *time.Time
	Exit        *gang.Exit    `db:"-"`
	Engine      []byte        // the serialized EngineReport without its API key
	EngineKey   secret.String `db:"-"`
}

// Work is one unit of work, placed on a node or waiting for placement.
type Work struct {
	Observed
	Kind      Kind
	Desired   Desired
	DesiredAt time.Time
	Force     bool   // kill at once when stopping
	Spec      []byte // the serialized AttemptSpec or EngineSpec
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
	Master string
	// Only for engines.
	Driver string

	CreatedAt  time.Time
	UpdatedAt  time.Time
	ReleasedAt *time.Time // when its resources on the node were freed
}

// Released reports whether the work no longer takes resources on its node.
func (w *Work) Released() bool { return w.ReleasedAt != nil }

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
