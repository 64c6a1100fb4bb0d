// Package jobspec implements the submission dialect service/v1: the spec with its defaults, its stored canonical form,
// and the check of hyperparameters against a recipe's schema. Registry looks up what a spec refers to: recipe
// versions, packages, and the datasets and models of its bindings, with the caller's identity. What the caller may not
// see is reported as unknown.
//
// Equivalent submissions have the same canonical form and digest, and no field of the API is lost. The package stores
// nothing. Only the *_proto.go files use proto types.
package jobspec

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Dialect is the JobSpec dialect of this control plane.
const Dialect = "service/v1"

// DefaultProject is the project of a job whose spec contains no project.
const DefaultProject = "default"

// Spec is a JobSpec with all defaults set. Its canonical JSON is stored, shown to users and digested.
type Spec struct {
	Name      string            `json:"name"`
	Project   string            `json:"project"`
	Labels    map[string]string `json:"labels"`
	Notes     string            `json:"notes"`
	Source    Source            `json:"source"`
	Recipe    RecipeRef         `json:"recipe"`
	Image     *Image            `json:"image"`
	Hparams   json.RawMessage   `json:"hparams"`
	Bindings  Bindings          `json:"bindings"`
	Resources Resources         `json:"resources"`
	Env       map[string]string `json:"env"`
	Priority  int               `json:"priority"`
	Limits    Limits            `json:"limits"`
	Retry     Retry             `json:"retry"`
	Seed      *int64            `json:"seed"`
	// Checkpoint controls how the job is paused and which of its checkpoints are kept.
	Checkpoint Checkpoint `json:"checkpoint"`
	// Network is NetworkNone or empty. An empty value is left out of the canonical form, because earlier releases
	// stored the form without this field.
	Network string `json:"network,omitempty"`
	// Runtime is the environment of the user's command, or nil. It is left out of the canonical form like Network.
	Runtime *Runtime `json:"runtime,omitempty"`
}

// Runtime is the environment of a user's command. Exactly one field is set.
type Runtime struct {
	Node         string `json:"node,omitempty"`
	Requirements string `json:"requirements,omitempty"`
	Image        *Image `json:"image,omitempty"`
}

// ContainerImage returns the image in which the job requests to run, and the field that contains it. It returns nil if the
// job requests none.
func (s *Spec) ContainerImage() (image *Image, field string) {
	if s.Runtime != nil && s.Runtime.Image != nil {
		return s.Runtime.Image, "spec.runtime.image"
	}
	return s.Image, "spec.image"
}

// NetworkNone is the network of a job that can reach only its own ports and the public listener of the platform.
const NetworkNone = "none"

// Source is the code and the command to run.
type Source struct {
	Entrypoint string   `json:"entrypoint"`
	Command    []string `json:"command"`
	Package    string   `json:"package"`
}

// RecipeRef is a recipe version with its lock.
type RecipeRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Lock    Lock   `json:"lock"`
}

// Lock is the content of recipe.lock.json.
type Lock struct {
	API                string    `json:"api"`
	Name               string    `json:"name"`
	Version            string    `json:"version"`
	Digest             string    `json:"digest"`
	Framework          Framework `json:"framework"`
	ParamsSchemaDigest string    `json:"params_schema_digest"`
	CatalogDigest      string    `json:"catalog_digest"`
	LockedAt           string    `json:"locked_at"`
}

// Framework is the framework that a recipe is built on.
type Framework struct {
	Name      string `json:"name"`
	RuntimeID string `json:"runtime_id"`
	Image     string `json:"image"`
}

// Image is a container image.
type Image struct {
	Ref string `json:"ref"`
}

// Bindings are the data that a job reads.
type Bindings struct {
	Datasets map[string]string `json:"datasets"`
	Model    string            `json:"model"`
}

// Resources are the pools of a gang.
type Resources struct {
	Pools []job.Pool `json:"pools"`
}

// Limits bound the time, in seconds, that a job may spend running, starting and queued.
type Limits struct {
	RunningS  int `json:"running_s"`
	StartingS int `json:"starting_s"`
	QueuedS   int `json:"queued_s"`
}

// Retry controls how a failed attempt is repeated.
type Retry struct {
	Max       int      `json:"max"`
	On        []string `json:"on"`
	ExitCodes []int32  `json:"exit_codes"`
	BackoffS  int      `json:"backoff_s"`
	Resume    string   `json:"resume"`
}

// Checkpoint controls how a job is paused, and which of its checkpoints are kept. The fields for the latter are left out of
// the canonical form like Network if all checkpoints are kept.
type Checkpoint struct {
	GraceS           int  `json:"grace_s"`
	RequiredForPause bool `json:"required_for_pause"`
	// KeepLast is the number of the newest checkpoints that are kept; 0 keeps all.
	KeepLast int `json:"keep_last,omitempty"`
	// KeepBest is the key of the metric whose best checkpoint is kept too, or empty.
	KeepBest string `json:"keep_best,omitempty"`
	// KeepBestGoal is GoalMinimize or GoalMaximize. It is empty in a submission without a goal of its own.
	KeepBestGoal string `json:"keep_best_goal,omitempty"`
}

// Which values of a metric are better.
const (
	GoalMinimize = "minimize"
	GoalMaximize = "maximize"
)

// DefaultPriority is the priority of a job that requests none. Only owners of the project and admins may request a
// higher priority, because it delays the jobs of all other users.
const DefaultPriority = 50

// The defaults of a spec.
const (
	defaultRole     = "trainer"
	defaultRunningS = 86_400
	defaultStartS   = 3_600
	defaultQueuedS  = 604_800
	defaultRetries  = 3
	defaultBackoffS = 1
	defaultGraceS   = 300
)

// maxSeed is the largest integer that is exact in JSON, whose numbers are doubles.
const maxSeed = 1<<53 - 1

// Complete sets the fields that are missing in a spec that an earlier release stored.
func (s *Spec) Complete() {
	if s.Checkpoint == (Checkpoint{}) {
		s.Checkpoint = Checkpoint{GraceS: defaultGraceS, RequiredForPause: true}
	}
	if len(s.Retry.On) == 0 {
		s.Retry.On = []string{job.RetryInfra, job.RetryPreempted}
	}
	if s.Retry.ExitCodes == nil {
		s.Retry.ExitCodes = []int32{}
	}
	s.Retry.BackoffS = max(s.Retry.BackoffS, defaultBackoffS)
	if s.Retry.Resume == "" {
		s.Retry.Resume = job.ResumeLatest
	}
}

// Canonical returns the canonical JSON of a resolved spec, which is stored, and its digest.
func (s *Spec) Canonical() (form []byte, digest string, err error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, "", fmt.Errorf("encode the spec: %w", err)
	}
	if form, err = canon.JSON(raw); err != nil {
		return nil, "", fmt.Errorf("encode the spec: %w", err)
	}
	digest, err = canon.Digest(form)
	return form, digest, err
}

// MaskedValue replaces the values of environment variables for callers who may not read them.
const MaskedValue = secret.Masked

// MaskEnv returns a stored spec in which every value of an environment variable is MaskedValue.
func MaskEnv(spec []byte) ([]byte, error) {
	var masked struct{ Env map[string]string }
	var fields map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(spec, &masked), json.Unmarshal(spec, &fields)); err != nil {
		return nil, fmt.Errorf("decode the spec: %w", err)
	}
	if len(masked.Env) == 0 {
		return spec, nil
	}
	for name := range masked.Env {
		masked.Env[name] = MaskedValue
	}
	raw, err := json.Marshal(masked.Env)
	if err != nil {
		return nil, fmt.Errorf("encode the masked environment: %w", err)
	}
	fields["env"] = raw
	if raw, err = json.Marshal(fields); err != nil {
		return nil, fmt.Errorf("encode the masked spec: %w", err)
	}
	return canon.JSON(raw)
}
