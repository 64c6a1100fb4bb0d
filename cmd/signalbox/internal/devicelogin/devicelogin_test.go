package devicelogin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

const codes = `{"device_code":"hunter2","user_code":"WDJB-MJHT","verification_uri":"https://x.example/device",
"verification_uri_complete":"https://x.example/device?code=WDJB-MJHT","expires_in":60,"interval":5}`

// observed calls a function before each poll.
type observed struct {
	http.RoundTripper

	poll func()
}

func (o *observed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/api/cli/device/token" {
		o.poll()
	}
	return o.RoundTripper.RoundTrip(r)
}

// script responds to the polls one after the other, an empty response with an aborted connection. The last one repeats.
func script(t *testing.T, start string, polls ...string) *client.Client {
	t.Helper()
	c, _ := observedScript(t, start, polls...)
	return c
}

func observedScript(t *testing.T, start string, polls ...string) (*client.Client, *observed) {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/cli/device/code" {
			_, _ = io.WriteString(w, start)
			return
		}
		poll := polls[min(int(n.Add(1)), len(polls))-1]
		raw, _ := io.ReadAll(r.Body)
		if poll == "" || !strings.Contains(string(raw), "hunter2") {
			panic(http.ErrAbortHandler)
		}
		status, body, _ := strings.Cut(poll, " ")
		code := map[string]int{"200": 200, "400": 400, "404": 404, "429": 429, "502": 502, "503": 503}[status]
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	o := &observed{RoundTripper: &http.Transport{DisableKeepAlives: true}, poll: func() {}}
	return client.New(server.URL, o), o
}

// await runs Await and returns the pauses before the polls. The clock moves only while Await sleeps.
func await(t *testing.T, polls ...string) (token Token, pauses []time.Duration, err error) {
	t.Helper()
	c, o := observedScript(t, codes, polls...)
	r, err := Start(t.Context(), c)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%+v", r), "hunter2")
	clk := clock.NewFake(time.Unix(0, 0))
	last := clk.Now()
	o.poll = func() {
		pauses = append(pauses, clk.Now().Sub(last))
		last = clk.Now()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		token, err = Await(t.Context(), c, clk, r)
	}()
	for clk.Await(ctx, 1) == nil {
		clk.Advance(time.Second)
	}
	<-done
	return token, pauses, err
}

func TestAwait(t *testing.T) {
	t.Parallel()
	const s = time.Second
	const pending, slow = `400 {"error":"authorization_pending","detail":"wait"}`, `400 {"error":"slow_down"}`
	const approved = `200 {"access_token":"tok","expires_in":28800}`
	for name, tc := range map[string]struct {
		polls  []string
		pauses []time.Duration
		want   error
	}{
		"approved at once":      {[]string{approved}, []time.Duration{5 * s}, nil},
		"pending":               {[]string{pending, pending, approved}, []time.Duration{5 * s, 5 * s, 5 * s}, nil},
		"pending with 200":      {[]string{`200 {"error":"authorization_pending"}`, approved}, []time.Duration{5 * s, 5 * s}, nil},
		"slow down":             {[]string{slow, pending, slow, approved}, []time.Duration{5 * s, 10 * s, 10 * s, 15 * s}, nil},
		"too many requests":     {[]string{`429 {"detail":"too many"}`, "429 <html>", approved}, []time.Duration{5 * s, 10 * s, 15 * s}, nil},
		"server away meanwhile": {[]string{"", "502 <html>bad gateway", `503 {"detail":"draining"}`, pending, approved}, []time.Duration{5 * s, 5 * s, 5 * s, 5 * s, 5 * s}, nil},
		"denied":                {[]string{pending, `400 {"error":"access_denied"}`}, []time.Duration{5 * s, 5 * s}, ErrDenied},
		"expired on the server": {[]string{`400 {"error":"expired_token"}`}, []time.Duration{5 * s}, ErrExpired},
		"expired here":          {[]string{slow, slow, ""}, []time.Duration{5 * s, 10 * s, 15 * s, 15 * s, 15 * s}, ErrExpired},
		"no token":              {[]string{`200 {}`}, []time.Duration{5 * s}, errResponse},
		"a page":                {[]string{`200 <html>`}, []time.Duration{5 * s}, errResponse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token, pauses, err := await(t, tc.polls...)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, tc.pauses, pauses)
			if tc.want == nil {
				require.Equal(t, "tok", token.Access.Reveal())
				require.Equal(t, 8*time.Hour, token.Valid)
			}
		})
	}
}

func TestAwait_refused(t *testing.T) {
	t.Parallel()
	_, _, err := await(t, `404 {"detail":"Not Found"}`)
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 404, refused.Status)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestAwait_contextEnds(t *testing.T) {
	t.Parallel()
	c := script(t, codes, "")
	r, err := Start(t.Context(), c)
	require.NoError(t, err)
	over := errors.New("the time is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	_, err = Await(ctx, c, clock.Real(), r)
	require.ErrorIs(t, err, over)
}

func TestStart_invalidResponses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{}`, strings.Replace(codes, "https://x.example/device?", "file:///etc/passwd?", 1), strings.Replace(codes, "https://x.example/device?", "javascript:alert(1)?", 1),
		strings.Replace(codes, "60", "0", 1), strings.Replace(codes, "hunter2", "", 1),
	} {
		_, err := Start(t.Context(), script(t, body))
		require.ErrorIs(t, err, errResponse, body)
	}
	_, err := Start(t.Context(), script(t, "<html>"))
	require.ErrorContains(t, err, "request a code")
	r, err := Start(t.Context(), script(t, strings.Replace(codes, "verification_uri_complete", "x", 1)))
	require.NoError(t, err)
	require.Equal(t, "https://x.example/device", r.Complete)
}
