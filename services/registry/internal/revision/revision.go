// Package revision owns the revisions of deployments and the state of their engines. A revision has a plan, which
// states what it serves and how, never changes and has a digest. It also has a state, and the current execution of its
// engine.
//
// The package promises that the observed state of a revision depends only on what the jobs service reports about its
// engine; that a revision that was ready once never fails because its engine is lost; and that SQL rejects a change
// that is based on an outdated state. The files revision.go, plan.go and observe.go are pure; only store*.go contain
// SQL, and only revision_proto.go uses protobuf messages. Package deployment decides what a change means for traffic.
package revision

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Kind is the name of revisions in errors.
const Kind = "revision"

// State is the state of a revision.
type State string

// The states of a revision.
const (
	Pending   State = "pending"
	Preparing State = "preparing"
	Starting  State = "starting"
	Probing   State = "probing"
	Ready     State = "ready"
	NotReady  State = "not_ready"
	Failed    State = "failed"
	Stopped   State = "stopped"
)

// Reason states why a revision is not ready.
type Reason struct {
	Phase   string `json:"phase"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Log     string `json:"log"`
}

// Short returns `<phase>/<code>`, or only the phase if there is no code.
func (r *Reason) Short() string {
	if r.Code == "" {
		return r.Phase
	}
	return r.Phase + "/" + r.Code
}

// Text returns the reason with its message.
func (r *Reason) Text() string {
	if r.Message == "" {
		return r.Short()
	}
	return r.Short() + ": " + r.Message
}

// Source is the model version that a revision serves.
type Source struct {
	ModelID string
	Version int32
}

// Serving contains the settings with which the version is served, with the defaults filled in.
type Serving struct {
	Engine       string   `json:"engine"`
	Args         []string `json:"args"`
	Command      []string `json:"command"`
	Requirements string   `json:"requirements"`
	Pool         string   `json:"pool"`
	GPUs         int32    `json:"gpus"`
	// Timeouts is nil if calls wait as long as the settings of inference state. It is then not part of the digest.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// Timeouts states for how many seconds calls wait for an engine. A value of 0 stands for the setting of inference.
type Timeouts struct {
	// FirstByteS limits the time until the engine begins its response, and IdleS its pauses within the response.
	FirstByteS int32 `json:"first_byte_s,omitempty"`
	IdleS      int32 `json:"idle_s,omitempty"`
}

// Revision is one candidate of a deployment, which may be promoted.
type Revision struct {
	ID            string
	DeploymentID  string
	Number        int32
	State         State
	Reason        *Reason
	Source        Source
	Serving       Serving
	ServingDigest string
	Plan          Plan
	WorkID        string
	Generation    int64
	// Wanted is true as long as the engine should run.
	Wanted     bool
	Engine     Engine
	Probes     json.RawMessage
	CreatedAt  time.Time
	ReadyAt    *time.Time
	PromotedAt []time.Time
	// Deadline is the time at which the engine must end, or nil for no limit.
	Deadline *time.Time
}

// Engine is the last known execution of a revision's engine.
type Engine struct {
	Fence     int64
	NodeID    string
	PID       int32
	Address   string
	Key       secret.String
	StartedAt *time.Time
	ReadyAt   *time.Time
}

// served reports whether the revision was ever ready. If so, a lost engine makes it not_ready, never failed.
func (r *Revision) served() bool { return r.ReadyAt != nil }

// Finished reports whether only a user can change the state from now on.
func (r *Revision) Finished() bool { return r.State == Stopped || r.State == Failed || !r.Wanted }

// Placing returns the reason of a revision whose engine was ordered but is not placed yet.
func Placing(pool string) *Reason {
	return &Reason{Phase: string(Pending), Code: waitStart, Message: "the engine is starting; it is being placed on a node of pool " + pool}
}

// The codes with which the jobs service reports why an engine waits: the scheduler has not considered it yet, or the
// quota of its owner or of its project's team does not allow it. waitStart is the code of Placing.
const (
	waitStart     = "starting"
	waitQuota     = "account_quota"
	waitTeamQuota = "team_quota"
	waitIsolation = "isolation"
)

// Restart resets a stopped or failed revision, so that a new engine is ordered. The revision goes through all states
// again, as if it had never been ready.
func (r *Revision) Restart() {
	r.State, r.Wanted, r.Generation, r.ReadyAt = Pending, true, r.Generation+1, nil
	r.Engine = Engine{}
	r.Reason = Placing(r.Serving.Pool)
}

// Runs reports whether the current engine is ready and is the execution with the given replica id at the given address.
// Each start of an engine's process has a different address, even within one execution.
func (r *Revision) Runs(replicaID, address string) bool {
	return r.Wanted && r.State == Ready && r.Engine.Address == address && r.ReplicaID() == replicaID
}

// codeHung is the code of the reason that Replace sets.
const codeHung = "engine_hung"

// Replace requests another execution, because the current one does not respond.
func (r *Revision) Replace(why string) {
	r.State, r.Generation = NotReady, r.Generation+1
	r.Engine = Engine{Fence: r.Engine.Fence, NodeID: r.Engine.NodeID}
	r.Reason = &Reason{Phase: string(Starting), Code: codeHung, Message: why}
}

// Overtake begins a generation above the one that the jobs service reports. A wanted engine then starts again.
func (r *Revision) Overtake(o Observation) {
	r.Generation, r.Engine = o.Generation+1, Engine{Fence: o.Fence}
	if r.Finished() {
		return
	}
	r.State = Pending
	if r.served() {
		r.State = NotReady
	}
	r.Reason = &Reason{Phase: string(Pending), Code: "engine_lost", Message: "the database of the registry was restored to an earlier state; the engine will be placed again"}
}

// ReplicaID returns the ID of the current execution. Every placement gets another ID.
func (r *Revision) ReplicaID() string {
	var number [16]byte
	binary.BigEndian.PutUint64(number[:8], uint64(r.Generation))
	binary.BigEndian.PutUint64(number[8:], uint64(r.Engine.Fence))
	sum := sha256.Sum256(append([]byte(r.WorkID), number[:]...))
	return string(id.Replica) + "_" + strings.ToLower(ulid.ULID(sum[:16]).String())
}
