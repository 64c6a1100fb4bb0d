// Package revision keeps the candidates of deployments and what is known of their engines: what a revision
// serves and how (its plan, which never changes and has a digest), where it stands, and the one execution
// of it that counts.
//
// It promises that the state of a revision follows from what jobs knows of its engine and from nothing
// else; that whoever was ready once is never failed by a loss; and that a change which another one
// overtook is refused in SQL. revision.go, plan.go and observe.go are pure; store*.go alone speak SQL,
// revision_proto.go alone speaks proto. What a change means for traffic is package deployment's.
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

// Kind names revisions in errors.
const Kind = "revision"

// State is where a revision stands.
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

// Short is `<phase>/<code>`.
func (r *Reason) Short() string {
	if r.Code == "" {
		return r.Phase
	}
	return r.Phase + "/" + r.Code
}

// Text is the reason for people.
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

// Serving is how it is served, with the defaults filled in.
type Serving struct {
	Engine       string   `json:"engine"`
	Args         []string `json:"args"`
	Command      []string `json:"command"`
	Requirements string   `json:"requirements"`
	Pool         string   `json:"pool"`
	GPUs         int32    `json:"gpus"`
}

// Revision is one candidate of a deployment, which may become what serves.
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
	// Wanted is false once its engines shall be gone.
	Wanted     bool
	Engine     Engine
	Probes     json.RawMessage
	CreatedAt  time.Time
	ReadyAt    *time.Time
	PromotedAt []time.Time
	// Deadline is until when the engine may run; nil without end.
	Deadline *time.Time
}

// Engine is the one execution of a revision that is known.
type Engine struct {
	Fence     int64
	NodeID    string
	PID       int32
	Address   string
	Key       secret.String
	StartedAt *time.Time
	ReadyAt   *time.Time
}

// served says whether the revision was ever ready: then a loss is not_ready, and never failed.
func (r *Revision) served() bool { return r.ReadyAt != nil }

// Over says whether nothing can change the state any more but its owner.
func (r *Revision) Over() bool { return r.State == Stopped || r.State == Failed || !r.Wanted }

// Restart asks anew for the engine of a revision that has none. It goes through all states again: what it was
// before is no promise of what it will be.
func (r *Revision) Restart() {
	r.State, r.Wanted, r.Generation, r.ReadyAt = Pending, true, r.Generation+1, nil
	r.Engine = Engine{}
	r.Reason = &Reason{Phase: string(Pending), Code: "waiting", Message: "waits for a node of pool " + r.Serving.Pool}
}

// ReplicaID names the present execution: another placement is another replica.
func (r *Revision) ReplicaID() string {
	var number [16]byte
	binary.BigEndian.PutUint64(number[:8], uint64(r.Generation))
	binary.BigEndian.PutUint64(number[8:], uint64(r.Engine.Fence))
	sum := sha256.Sum256(append([]byte(r.WorkID), number[:]...))
	return string(id.Replica) + "_" + strings.ToLower(ulid.ULID(sum[:16]).String())
}
