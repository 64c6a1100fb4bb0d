package proxy

import (
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
	"github.com/signalbox-dev/signalbox/services/inference/internal/usage"
)

// tee is a streamed request body whose parts are read for the record after they were read to be sent.
type tee struct {
	in io.Reader
	to *usage.Request
}

// Read implements io.Reader.
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.in.Read(p)
	t.to.Take(p[:n])
	return n, err
}

// noteRequest records what the request contains. It must be called when sending it has ended. A second call does nothing.
func (e *exchange) noteRequest() {
	if e.reader == nil {
		return
	}
	wanted := e.reader.Close()
	if e.reader = nil; e.upload != nil {
		e.rec.RequestBytes = e.upload.read
	}
	e.rec.Stream = e.rec.Stream || wanted.Stream
	if wanted.Model != "" {
		e.rec.RequestedModel = short(wanted.Model, maxModel)
	}
}

// noteResponse records what the response contains. What it does not contain stays unset.
func noteResponse(c *traffic.Call, f usage.Found) {
	if f.Model != "" {
		c.ResponseModel = short(f.Model, maxModel)
	}
	if f.Finish != "" {
		c.FinishReason = short(f.Finish, maxReason)
	}
	if f.Prompt != nil || f.Completion != nil {
		c.PromptTokens, c.CompletionTokens, c.UsageSource = f.Prompt, f.Completion, traffic.UsageEngine
	}
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
