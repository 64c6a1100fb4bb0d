package deployment

import (
	"encoding/json"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

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

// over says whether nothing can change the state any more but its owner.
func (r *Revision) over() bool { return r.State == Stopped || r.State == Failed || !r.Wanted }
