package llm

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Test first checks that the model returns text, then that the model calls a function. It stops at the first failure.
func (c Caller) Test(ctx context.Context, s Settings) Result {
	m := newMask(s.Key)
	r := Result{Configured: true, Model: s.Model, ToolsError: notTested}
	endpoint, err := endpointOf(s.BaseURL)
	if err != nil {
		r.Error = m.text(err.Error(), MaxText)
		return r
	}
	r.Endpoint = m.text(endpoint, MaxText)
	got, err := c.complete(ctx, m, s, endpoint, chatRequest{Messages: []message{textMessage("user", "Reply with the one word ready.")}})
	if err != nil {
		r.Error = m.text(err.Error(), 2*MaxText)
		return r
	}
	text := strings.TrimSpace(got.text())
	if text == "" {
		r.Error = "the model returned no text"
		return r
	}
	r.OK, r.Sample = true, prefix(m.text(text, maxRead), maxSample)
	if used := m.text(got.Model, 256); used != "" {
		r.Model = used
	}
	if err := c.tools(ctx, m, s, endpoint); err != nil {
		r.ToolsError = m.text(err.Error(), 2*MaxText)
		return r
	}
	r.ToolsOK, r.ToolsError = true, ""
	return r
}

// complete sends a chat request and returns the completion. If the response is not a completion, the error quotes it.
func (c Caller) complete(ctx context.Context, m mask, s Settings, endpoint string, in chatRequest) (completion, error) {
	in.Model = s.Model
	got, err := c.post(ctx, s, endpoint, in)
	if err != nil {
		return completion{}, err
	}
	if got.status < 200 || got.status > 299 {
		return completion{}, refusal{got.status, m.refused(got)}
	}
	return m.completion(got)
}

// refusal is the error for a response with a status other than 2xx.
type refusal struct {
	status int
	words  string
}

func (r refusal) Error() string { return r.words }

// refused describes a failed response: its status, a hint on the cause and the upstream's own text.
func (m mask) refused(a response) string {
	hint := ""
	switch a.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = ": the key is not accepted"
	case http.StatusNotFound:
		hint = ": unknown model or path"
	case http.StatusTooManyRequests:
		hint = ": the key's rate limit is reached"
	}
	if a.status >= 300 && a.status <= 399 {
		to := a.location
		if plain, err := url.PathUnescape(to); err == nil {
			to = plain
		}
		hint = ": a redirect to " + m.text(to, 512) + ", which is not followed"
	}
	words := m.words(a.body)
	if words == "" {
		words = "(empty)"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))) + hint + "; upstream response: " + words
}
