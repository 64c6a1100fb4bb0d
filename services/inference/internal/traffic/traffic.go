// Package traffic owns the record of calls: one row per call that was sent to an engine. Calls are stored in batches,
// and requests do not wait for that. While the database is unavailable, calls are written to segments on disk, and
// stored exactly once when the database is available again. While the process runs, a call is lost only if the table
// rejects its data or writing to the disk fails. If the process is killed, at most the calls of the last batch interval
// are lost, or, while the database hangs, those that wait for its timeout.
//
// CallMetrics counts calls by outcome and measures them by deployment. It also counts what the record of calls cannot
// show: calls that were refused before they reached an engine, and calls that are missing from the table.
package traffic

import "time"

// The outcomes of a call.
const (
	OK           = "ok"
	ClientClosed = "client_closed"
	// ClientError is the outcome if the request was at fault: the engine responded with a status from 400 to 499 other than
	// 401, 403, 408 and 429, or the caller violated the protocol of a WebSocket.
	ClientError = "client_error"
	// EngineError is the outcome if the engine responded with another status from 400 on, with an event that reports an
	// error, or with an invalid response.
	EngineError = "engine_error"
	Unreachable = "engine_unreachable"
	// Timeout is the outcome if the engine did not begin or did not continue its response in time.
	Timeout   = "engine_timeout"
	Truncated = "upstream_truncated"
	Revoked   = "revoked"
	LeaseOver = "lease_over"
	// Suspended is the outcome of a call that was cut because its deployment was suspended.
	Suspended = "suspended"
	// The next two outcomes occur only for WebSockets.
	IdleOver = "idle"
	Draining = "draining"
	// SessionOver is the outcome of a call whose playground session ended during the call. It appears only in the
	// transcript of the session.
	SessionOver = "session_over"
)

// outcomes returns all outcomes.
func outcomes() []string {
	return []string{
		OK, ClientClosed, ClientError, EngineError, Unreachable, Timeout, Truncated, Revoked, LeaseOver, Suspended, IdleOver, Draining, SessionOver,
	}
}

// The sources of token counts.
const (
	UsageEngine = "engine"
	UsageNone   = "none"
)

// Call is the record of one call.
type Call struct {
	RequestID        string    `json:"request_id"`
	At               time.Time `json:"at"`
	DeploymentID     string    `json:"deployment_id"`
	RevisionID       string    `json:"revision_id"`
	RevisionNumber   int32     `json:"revision_number"`
	TokenID          string    `json:"token_id"`
	TokenName        string    `json:"token_name"`
	ReplicaID        string    `json:"replica_id"`
	Method           string    `json:"method"`
	Path             string    `json:"path"`
	Status           int32     `json:"status"`
	Outcome          string    `json:"outcome"`
	Stream           bool      `json:"stream"`
	RequestedModel   *string   `json:"requested_model"`
	ResponseModel    *string   `json:"response_model"`
	PromptTokens     *int32    `json:"prompt_tokens"`
	CompletionTokens *int32    `json:"completion_tokens"`
	UsageSource      string    `json:"usage_source"`
	FinishReason     *string   `json:"finish_reason"`
	TTFT             *float64  `json:"ttft_ms"`
	Duration         float64   `json:"duration_ms"`
	RequestBytes     int64     `json:"request_bytes"`
	ResponseBytes    int64     `json:"response_bytes"`
	// Frame counts of a WebSocket; nil for other calls.
	RequestFrames  *int64   `json:"request_frames,omitempty"`
	ResponseFrames *int64   `json:"response_frames,omitempty"`
	_              struct{} // forces literals to name their fields
}
