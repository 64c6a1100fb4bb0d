package e2eflow

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// api is a server to which a test adds routes. It records all requests.
type api struct {
	*httptest.Server

	mux *http.ServeMux

	mu      sync.Mutex
	sent    []sentRequest
	changed chan struct{} // closed and replaced at each request
}

type sentRequest struct {
	path, key, bearer string
	body              map[string]any
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{mux: http.NewServeMux(), changed: make(chan struct{})}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		one := sentRequest{path: r.Method + " " + r.URL.RequestURI(), key: r.Header.Get("Idempotency-Key"), bearer: r.Header.Get("Authorization")}
		_ = json.Unmarshal(raw, &one.body)
		a.mu.Lock()
		a.sent = append(a.sent, one)
		close(a.changed)
		a.changed = make(chan struct{})
		a.mu.Unlock()
		a.mux.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// respond adds a route that returns the responses one after the other and then repeats the last one.
func (a *api) respond(route string, responses ...response) {
	var mu sync.Mutex
	n := 0
	a.mux.HandleFunc(route, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		one := responses[min(n, len(responses)-1)]
		n++
		mu.Unlock()
		if one.cut {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(one.status)
		_, _ = io.WriteString(w, one.body)
	})
}

type response struct {
	status int
	body   string
	cut    bool
}

func ok(body string) response { return response{status: http.StatusOK, body: body} }

func (a *api) requests() []sentRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]sentRequest(nil), a.sent...)
}

// await waits until the server has received n requests.
func (a *api) await(t *testing.T, n int) {
	t.Helper()
	for {
		a.mu.Lock()
		count, changed := len(a.sent), a.changed
		a.mu.Unlock()
		if count >= n {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			require.FailNow(t, "the server has not received enough requests")
		}
	}
}

func (a *api) loop(patience time.Duration) *Loop {
	return &Loop{
		Client: client.New(a.URL, nil), Clock: clock.Real(), Name: "walk", Timeout: patience,
		Job: Job{ID: "job_1", RunID: "run_1"}, Deployment: Deployment{ID: "dep_1"}, Revision: Revision{Number: 1},
	}
}

// long is the Timeout of most tests. Only a failing test reaches it in real time; runWithTimeout reaches it with a fake
// clock.
const long = time.Minute

// timeoutClock is the real clock, except that the timer of Loop.Timeout runs on a fake clock.
type timeoutClock struct {
	clock.Clock
	fake *clock.Fake
}

func (p timeoutClock) NewTimer(d time.Duration) clock.Timer {
	if d == long {
		return p.fake.NewTimer(d)
	}
	return p.Clock.NewTimer(d)
}

// runWithTimeout runs a stage and lets Loop.Timeout pass when the server has received the given number of
// requests. By then the stage has read all responses but the last.
func runWithTimeout(t *testing.T, a *api, requests int, stage func(l *Loop) error) error {
	t.Helper()
	l, fake := a.loop(long), clock.NewFake(clock.Real().Now())
	l.Clock = timeoutClock{clock.Real(), fake}
	done := make(chan error, 1)
	go func() { done <- stage(l) }()
	a.await(t, requests)
	fake.Advance(long)
	return <-done
}

func TestLoop_retriesTemporaryFailures(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]response{
		"502": {status: 502, body: `{"detail":"away"}`}, "503": {status: 503, body: `{"detail":"draining"}`}, "cut": {cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.respond("POST /api/jobs", first, first, ok(`{"id":"job_9","run_id":"run_9","state":"queued"}`))
			l := a.loop(long)
			require.NoError(t, l.Submit(t.Context(), map[string]any{"api": "service/v1"}))
			require.Equal(t, "job_9", l.Job.ID)
			all := a.requests()
			require.Len(t, all, 3)
			require.NotEmpty(t, all[0].key)
			for _, one := range all {
				require.Equal(t, all[0].key, one.key, "all attempts of one creation have the same key")
				require.Equal(t, all[0].body, one.body)
			}
		})
	}
}

func TestLoop_eachCreationHasItsOwnKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("POST /api/jobs", ok(`{"id":"job_9"}`))
	l := a.loop(long)
	require.NoError(t, l.Submit(t.Context(), nil))
	require.NoError(t, l.Submit(t.Context(), nil))
	require.NotEqual(t, a.requests()[0].key, a.requests()[1].key)
}

func TestLoop_doesNotRetryRefusals(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 409, 413, 422, 429, 500, 501} {
		a := newAPI(t)
		a.respond("POST /api/jobs", response{status: status, body: `{"detail":"no","code":"quota"}`})
		err := a.loop(long).Submit(t.Context(), nil)
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, status, e.Status)
		require.Len(t, a.requests(), 1, status)
	}
}

func TestLoop_retriesUntilServerStarts(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/jobs/job_1", ok(`{"id":"job_1","state":"running"}`))
	held, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := held.Addr().String()
	require.NoError(t, held.Close())
	l := a.loop(long)
	refused := make(chan struct{}, 64)
	l.Client = client.New("http://"+addr, &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, to)
		if err != nil {
			refused <- struct{}{}
		}
		return c, err
	}})
	done := make(chan error, 1)
	go func() { done <- l.AwaitState(t.Context(), "running") }()
	<-refused // at least one attempt has failed
	listener, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	server := &http.Server{Handler: a.mux, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	require.NoError(t, <-done)
}

func TestLoopTimeout(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/jobs/job_1", ok(`{"id":"job_1","state":"queued"}`))
	a.respond("POST /api/jobs", response{status: 503, body: `{"detail":"draining"}`})
	err := runWithTimeout(t, a, 2, func(l *Loop) error { return l.AwaitState(t.Context(), "running") })
	require.ErrorIs(t, err, ErrTimeout)
	require.ErrorContains(t, err, "it is queued")
	err = runWithTimeout(t, a, len(a.requests())+2, func(l *Loop) error { return l.Submit(t.Context(), nil) })
	require.ErrorIs(t, err, ErrTimeout)
	require.ErrorContains(t, err, "draining", "the error contains the last response")
}

func TestLoop_timesOutOnFrozenServer(t *testing.T) {
	t.Parallel()
	for name, stage := range map[string]func(ctx context.Context, l *Loop) error{
		"read":   func(ctx context.Context, l *Loop) error { _, err := l.Rounds(ctx); return err },
		"create": func(ctx context.Context, l *Loop) error { return l.Submit(ctx, nil) },
		"wait":   func(ctx context.Context, l *Loop) error { return l.AwaitState(ctx, "running") },
		"stream": func(ctx context.Context, l *Loop) error { _, _, err := l.ChatStream(ctx, "1+1?"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, entered := newAPI(t), make(chan struct{}, 1)
			a.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { entered <- struct{}{}; <-r.Context().Done() })
			l := a.loop(long)
			clk := clock.NewFake(clock.Real().Now())
			l.Clock = clk
			done := make(chan error, 1)
			go func() { done <- stage(t.Context(), l) }()
			<-entered
			clk.Advance(l.Timeout)
			require.ErrorIs(t, <-done, ErrTimeout)
		})
	}
}

func TestLoop_cancelledContextIsNotTimeout(t *testing.T) {
	t.Parallel()
	for name, stage := range map[string]func(ctx context.Context, l *Loop) error{
		"wait":   func(ctx context.Context, l *Loop) error { return l.AwaitState(ctx, "running") },
		"create": func(ctx context.Context, l *Loop) error { return l.Submit(ctx, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.respond("GET /api/jobs/job_1", ok(`{"state":"queued"}`))
			a.respond("POST /api/jobs", response{status: 503})
			l, clk := a.loop(long), clock.NewFake(clock.Real().Now())
			l.Clock = clk
			ctx, giveUp := context.WithCancelCause(t.Context())
			why, done := errors.New("the user pressed Ctrl-C"), make(chan error, 1)
			go func() { done <- stage(ctx, l) }()
			require.NoError(t, clk.Await(t.Context(), 2), "the stage pauses between two attempts")
			giveUp(why)
			err := <-done
			require.ErrorIs(t, err, why)
			require.NotErrorIs(t, err, ErrTimeout)
		})
	}
}

func TestTemporaryFailures(t *testing.T) {
	t.Parallel()
	refused := &url.Error{Op: "Get", URL: "x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"refused": {refused, true}, "eof": {&url.Error{Op: "Get", Err: io.EOF}, true}, "cut": {client.ErrUnexpectedEnd, true},
		"half": {io.ErrUnexpectedEOF, true}, "502": {&client.Error{Status: 502}, true}, "500": {&client.Error{Status: 500}, false},
		"no such scheme": {&url.Error{Op: "Get", Err: errors.New("unsupported protocol scheme")}, false}, "decode": {&json.SyntaxError{}, false},
	} {
		require.Equal(t, tc.want, passing(tc.err), name)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("POST /api/auth/login", response{status: 503}, ok(`{"token":"tok","user":{"username":"admin","role":"admin"}}`))
	a.respond("GET /api/jobs/job_1", ok(`{"state":"running"}`))
	l := a.loop(long)
	require.NoError(t, l.Login(t.Context(), "admin", secret.New("pass")))
	require.NoError(t, l.AwaitState(t.Context(), "running"))
	all := a.requests()
	require.Equal(t, map[string]any{"username": "admin", "password": "pass"}, all[0].body)
	require.Equal(t, "Bearer tok", all[len(all)-1].bearer)
}

func TestLoop_Login_refused(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("POST /api/auth/login", response{status: 401, body: `{"detail":"incorrect username or password"}`})
	err := a.loop(long).Login(t.Context(), "admin", secret.New("hunter2"))
	require.ErrorContains(t, err, "incorrect username or password")
	require.NotContains(t, err.Error(), "hunter2")
	require.Len(t, a.requests(), 1)
}
