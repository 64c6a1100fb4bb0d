// Package revision owns the revisions of deployments and the state of their engines: what a revision serves and how
// (its plan, which never changes and has a digest), its state, and the current execution of its engine.
//
// It promises that the observed state of a revision depends only on what jobs reports about its engine; that a revision
// that was ready once never fails because its engine is lost; and that SQL rejects a change that is based on an
// outdated state. revision.go, plan.go and observe.go are pure; only store*.go contain SQL, and only revision_proto.go
// uses protobuf messages. Package deployment decides what a change means for traffic.
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

// Kind is what errors call a revision.
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

// Reason is why a revision is not ready.
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
	// Deadline is when the engine must end, or nil for no limit.
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

// Finished reports whether only a user can still change the state.
func (r *Revision) Finished() bool { return r.State == Stopped || r.State == Failed || !r.Wanted }

// Placing returns the reason of a revision whose engine was ordered and not placed yet.
func Placing(pool string) *Reason {
	return &Reason{Phase: string(Pending), Code: waitStart, Message: "the engine is starting; it is being placed on a node of pool " + pool}
}

// The reasons that the jobs service reports for an engine that the scheduler has not considered yet, and for one that its
// owner's quota does not allow. waitStart is the code of Placing.
const (
	waitStart = "starting"
	waitQuota = "account_quota"
)

// Restart resets a stopped or failed revision, so that a new engine is ordered. The revision goes through all states
// again, as if it had never been ready.
func (r *Revision) Restart() {
	r.State, r.Wanted, r.Generation, r.ReadyAt = Pending, true, r.Generation+1, nil
	r.Engine = Engine{}
	r.Reason = Placing(r.Serving.Pool)
}

// ReplicaID returns the ID of the current execution. Every placement gets another ID.
func (r *Revision) ReplicaID() string {
	var number [16]byte
	binary.BigEndian.PutUint64(number[:8], uint64(r.Generation))
	binary.BigEndian.PutUint64(number[8:], uint64(r.Engine.Fence))
	sum := sha256.Sum256(append([]byte(r.WorkID), number[:]...))
	return string(id.Replica) + "_" + strings.ToLower(ulid.ULID(sum[:16]).String())
}
