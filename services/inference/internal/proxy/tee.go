package proxy

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

const (
	// maxTee bounds what is kept of an answer to read its usage from.
	maxTee = 1 << 20
	// tailKept is how much of a stream's end is kept: usage comes with the last events.
	tailKept = 16 << 10
)

// tee keeps a bounded copy of an answer as it passes: the whole of a plain one, the end of a stream.
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

// atBoundary tells that what was taken of a stream ends with a whole event.
func (t *tee) atBoundary() bool {
	return len(t.buf) == 0 || bytes.HasSuffix(t.buf, []byte("\n\n")) || bytes.HasSuffix(t.buf, []byte("\r\n\r\n"))
}

// engineAnswer is what is read of an answer; the rest of it is nobody's business here.
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

// fill writes what the answer says of itself into the record; no number is ever invented.
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

// request is what is read of a caller's body.
type request struct {
	Model  *string `json:"model"`
	Stream bool    `json:"stream"`
}

// readRequest reads the model and whether a stream was asked for; bodies that are no JSON say neither.
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

// What of a name goes into the record.
const (
	maxModel  = 256
	maxReason = 64
)

func short(s string, n int) *string {
	s = cut(s, n)
	return &s
}

// cut bounds a text and drops what a column of text cannot hold.
func cut(s string, n int) string {
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
