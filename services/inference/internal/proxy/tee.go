package proxy

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

const (
	// maxTee is the maximum size of a response that is copied to read its usage, in bytes.
	maxTee = 1 << 20
	// tailKept is the minimum number of bytes at the end of a stream that are kept. The usage is in the last events.
	tailKept = 16 << 10
)

// tee copies a part of a response while it is relayed: the last bytes of an event stream, or any other response if it
// is not longer than maxTee.
type tee struct {
	stream bool
	buf    []byte
	over   bool
}

func (t *tee) take(p []byte) {
	if t.over {
		return
	}
	t.buf = append(t.buf, p...)
	switch {
	case t.stream && len(t.buf) > 2*tailKept:
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailKept:]...)
	case !t.stream && len(t.buf) > maxTee:
		t.buf, t.over = nil, true
	}
}

// atBoundary reports whether the stream so far ends with a complete event.
func (t *tee) atBoundary() bool {
	return len(t.buf) == 0 || bytes.HasSuffix(t.buf, []byte("\n\n")) || bytes.HasSuffix(t.buf, []byte("\r\n\r\n"))
}

// engineAnswer holds the fields of a response that are recorded. All other fields are ignored.
type engineAnswer struct {
	Model   *string `json:"model"`
	Choices []struct {
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     *int32 `json:"prompt_tokens"`
		Completion *int32 `json:"completion_tokens"`
	} `json:"usage"`
}

// fill copies the model, the finish reason and the usage of the response to the record. Missing values stay
// unset; they are never estimated.
func (t *tee) fill(c *traffic.Call) {
	if !t.stream {
		fillFrom(t.buf, c)
		return
	}
	for line := range bytes.Lines(t.buf) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			fillFrom(data, c)
		}
	}
}

func fillFrom(raw []byte, c *traffic.Call) {
	var a engineAnswer
	if json.Unmarshal(raw, &a) != nil {
		return
	}
	if a.Model != nil {
		c.ResponseModel = short(*a.Model, maxModel)
	}
	for _, choice := range a.Choices {
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			c.FinishReason = short(*choice.FinishReason, maxReason)
		}
	}
	if a.Usage != nil && a.Usage.Prompt != nil {
		c.PromptTokens, c.CompletionTokens, c.UsageSource = a.Usage.Prompt, a.Usage.Completion, traffic.UsageEngine
	}
}

// request holds the fields of a request body that are recorded.
type request struct {
	Model  *string `json:"model"`
	Stream bool    `json:"stream"`
}

// readRequest reads the requested model and whether the request is for a stream. Both are unset if the body is
// not JSON.
func readRequest(contentType string, body []byte) request {
	var r request
	if strings.Contains(contentType, "json") && json.Unmarshal(body, &r) != nil {
		return request{}
	}
	if r.Model != nil {
		r.Model = short(*r.Model, maxModel)
	}
	return r
}

// Maximum lengths of a recorded model name and a recorded finish reason, in bytes.
const (
	maxModel  = 256
	maxReason = 64
)

func short(s string, n int) *string {
	s = cut(s, n)
	return &s
}

// cut shortens a text to n bytes, with the mark … at its end, and removes what a text column cannot store.
func cut(s string, n int) string {
	const mark = "…"
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) > n {
		return strings.ToValidUTF8(s[:n-len(mark)], "") + mark
	}
	return strings.ToValidUTF8(s, "")
}
