// Package job owns jobs and their attempts: the state machine, how an end is judged, and the events of
// every change. What its nodes were seen doing is package gang's, the watch over it package watch's.
//
// The files of the domain (job.go, attempt.go, outcome.go, lifecycle.go, stop.go) are pure: they change
// values and know no time, row or message but those handed in. store*.go alone speak SQL and guard every
// change of state in it. Who asks and how a job is shown is package desk's.
//
// It promises: a state moves only along Edges; each change is one transaction with its event; the
// events of a job are numbered from 1 without a gap; what an attempt holds is given back once.
package job

import (
	"slices"
	"time"
)

// State is where a job stands.
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

// Terminal says whether nothing follows.
func (s State) Terminal() bool { return s == Succeeded || s == Failed || s == Stopped }

// Placed says whether an attempt is under way and holds its place and quota.
func (s State) Placed() bool {
	return s == Scheduled || s == Starting || s == Running || s == Pausing || s == Stopping
}

// Edges are the moves that exist. An agent that was cut off reports late, so an attempt may be seen
// further on than the next state; it may never be seen further back. A pause that is given up leads back
// to running.
func Edges() map[State][]State {
	return map[State][]State{
		Queued:    {Scheduled, Stopped, Failed},
		Scheduled: {Queued, Starting, Running, Stopping, Succeeded, Failed},
		Starting:  {Queued, Running, Stopping, Succeeded, Failed},
		Running:   {Queued, Pausing, Stopping, Succeeded, Failed},
		Pausing:   {Queued, Running, Paused, Stopping, Succeeded, Failed},
		Paused:    {Queued, Stopped},
		Stopping:  {Stopped},
	}
}

// CanMove says whether an edge leads from one state to the other.
func CanMove(from, to State) bool { return slices.Contains(Edges()[from], to) }

// Sources are the states that an edge leads from to this one.
func Sources(to State) []State {
	var from []State
	for _, s := range States() {
		if CanMove(s, to) {
			from = append(from, s)
		}
	}
	return from
}

// Queue reasons: why a queued job waits.
const (
	WaitNew          = "new"
	WaitAccountQuota = "account_quota"
	WaitTeamQuota    = "team_quota"
	WaitPoolCapacity = "pool_capacity"
	WaitPriority     = "priority"
	WaitBackoff      = "backoff"
)

// Pool is a part of a job's gang: nodes of one pool that play one role.
type Pool struct {
	Pool        string `json:"pool"`
	Role        string `json:"role"`
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"`
	CPU         int    `json:"cpu"`
	MemoryGB    int    `json:"memory_gb"`
	Profile     string `json:"profile"` // of the hardware configuration, empty for none
}

// Queue tells why and since when a job waits.
type Queue struct {
	Position int       `json:"position"`
	Reason   string    `json:"reason"`
	Detail   string    `json:"detail"`
	Since    time.Time `json:"since"`
}

// Signal is what the training was last asked: to save for a pause, or to stop.
type Signal struct {
	ID       string     `json:"id"`
	Deadline *time.Time `json:"deadline"`
	AckedAt  *time.Time `json:"acked_at"`
}

// Status is what changes of a job. Every event carries the one it led to, so that a watch can show
// each change as it was.
type Status struct {
	State      State      `json:"state"`
	EndReason  string     `json:"end_reason"`
	Message    string     `json:"message"`
	Warnings   []string   `json:"warnings"`
	Attempt    int        `json:"attempt"`
	StopReason string     `json:"stop_reason"`
	Queue      Queue      `json:"queue"`
	NotBefore  *time.Time `json:"not_before"`
	Retries    int        `json:"retries"`
	Signal     Signal     `json:"signal"`
	PausedAt   *time.Time `json:"paused_at"`
	// Checkpoint is the newest one that training can go on from.
	Checkpoint        *Checkpoint `json:"checkpoint"`
	ScheduledAt       *time.Time  `json:"scheduled_at"`
	StartingAt        *time.Time  `json:"starting_at"`
	ExecutorRunningAt *time.Time  `json:"executor_running_at"`
	RunningAt         *time.Time  `json:"running_at"`
	EndedAt           *time.Time  `json:"ended_at"`
}

// Parent is a run that another came from.
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
	TeamID             string // of the project when it was admitted, empty where it has none
	Visibility         string
	VisibilityVersion  int64 // of its project, when it is inserted
	Labels             map[string]string
	Priority           int
	Spec               []byte // canonical JSON of the resolved spec
	SpecDigest         string
	Template           []byte // the agent's spec without what each attempt adds
	Pools              []Pool
	GPUs               int
	RetryMax           int
	// RetryOn are the classes of ends that are tried again, nil for all; RetryCodes exit codes that are, too.
	RetryOn    []string
	RetryCodes []int32
	BackoffS   int    // before the first further attempt, 0 for a second
	RetryFrom  string // ResumeLatest or ResumeNone; empty is latest
	// Resumable says that the recipe saves and takes up its state.
	Resumable                   bool
	CheckpointGraceS            int
	CheckpointNeeded            bool // for a pause
	RunningS, StartingS, QueueS int
	// OwnCommand is a command of the user's own, which need not report its lifecycle.
	OwnCommand bool
	CreatedAt  time.Time
	Seq        int64 // number of the newest event
	Status
}

// Nodes is how many nodes the gang has.
func (j *Job) Nodes() int {
	n := 0
	for _, p := range j.Pools {
		n += p.Nodes
	}
	return n
}

// Demand is how many GPUs the pools hold at once.
func Demand(pools []Pool) int {
	n := 0
	for _, p := range pools {
		n += p.Nodes * p.GPUsPerNode
	}
	return n
}
