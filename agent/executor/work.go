package executor

import (
	"fmt"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Kind distinguishes attempts of jobs from engines of revisions.
type Kind string

// The two kinds.
const (
	KindAttempt Kind = "attempt"
	KindEngine  Kind = "engine"
)

// Desired is the state that the control plane wants a work to be in.
type Desired string

// The three desired states, in the order in which a work passes through them.
const (
	DesiredRunning Desired = "running"
	DesiredStopped Desired = "stopped"
	DesiredGone    Desired = "gone"
)

// Key identifies one execution of a work.
type Key struct {
	WorkID     string `json:"work_id"`
	Generation int64  `json:"generation"`
	Fence      int64  `json:"fence"`
}

// String returns the key in the form used in folder names and log messages.
func (k Key) String() string { return fmt.Sprintf("%s.%d.%d", k.WorkID, k.Generation, k.Fence) }

// Before reports whether k is older than o. Both must be executions of the same work.
func (k Key) Before(o Key) bool {
	if k.Fence != o.Fence {
		return k.Fence < o.Fence
	}
	return k.Generation < o.Generation
}

// Validate returns an error if the key cannot be used as a folder name.
func (k Key) Validate() error {
	if k.WorkID == "" || len(k.WorkID) > 128 || strings.Trim(k.WorkID, nameRunes) != "" || strings.HasPrefix(k.WorkID, "-") {
		return fmt.Errorf("work id %q must have 1 to 128 letters, digits, _ or -, and must not start with -", k.WorkID)
	}
	if k.Generation < 0 || k.Fence < 0 {
		return fmt.Errorf("work %s: generation and fence must not be negative", k.WorkID)
	}
	return nil
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// Work is an attempt or an engine that an executor must run. Only the spec of its kind is set.
type Work struct {
	Key
	Kind    Kind    `json:"kind"`
	Desired Desired `json:"desired"`
	// Force stops the work at once, without a grace period.
	Force bool `json:"force,omitempty"`
	// Deadline is the time, by this node's clock, at which the work must have ended. It may change. Zero means
	// that there is no deadline.
	Deadline time.Time    `json:"deadline,omitzero"`
	Attempt  *AttemptSpec `json:"attempt,omitempty"`
	Engine   *EngineSpec  `json:"engine,omitempty"`
	// IngestEndpoint is the current base URL of the ingest routes, if the control plane has sent one.
	IngestEndpoint string `json:"-"`
}

// ObjectRef is an object to download and verify.
type ObjectRef struct {
	Path      string `json:"path"`
	URI       string `json:"uri"`
	SizeBytes int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"`
	Unpack    bool   `json:"unpack,omitempty"`
}

// EnvironmentSpec is a Python environment. It is built from the requirements, or from the lock, or it is an interpreter that
// the node offers.
type EnvironmentSpec struct {
	Requirements string `json:"requirements"`
	Digest       string `json:"digest"`
	SDK          bool   `json:"sdk,omitempty"`
	// Lock is the path of the user's lock in the package of the attempt; empty if the environment has none.
	Lock string `json:"lock,omitempty"`
	// Python is the name of an interpreter that the node offers; empty to use the node's own one.
	Python string `json:"python,omitempty"`
	// Project is the id of the project of the attempt. Environments of locks are not shared between projects.
	Project string `json:"project,omitempty"`
}

// Limits are the limits of a work's processes. GPUs is the number of GPUs that they may use. In the other
// fields 0 means no limit.
type Limits struct {
	CPUs        int   `json:"cpus,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	PIDs        int   `json:"pids,omitempty"`
	GPUs        int   `json:"gpus,omitempty"`
}

// AttemptSpec is one attempt of a job. It contains no secrets.
type AttemptSpec struct {
	JobID          string            `json:"job_id"`
	RunID          string            `json:"run_id"`
	Attempt        int               `json:"attempt"`
	Recipe         string            `json:"recipe"`
	RecipeVersion  string            `json:"recipe_version"`
	RecipeDigest   string            `json:"recipe_digest"`
	Package        *ObjectRef        `json:"package,omitempty"`
	Environment    EnvironmentSpec   `json:"environment"`
	Command        []string          `json:"command"`
	Hparams        []byte            `json:"hparams,omitempty"`
	Datasets       []DatasetInput    `json:"datasets,omitempty"`
	Model          *ModelInput       `json:"model,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	Seed           int64             `json:"seed"`
	IngestEndpoint string            `json:"ingest_endpoint"`
	Limits         Limits            `json:"limits"`
	Grace          time.Duration     `json:"grace"`
	Resume         *ResumePoint      `json:"resume,omitempty"`
	// NoNetwork closes the network of the attempt. The attempt then reaches only its own ports, the ingest endpoint and
	// the addresses in the agent's setting ClosedReach.
	NoNetwork bool `json:"no_network,omitempty"`
	// Batch is set if a batch system runs all ranks of the attempt.
	Batch *BatchSpec `json:"batch,omitempty"`
}

// ResumePoint is the checkpoint from which training resumes.
type ResumePoint struct {
	ArtifactID string    `json:"artifact_id"`
	Step       *int64    `json:"step,omitempty"`
	File       ObjectRef `json:"file"`
}

// DatasetInput is a dataset bound to a name in the recipe.
type DatasetInput struct {
	Name   string      `json:"name"`
	Ref    string      `json:"ref"`
	Digest string      `json:"digest"`
	Files  []ObjectRef `json:"files"`
}

// ModelInput is the model from which training starts.
type ModelInput struct {
	Ref    string      `json:"ref"`
	Digest string      `json:"digest"`
	Files  []ObjectRef `json:"files"`
}

// EngineSpec is one serving engine of a revision.
type EngineSpec struct {
	DeploymentID   string          `json:"deployment_id"`
	RevisionID     string          `json:"revision_id"`
	RevisionNumber int             `json:"revision_number"`
	Driver         string          `json:"driver"`
	Model          []ObjectRef     `json:"model"`
	ModelDigest    string          `json:"model_digest"`
	ServedNames    []string        `json:"served_names"`
	Command        []string        `json:"command,omitempty"`
	Environment    EnvironmentSpec `json:"environment"`
	Args           []string        `json:"args,omitempty"`
	Task           string          `json:"task"`
	Limits         Limits          `json:"limits"`
	ProbeDeadline  time.Duration   `json:"probe_deadline"`
}

// Token is an ingest token with the lease of its attempt.
type Token struct {
	Secret    secret.String
	ExpiresAt time.Time
	// Lease is the token with which the lease is renewed; empty if the control plane has no leases. Silence is the time
	// without a renewal after which the attempt must end; 0 means never.
	Lease   secret.String
	Silence time.Duration
}
