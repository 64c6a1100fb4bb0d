package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// reply is the response to a request that should be rejected.
type reply struct {
	Status int
	Code   string
	Detail string  // the detail if it is a string
	Fields []entry // the detail if it is a list
	Body   string
}

// entry is one validation error of a 422.
type entry struct {
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
	Type string `json:"type"`
}

// at reports whether the reply has an error with exactly this location.
func (r reply) at(loc ...any) bool {
	want, _ := json.Marshal(loc)
	for _, f := range r.Fields {
		got, _ := json.Marshal(f.Loc)
		if string(got) == string(want) {
			return true
		}
	}
	return false
}

// types returns the types of the errors at this location.
func (r reply) types(loc ...any) []string {
	want, _ := json.Marshal(loc)
	var out []string
	for _, f := range r.Fields {
		if got, _ := json.Marshal(f.Loc); string(got) == string(want) {
			out = append(out, f.Type)
		}
	}
	return out
}

// requestLimit is the time within which a response must be complete.
const requestLimit = time.Minute

// request sends a request with exactly this body. If body is empty, the request has no body. It does not read the body
// of an event stream, which has no end.
func request(ctx context.Context, t *testing.T, s *testenv.Installation, token, method, path, body string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, reader)
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err, "%s %s", method, path)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == "text/event-stream" {
		return reply{Status: resp.StatusCode}
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	require.NoError(t, err, "%s %s: cannot read the body of the response with status %d", method, path, resp.StatusCode)
	r := reply{Status: resp.StatusCode, Body: string(raw)}
	if method == http.MethodHead || resp.StatusCode < 400 {
		return r
	}
	var fault struct {
		Detail json.RawMessage `json:"detail"`
		Code   string          `json:"code"`
	}
	require.NoError(t, json.Unmarshal(raw, &fault), "%s %s: %s", method, path, raw)
	r.Code = fault.Code
	if json.Unmarshal(fault.Detail, &r.Detail) != nil {
		require.NoError(t, json.Unmarshal(fault.Detail, &r.Fields), "%s %s: %s", method, path, raw)
	}
	return r
}
