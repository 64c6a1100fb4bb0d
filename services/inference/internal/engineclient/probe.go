package engineclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Target is an engine to which calls are sent, and which the watchdog therefore watches.
type Target struct {
	Engine

	RevisionID string
	// ReplicaID is the engine's replica. Address is the engine's URL, which changes with each start of its process.
	ReplicaID, Address string
	APIKey             secret.String
	// Waits are how long calls wait for this engine, see Request.
	Waits Waits
	// Task is what a probe requests: chat (the default), completion or embedding.
	Task  string
	Model string
}

// Verdict is the result of a probe.
type Verdict string

// The results of a probe. Busy means that the engine did not respond but its token counters grew, and Stalled that they
// stood still. Silent means that it did not respond and reported no counters, so that it may be busy or hang.
// Unreachable means that no connection was possible: such an engine does not hang, and its node's agent restarts it.
const (
	Alive       Verdict = "alive"
	Busy        Verdict = "busy"
	Stalled     Verdict = "stalled"
	Silent      Verdict = "silent"
	Unreachable Verdict = "unreachable"
)

// Probe requests one token over a new connection. Any response means that the engine is alive. Without a response, its
// token counters show whether it has worked meanwhile.
func (c *Client) Probe(ctx context.Context, t Target, within time.Duration) Verdict {
	before, counts := c.progress(ctx, t, within)
	verdict := c.request(ctx, t, within)
	if verdict != Silent || !counts {
		return verdict
	}
	after, counts := c.progress(ctx, t, within)
	switch {
	case !counts:
		return Silent
	case after == before:
		return Stalled
	}
	c.silences.byte(t.Engine, c.Clock.Now())
	return Busy
}

// request requests one token.
func (c *Client) request(ctx context.Context, t Target, within time.Duration) Verdict {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := c.dial(limited, t.Engine)
	if err != nil {
		return Unreachable
	}
	path, body := probeRequest(t)
	conn.wait = c.silences.begin(t.Engine, c.Clock)
	defer conn.wait.end()
	resp, err := c.try(limited, conn, Request{
		Method: http.MethodPost, Target: path, Body: bytes.NewReader(body), Length: int64(len(body)),
		Header: httprelay.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "Authorization", Value: "Bearer " + t.APIKey.Reveal()}},
	})
	switch {
	case err == nil:
		// The rest of a short response is read, so that the engine does not log a broken connection.
		_, _ = io.CopyN(io.Discard, resp, bufferSize)
		_ = resp.Close()
		return Alive
	case ctx.Err() == nil && (errors.Is(err, ErrTimeout) || errors.Is(limited.Err(), context.DeadlineExceeded)):
		return Silent
	}
	return Unreachable
}

// probeRequest returns the path and the body of a request for one token.
func probeRequest(t Target) (string, []byte) {
	model := t.Model
	if model == "" {
		model = "default"
	}
	body := map[string]any{"model": model}
	path := "/v1/chat/completions"
	switch t.Task {
	case "embedding":
		path = "/v1/embeddings"
		body["input"] = "Hi"
	case "completion":
		path = "/v1/completions"
		body["prompt"], body["max_tokens"] = "Hi", 1
	default:
		body["messages"], body["max_tokens"] = []map[string]string{{"role": "user", "content": "Hi"}}, 1
	}
	// Marshal cannot fail: the map holds only strings, numbers and a slice of maps of strings.
	raw, _ := json.Marshal(body)
	return path, raw
}
