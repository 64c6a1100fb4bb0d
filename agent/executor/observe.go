package executor

import (
	"encoding/json"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Phase is the progress of an execution. It never returns to an earlier phase.
type Phase string

// The phases, in order.
const (
	PhasePending    Phase = "pending"
	PhasePreparing  Phase = "preparing"
	PhaseRunning    Phase = "running"
	PhaseCollecting Phase = "collecting"
	PhaseExited     Phase = "exited"
	PhaseGone       Phase = "gone"
)

// Reason states why an execution ended. It is empty if the process exited by itself.
type Reason string

// The complete list of reasons.
const (
	ReasonEnvBuild Reason = "env_build"
	ReasonFetch    Reason = "fetch"
	ReasonOOM      Reason = "oom_host"
	ReasonLost     Reason = "lost"
	ReasonStopped  Reason = "stopped"
	ReasonStart    Reason = "start"
	ReasonDeadline Reason = "deadline"
)

// MaxMessage is the maximum size in bytes of Exit.Message and of the result of a failed probe.
const MaxMessage = 4096

// DetailFrozen is the detail of a running execution whose processes are stopped because the disk of the node is full.
// The jobs service looks for this text to record when a freeze begins and ends.
const DetailFrozen = "frozen: the disk of the node is full"

// Exit describes how an execution ended.
type Exit struct {
	// Code is the exit code; -1 if a signal ended the process, nothing was started or the exit code is unknown.
	Code    int    `json:"code"`
	Signal  int    `json:"signal,omitempty"`
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Observation is the known state of one execution.
type Observation struct {
	Key
	Phase Phase `json:"phase"`
	// Detail describes the current step in words.
	Detail      string    `json:"detail,omitempty"`
	PreparingAt time.Time `json:"preparing_at"`
	RunningAt   time.Time `json:"running_at"`
	ExitedAt    time.Time `json:"exited_at"`
	Exit        *Exit     `json:"exit,omitempty"`
	// Uncollected means that not all of the log and the reports of an exited attempt were delivered.
	Uncollected bool          `json:"uncollected,omitempty"`
	Engine      *EngineReport `json:"engine,omitempty"`
	// Batch is set for an attempt that a batch system holds or runs. Until the batch system has started the attempt, its
	// phase is PhasePending, even while its inputs are prepared.
	Batch *BatchReport `json:"batch,omitempty"`
}

// Readiness is the progress of an engine's start.
type Readiness string

// The states of an engine.
const (
	EngineStarting Readiness = "starting"
	EngineProbing  Readiness = "probing"
	EngineReady    Readiness = "ready"
	EngineFailed   Readiness = "failed"
)

// Code identifies the check that failed for an engine.
type Code string

// The codes that an executor can report.
const (
	CodeEngineExited     Code = "engine_exited"
	CodePortTimeout      Code = "port_timeout"
	CodePortTaken        Code = "port_taken"
	CodeModelNameMissing Code = "model_name_missing"
	CodeWeightsMismatch  Code = "weights_mismatch"
	CodeWeightsFetch     Code = "weights_fetch"
	CodeEnvBuild         Code = "env_build"
	CodeGenerateFailed   Code = "generate_failed"
	CodeStreamFailed     Code = "stream_buffered"
	CodeOOMHost          Code = "oom_host"
)

// EngineReport is the known state of an engine. Ready is true only after the running process has generated a
// token or an embedding.
type EngineReport struct {
	Address string        `json:"address,omitempty"`
	APIKey  secret.String `json:"-"`
	PID     int           `json:"pid,omitempty"`
	Ready   bool          `json:"ready"`
	Phase   Readiness     `json:"phase"`
	Code    Code          `json:"code,omitempty"`
	Message string        `json:"message,omitempty"`
	// Probes is a JSON object with the results of the probes.
	Probes     json.RawMessage `json:"probes,omitempty"`
	ReadyAt    time.Time       `json:"ready_at"`
	Restarts   int             `json:"restarts"`
	LogExcerpt string          `json:"log_excerpt,omitempty"`
}
