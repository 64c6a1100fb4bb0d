package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// maxAnswer is the maximum number of bytes read from a response.
const maxAnswer = 1 << 20

// models checks that the model list contains one of the target's names. An engine
// without a model list passes.
func (w *probing) models(ctx context.Context) (string, error) {
	status, body, err := w.sendUntilReady(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return "", err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	// Treat a malformed list as an empty list.
	_ = json.Unmarshal(body, &list)
	if status != http.StatusOK || len(list.Data) == 0 {
		w.result.Capabilities["model_list"] = false
		return "the engine has no model list", nil
	}
	w.result.Capabilities["model_list"] = true
	var ids []string
	for _, m := range list.Data {
		if slices.Contains(w.target.Names, m.ID) {
			return "", nil
		}
		ids = append(ids, m.ID)
	}
	return "", fmt.Errorf("the engine's model list %q contains none of %q", ids, w.target.Names)
}

// generate requests one token, or an embedding, and checks that the engine generated it.
func (w *probing) generate(ctx context.Context) (string, error) {
	path, request := w.requestFor(false, 1)
	status, body, err := w.sendUntilReady(ctx, http.MethodPost, path, request)
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		return "", fmt.Errorf("the engine responded with status %d: %s", status, body)
	}
	var a reply
	if err := json.Unmarshal(body, &a); err != nil {
		return "", fmt.Errorf("the engine's response cannot be decoded: %s", body)
	}
	w.result.Capabilities["usage"] = a.Usage != nil
	if !a.generated() {
		return "", fmt.Errorf("the engine generated no token: %s", body)
	}
	return "", nil
}

// capabilities records whether the engine rejects a wrong API key. This does not affect readiness.
func (w *probing) capabilities(ctx context.Context) (string, error) {
	path, request := w.requestFor(false, 1)
	resp, err := w.send(ctx, http.MethodPost, path, request, secret.New("wrong-"+w.target.Key.Reveal()))
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	w.result.Capabilities["key_checked"] = resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
	return "", err
}

// requestFor returns the path and the body of a request for the given number of tokens.
func (w *probing) requestFor(stream bool, tokens int) (string, []byte) {
	body := map[string]any{"model": w.target.Model}
	path := "/v1/chat/completions"
	switch w.target.Task {
	case taskEmbedding:
		path = "/v1/embeddings"
		body["input"] = "Hi"
	case "completion":
		path = "/v1/completions"
		body["prompt"] = "Hi"
		body["max_tokens"] = tokens
	default:
		body["messages"] = []map[string]string{{"role": "user", "content": "Hi"}}
		body["max_tokens"] = tokens
	}
	if stream {
		body["stream"] = true
	}
	// Marshal cannot fail: the map holds only strings, numbers, bools and slices of maps.
	raw, _ := json.Marshal(body)
	return path, raw
}

// sendUntilReady repeats a request while the engine is unreachable or still loading. After the deadline it returns the
// error of the last try. It ignores the error of a try that the deadline cut off, unless that was the only try.
func (w *probing) sendUntilReady(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	var last error
	for {
		status, answer, err := w.once(ctx, method, path, body)
		if err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			return status, answer, nil
		}
		if err == nil {
			err = fmt.Errorf("the engine responded with status %d: %s", status, answer)
		}
		if last == nil || ctx.Err() == nil || status != 0 {
			last = err
		}
		if clock.Sleep(ctx, w.clock, interval) != nil {
			return 0, nil, fmt.Errorf("timeout after %s: %w", w.target.Deadline, last)
		}
	}
}

func (w *probing) once(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	resp, err := w.send(ctx, method, path, body, w.target.Key)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("read the engine's response: %w", err)
	}
	return resp.StatusCode, answer, nil
}

func (w *probing) send(ctx context.Context, method, path string, body []byte, key secret.String) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.target.Address+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create the request to the engine: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if !key.IsZero() {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("send the request to the engine: %w", err)
	}
	return resp, nil
}

// reply has the fields that the probes read from the three types of responses and from stream events.
type reply struct {
	Choices []struct {
		Message *struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		} `json:"message"`
		Delta *struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		} `json:"delta"`
		Text string `json:"text"`
	} `json:"choices"`
	Data []struct {
		Embedding []float64 `json:"embedding"`
	} `json:"data"`
	Usage *struct {
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

// generated reports whether the reply contains a token or an embedding. The text of a token may be empty,
// because a token can be less than a character. A positive token count is therefore sufficient.
func (r reply) generated() bool {
	for _, d := range r.Data {
		if slices.ContainsFunc(d.Embedding, func(x float64) bool { return x != 0 }) {
			return true
		}
	}
	for _, c := range r.Choices {
		if c.Text != "" || (c.Message != nil && c.Message.Content+c.Message.Reasoning != "") ||
			(c.Delta != nil && c.Delta.Content+c.Delta.Reasoning != "") {
			return true
		}
	}
	return len(r.Choices) > 0 && r.Usage != nil && r.Usage.Completion > 0
}
