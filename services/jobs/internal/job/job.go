// Package job owns jobs and their attempts: the state machine, the outcome of an attempt, and the event of
// every change. Package gang combines the states of a job's nodes, and package jobapi serves the API and
// streams the changes of jobs.
//
// The domain files (job.go, outcome.go, lifecycle.go, stop.go, pause.go, reason.go) are pure: they
// change values and get times, rows and messages as arguments. Only store*.go use SQL, and they check every
// state change in SQL.
//
// The package guarantees: a state moves only along Edges; each change is one transaction with its event; the
// events of a job are numbered from 1 without a gap; the GPUs that an attempt holds are released once.
package job

import (
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// State is the state of a job or an attempt.
type State string

// The states. The last three are terminal.
const (
	Queued    State = "queued"
	Scheduled State = "scheduled"
	Starting  State = "starting"
	Running   State = "running"
	Pausing   State = "pausing"
	Paused    State = "paused"
	Stopping  State = "stopping"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Stopped   State = "stopped"
)

// States lists every state.
func States() []State {
	return []State{Queued, Scheduled, Starting, Running, Pausing, Paused, Stopping, Succeeded, Failed, Stopped}
}

// Terminal reports whether s is final.
func (s State) Terminal() bool { return s == Succeeded || s == Failed || s == Stopped }

// Placed reports whether an attempt is active and holds its nodes and its quota.
func (s State) Placed() bool {
	return s == Scheduled || s == Starting || s == Running || s == Pausing || s == Stopping
}

// Edges returns the allowed state changes. They may skip states, because an agent that was disconnected reports late.
// Within an attempt a job never moves back, except that an abandoned pause returns it to running. A job is stopped without
// having been stopping if a batch system ends it at its time limit.
func Edges() map[State][]State {
	return map[State][]State{
		Queued:    {Scheduled, Stopped, Failed},
		Scheduled: {Queued, Starting, Running, Stopping, Succeeded, Failed, Stopped},
		Starting:  {Queued, Running, Stopping, Succeeded, Failed, Stopped},
		Running:   {Queued, Pausing, Stopping, Succeeded, Failed, Stopped},
		Pausing:   {Queued, Running, Paused, Stopping, Succeeded, Failed},
		Paused:    {Queued, Stopped},
		Stopping:  {Stopped, Succeeded, Failed},
	}
}

// CanMove reports whether Edges allows the change.
func CanMove(from, to State) bool { return slices.Contains(Edges()[from], to) }

// Sources returns the states from which a job can move to the given one.
func Sources(to State) []State {
	var from []State
	for _, s := range States() {
		if CanMove(s, to) {
			from = append(from, s)
		}
	}
	return from
}

// Queue reasons explain why a queued job waits.
const (
	WaitNew          = "new"
	WaitAccountQuota = "account_quota"
	WaitTeamQuota    = "team_quota"
	WaitPoolCapacity = "pool_capacity"
	// WaitIsolation: nodes of a suitable size are ready, but they do not isolate work as the pool requires.
	WaitIsolation = "isolation"
	WaitPriority  = "priority"
	WaitBackoff   = "backoff"
)

// Pool is one part of a job's gang: nodes with the same role from one pool.
type Pool struct {
	Pool        string `json:"pool"`
	Role        string `json:"role"`
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"`
	CPU         int    `json:"cpu"`
	MemoryGB    int    `json:"memory_gb"`
	Profile     string `json:"profile"` // hardware profile, or empty
}

// Room is an amount of a node's resources: all of them, the free ones, or those that a work takes.
type Room struct {
	GPUs, Slots, CPUs int
	Memory            int64 // in bytes
}

const gigabyte = 1 << 30

// Need returns the room that the pool takes on each of its nodes.
func (p Pool) Need() Room {
	return Room{GPUs: p.GPUsPerNode, Slots: SlotsOf(p.GPUsPerNode), CPUs: p.CPU, Memory: int64(p.MemoryGB) * gigabyte}
}

// SlotsOf returns how many slots a work with the given number of GPUs takes: one if it has no GPU, otherwise none.
func SlotsOf(gpus int) int {
	if gpus > 0 {
		return 0
	}
	return 1
}

// Holds reports whether the room has at least the needed amount of each resource.
func (r Room) Holds(need Room) bool {
	return r.GPUs >= need.GPUs && r.Slots >= need.Slots && r.CPUs >= need.CPUs && r.Memory >= need.Memory
}

// Queue describes why a job waits and since when.
type Queue struct {
	Position int       `json:"position"`
	Reason   string    `json:"reason"`
	Detail   string    `json:"detail"`
	Since    time.Time `json:"since"`
}

// Signal is the last signal sent to the training: to save a checkpoint before a pause, or to stop.
type Signal struct {
	ID       string     `json:"id"`
	Deadline *time.Time `json:"deadline"`
	AckedAt  *time.Time `json:"acked_at"`
}

// Status is the changeable part of a job. Every event carries the status after its change, so that a watch
// can replay each change exactly.
type Status struct {
	State      State    `json:"state"`
	EndReason  string   `json:"end_reason"`
	Message    string   `json:"message"`
	Warnings   []string `json:"warnings"`
	Attempt    int      `json:"attempt"`
	StopReason string   `json:"stop_reason"`
	Queue      Queue    `db:"-" json:"queue"`
	// BatchHeld means that the job is scheduled, but a batch system has not started it yet. Queue then has the reason.
	BatchHeld bool       `json:"batch_held,omitempty"`
	NotBefore *time.Time `json:"not_before"`
	Retries   int        `json:"retries"`
	Signal    Signal     `db:"-" json:"signal"`
	PausedAt  *time.Time `json:"paused_at"`
	// Checkpoint is the newest checkpoint that training can resume from.
	Checkpoint *Checkpoint `json:"checkpoint"`
	// Collected reports whether all output and reports of the last attempt were delivered before its end. It is nil while
	// the attempt has not ended.
	Collected         *bool      `json:"collected"`
	ScheduledAt       *time.Time `json:"scheduled_at"`
	StartingAt        *time.Time `json:"starting_at"`
	ExecutorRunningAt *time.Time `json:"executor_running_at"`
	RunningAt         *time.Time `json:"running_at"`
	EndedAt           *time.Time `json:"ended_at"`
}

// Parent is the run that another run was created from.
type Parent struct {
	Kind  string `json:"kind"`
	RunID string `json:"run_id"`
	Step  *int64 `json:"step"`
}

// The kinds of parents.
const (
	ParentRetry = "retry"
	ParentClone = "clone"
)

// Job is one admitted submission.
type Job struct {
	ID, RunID, Name    string
	OwnerID, OwnerName string
	ProjectID, Project string
	TeamID             string // the project's team at admission, or empty
	Visibility         string
	VisibilityVersion  int64 `db:"-"` // the project's visibility version at insertion
	Labels             map[string]string
	Priority           int
	Spec               []byte // canonical JSON of the resolved spec
	SpecDigest         string
	Template           []byte // the agent's spec without the fields set for each attempt
	Pools              []Pool
	GPUs               int
	RetryMax           int
	// RetryOn lists the retry classes that are retried, nil for all. RetryCodes lists exit codes that are also
	// retried.
	RetryOn    []string
	RetryCodes []int32
	BackoffS   int    `db:"retry_backoff_s"` // seconds before the first retry; 0 means 1
	RetryFrom  string `db:"retry_resume"`    // ResumeLatest or ResumeNone; empty means ResumeLatest
	// Resumable means that the recipe saves its state and can resume from it.
	Resumable        bool
	CheckpointGraceS int
	CheckpointNeeded bool // a pause requires a checkpoint
	// Protected means that the run reads protected data, so that messages of its processes are withheld.
	Protected           bool
	RunningS, StartingS int
	QueueS              int `db:"queued_s"`
	// OwnCommand means that the job runs the user's own command, which need not report its lifecycle.
	OwnCommand bool
	// NoNetwork means that the job runs without network access, and only on nodes that can ensure that.
	NoNetwork bool
	// Runtime is what the job needs from its nodes, see fleet.Offers; empty if any node will do.
	Runtime   string
	CreatedAt time.Time
	Seq       int64 // sequence number of the newest event
	Status
}

// Nodes returns the number of nodes in the gang.
func (j *Job) Nodes() int {
	n := 0
	for _, p := range j.Pools {
		n += p.Nodes
	}
	return n
}

// Demand returns the total number of GPUs in the pools.
func Demand(pools []Pool) int {
	n := 0
	for _, p := range pools {
		n += p.Nodes * p.GPUsPerNode
	}
	return n
}

// Attempt is one execution of a job.
type Attempt struct {
	ID       string
	JobID    string
	Number   int
	State    State
	NodeID   string // the node of rank 0
	Held     int    // GPUs charged to the job's owner and team; released once
	Phase    string // the executor's phase
	Doing    string // what the executor does while the attempt has not ended; it is not saved
	ExitCode *int

	EndReason string
	Message   string

	// ReportedEnd is the terminal lifecycle event that the training sent, or empty.
	ReportedEnd     string
	ReportedMessage string

	// ResumedFrom is the checkpoint artifact that the attempt started from, or empty.
	ResumedFrom string
	ResumedStep *int64 // of that checkpoint, or nil

	// Closing is the decided end of the attempt, until the run is closed. It is nil before the decision.
	Closing *Closing
	// Collected reports whether all output and reports were delivered before the attempt ended; nil before its end.
	Collected *bool
	// BatchID is the id of the attempt in a batch system, and BatchNodes are the host names of its nodes there, by rank.
	BatchID    string
	BatchNodes []string
	// HeardSignal is the ID of the newest signal that the training has received, or empty.
	HeardSignal string

	CreatedAt          time.Time
	StartingAt         *time.Time
	ReportedStartingAt *time.Time
	ExecutorRunningAt  *time.Time // set from the executor's report
	RunningAt          *time.Time // when the training reported running; billing starts here
	ListensAt          *time.Time // when the training first polled for signals
	EndedAt            *time.Time
}

// Over reports whether the attempt has ended.
func (a *Attempt) Over() bool { return a.EndedAt != nil }

// Collecting reports whether the processes of the attempt have ended while its output is still being delivered, or its
// run is being closed. A nil attempt is not.
func (a *Attempt) Collecting() bool {
	return a != nil && !a.Over() && gang.PhaseRank(a.Phase) >= gang.PhaseRank(gang.PhaseCollecting)
}
