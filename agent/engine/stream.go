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

// streamTokens is how many tokens the streamed question asks for.
const streamTokens = 4

// stream asks for a few tokens as events. Comment lines, a missing [DONE] and
// usage anywhere are what real engines do.
func (w *probing) stream(ctx context.Context) (string, error) {
	path, ask := w.question(true, streamTokens)
	resp, err := w.send(ctx, http.MethodPost, path, ask, w.target.Key)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body := io.LimitReader(resp.Body, maxAnswer)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		words, _ := io.ReadAll(body)
		return "", fmt.Errorf("the engine answered %d %s: %s", resp.StatusCode, kind, words)
	}
	events, done, err := countEvents(body)
	w.result.Capabilities["done"] = done
	if err != nil {
		return "", err
	}
	if events == 0 {
		return "", errors.New("the stream had no event with a choice")
	}
	return "", nil
}

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
			return events, done, fmt.Errorf("an event of the stream is no JSON: %w", err)
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

// Deadline is how long the probes of a spec may take.
func Deadline(spec executor.EngineSpec) time.Duration {
	if spec.ProbeDeadline > 0 {
		return spec.ProbeDeadline
	}
	return usualDeadline
}

const usualDeadline = 2 * time.Minute
