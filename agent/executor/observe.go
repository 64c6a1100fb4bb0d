package executor

import (
	"encoding/json"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Phase is how far an execution has come. It never goes back.
type Phase string

// The phases in their order.
const (
	PhasePending    Phase = "pending"
	PhasePreparing  Phase = "preparing"
	PhaseRunning    Phase = "running"
	PhaseCollecting Phase = "collecting"
	PhaseExited     Phase = "exited"
	PhaseGone       Phase = "gone"
)

// Reason is why an execution ended in another way than by its own exit code.
type Reason string

// The closed list; the empty reason is the process's own end.
const (
	ReasonEnvBuild Reason = "env_build"
	ReasonFetch    Reason = "fetch"
	ReasonOOM      Reason = "oom_host"
	ReasonLost     Reason = "lost"
	ReasonStopped  Reason = "stopped"
	ReasonStart    Reason = "start"
	ReasonDeadline Reason = "deadline"
)

// MaxMessage bounds Exit.Message, in bytes.
const MaxMessage = 4096

// Exit tells how an execution ended.
type Exit struct {
	// Code is the exit code, -1 where a signal ended it or nothing was started.
	Code    int    `json:"code"`
	Signal  int    `json:"signal,omitempty"`
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Observation is what an executor knows of one execution.
type Observation struct {
	Key
	Phase Phase `json:"phase"`
	// Detail says for people what is being done.
	Detail      string        `json:"detail,omitempty"`
	PreparingAt time.Time     `json:"preparing_at"`
	RunningAt   time.Time     `json:"running_at"`
	ExitedAt    time.Time     `json:"exited_at"`
	Exit        *Exit         `json:"exit,omitempty"`
	Engine      *EngineReport `json:"engine,omitempty"`
}

// Readiness is how far an engine has come.
type Readiness string

// The readiness of an engine.
const (
	EngineStarting Readiness = "starting"
	EngineProbing  Readiness = "probing"
	EngineReady    Readiness = "ready"
	EngineFailed   Readiness = "failed"
)

// Code says which check an engine failed.
type Code string

// The codes of areas-serving.md 2.2 that an executor can tell.
const (
	CodeEngineExited     Code = "engine_exited"
	CodePortTimeout      Code = "port_timeout"
	CodeModelNameMissing Code = "model_name_missing"
	CodeWeightsMismatch  Code = "weights_mismatch"
	CodeWeightsFetch     Code = "weights_fetch"
	CodeEnvBuild         Code = "env_build"
	CodeGenerateFailed   Code = "generate_failed"
	CodeStreamFailed     Code = "stream_buffered"
	CodeOOMHost          Code = "oom_host"
)

// EngineReport is what is known of an engine. Ready is true only after a token
// that the running process has really generated.
type EngineReport struct {
	Address string        `json:"address,omitempty"`
	APIKey  secret.String `json:"-"`
	PID     int           `json:"pid,omitempty"`
	Ready   bool          `json:"ready"`
	Phase   Readiness     `json:"phase"`
	Code    Code          `json:"code,omitempty"`
	Message string        `json:"message,omitempty"`
	// Probes is a JSON object.
	Probes     json.RawMessage `json:"probes,omitempty"`
	ReadyAt    time.Time       `json:"ready_at"`
	Restarts   int             `json:"restarts"`
	LogExcerpt string          `json:"log_excerpt,omitempty"`
}
