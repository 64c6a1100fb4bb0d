package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// streamTokens is the number of tokens that the stream probe requests.
const streamTokens = 4

// stream requests a few tokens as a stream of events. It accepts comment lines, a missing [DONE] and a usage field in
// any event, because real engines send such streams.
func (w *probing) stream(ctx context.Context) (string, error) {
	path, request := w.requestFor(true, streamTokens)
	resp, err := w.send(ctx, http.MethodPost, path, request, w.target.Key)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body := io.LimitReader(resp.Body, maxAnswer)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		words, _ := io.ReadAll(body)
		return "", fmt.Errorf("the engine responded with status %d, content type %q: %s", resp.StatusCode, kind, words)
	}
	events, done, err := countEvents(body)
	w.result.Capabilities["done"] = done
	if err != nil {
		return "", err
	}
	if events == 0 {
		return "", errors.New("the stream contains no event with a choice")
	}
	return "", nil
}

// countEvents counts the events that contain a choice. done reports whether the stream contained [DONE].
func countEvents(body io.Reader) (events int, done bool, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if data = strings.TrimSpace(data); !ok || data == "" {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var r reply
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			return events, done, fmt.Errorf("decode a stream event: %w", err)
		}
		if len(r.Choices) > 0 {
			events++
		}
	}
	if err := lines.Err(); err != nil {
		return events, done, fmt.Errorf("read the stream: %w", err)
	}
	return events, done, nil
}

// Deadline returns the time limit for all probes of an engine together.
func Deadline(spec executor.EngineSpec) time.Duration {
	if spec.ProbeDeadline > 0 {
		return spec.ProbeDeadline
	}
	return usualDeadline
}

const usualDeadline = 2 * time.Minute
