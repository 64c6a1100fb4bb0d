package logship

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// request is a request to the log route. The test sends the response on the channel respond.
type request struct {
	key, text string
	body      []byte
	header    http.Header
	respond   chan<- reply
}

type reply struct {
	status     int
	retryAfter string
	// code is the code of an error.
	code string
	// cut closes the connection without a response.
	cut bool
}

// logRoute is a log route whose responses are chosen by the test.
type logRoute struct {
	*testing.T
	url      string
	requests chan request
	clock    *clock.Fake
}

func newLogRoute(t *testing.T) *logRoute {
	t.Helper()
	d := &logRoute{T: t, requests: make(chan request), clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))}
	finished := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.take(w, r, finished) }))
	d.url = s.URL
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(finished) })
	return d
}

func (d *logRoute) take(w http.ResponseWriter, r *http.Request, finished <-chan struct{}) {
	body, _ := io.ReadAll(r.Body)
	var p payload
	_ = json.Unmarshal(body, &p)
	respond := make(chan reply, 1)
	select {
	case d.requests <- request{
		key: r.Header.Get("Idempotency-Key"), text: strings.Join(p.Chunks, ""), body: body, header: r.Header, respond: respond,
	}:
	case <-finished:
		return
	}
	var a reply
	select {
	case a = <-respond:
	case <-finished:
		return
	}
	if a.cut {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		return
	}
	if a.retryAfter != "" {
		w.Header().Set("Retry-After", a.retryAfter)
	}
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": a.code, "detail": "on purpose"})
}

// next waits for the next request. It fails the test after a timeout.
func (d *logRoute) next() request {
	d.Helper()
	select {
	case r := <-d.requests:
		return r
	case <-time.After(time.Minute):
		d.Fatal("timeout waiting for a request")
		panic("unreachable")
	}
}

// advanceUntilRequest advances the clock until a request arrives. Each step makes the shipper check the log file.
func (d *logRoute) advanceUntilRequest() request {
	d.Helper()
	for {
		require.NoError(d, d.clock.Await(d.Context(), 1))
		select {
		case r := <-d.requests:
			return r
		default:
			d.clock.Advance(flush)
		}
	}
}

func (d *logRoute) ship(ctx context.Context, l Log, ended chan struct{}, backoff func(int) time.Duration) chan error {
	d.Helper()
	done := make(chan error, 1)
	s := NewShipper(&http.Client{}, d.clock, backoff, slog.New(slog.DiscardHandler))
	go func() { done <- s.Run(ctx, l, ended) }()
	return done
}

func (d *logRoute) log(text string) Log {
	d.Helper()
	dir := d.TempDir()
	l := Log{
		Path: filepath.Join(dir, "log"), Journal: filepath.Join(dir, "ship.jsonl"),
		Endpoint: fixed(d.url + "/api/ingest"), Token: secret.New("tok"), RunID: "run_1", Writer: "w",
	}
	appendTo(d.T, l.Path, text)
	return l
}

func fixed(address string) func() string { return func() string { return address } }

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func at(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func TestShipper_retryAfter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retryAfter string
		own, want  time.Duration
	}{
		"longer than backoff":  {"7", time.Second, 7 * time.Second},
		"shorter than backoff": {"1", 5 * time.Second, 5 * time.Second},
		"limited to a minute":  {"3600", time.Second, time.Minute},
		"date":                 {"Sat, 21 Nov 2026 03:00:00 GMT", time.Second, time.Second},
		"negative":             {"-5", time.Second, time.Second},
		"missing":              {"", time.Second, time.Second},
		"overflow":             {"99999999999999999999", time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newLogRoute(t)
			done := d.ship(t.Context(), d.log("a\n"), finished(), at(c.own))
			d.next().respond <- reply{status: 503, retryAfter: c.retryAfter}
			// The shipper has two timers: the ticker of its file checks, and the wait after the response.
			require.NoError(t, d.clock.Await(t.Context(), 2))
			d.clock.Advance(c.want - time.Millisecond)
			require.NoError(t, d.clock.Await(t.Context(), 2), "the shipper must wait for the full time")
			d.clock.Advance(time.Millisecond)
			d.next().respond <- reply{status: 200}
			require.NoError(t, <-done)
		})
	}
}

func TestShipper_brokenConnectionResendsSameBytes(t *testing.T) {
	t.Parallel()
	d := newLogRoute(t)
	l := d.log("one\n")
	var tries []int
	done := d.ship(t.Context(), l, finished(), func(try int) time.Duration { tries = append(tries, try); return 0 })
	first := d.next()
	first.respond <- reply{cut: true}
	// Text that is written in the meantime belongs to the next range.
	appendTo(t, l.Path, "two\n")
	second := d.next()
	require.Equal(t, first.key, second.key)
	require.Equal(t, first.body, second.body)
	second.respond <- reply{cut: true}
	d.next().respond <- reply{status: 202}
	last := d.next()
	require.Equal(t, "w:2", last.key)
	require.Equal(t, "two\n", last.text)
	last.respond <- reply{status: 200}
	require.NoError(t, <-done)
	require.Equal(t, []int{0, 1}, tries, "the tries of one range must be counted from 0")
}

// A 400 refuses a range, except if its code is that of a body that did not arrive whole.
func TestShipper_badRequest(t *testing.T) {
	t.Parallel()
	for code, again := range map[string]bool{
		"body_timeout": true, "body_cut": true, "body_incomplete": true, "body_unreadable": true, "metric_keys": false, "": false,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			d := newLogRoute(t)
			l := d.log("one\n")
			ended := make(chan struct{})
			done := d.ship(t.Context(), l, ended, at(0))
			first := d.next()
			first.respond <- reply{status: 400, code: code}
			if again {
				second := d.next()
				require.Equal(t, first.key, second.key)
				require.Equal(t, first.body, second.body)
				second.respond <- reply{status: 200}
			}
			appendTo(t, l.Path, "two\n")
			close(ended)
			last := d.next()
			require.Equal(t, "two\n", last.text)
			last.respond <- reply{status: 200}
			require.NoError(t, <-done)
			journal, err := os.ReadFile(l.Journal)
			require.NoError(t, err)
			require.Equal(t, !again, strings.Contains(string(journal), `"refused":400`))
		})
	}
}

func TestShipper_retriesAtNewEndpoint(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"old address unavailable": 503, "old address reused": 404} {
		t.Run(name, func(t *testing.T) { t.Parallel(); moveDuringSend(t, status) })
	}
}

// moveDuringSend changes the endpoint while a range is being sent. It checks that the range is sent again to the new
// address, even if the old address responds with the given status.
func moveDuringSend(t *testing.T, status int) {
	t.Helper()
	old, now := newLogRoute(t), newLogRoute(t)
	l := old.log("one\n")
	var at atomic.Pointer[string]
	at.Store(&old.url)
	l.Endpoint = func() string { return *at.Load() }
	done := old.ship(t.Context(), l, finished(), func(int) time.Duration { return 0 })
	first := old.next()
	at.Store(&now.url)
	first.respond <- reply{status: status}
	second := now.next()
	require.Equal(t, first.key, second.key, "the range must be the same")
	require.Equal(t, first.body, second.body)
	second.respond <- reply{status: 200}
	require.NoError(t, <-done)
}

func TestShipper_connectionRefused(t *testing.T) {
	t.Parallel()
	d := newLogRoute(t)
	l := d.log("a\n")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Endpoint = fixed("http://" + listener.Addr().String())
	require.NoError(t, listener.Close())
	ctx, cancel := context.WithCancel(t.Context())
	done := d.ship(ctx, l, finished(), at(time.Hour))
	require.NoError(t, d.clock.Await(t.Context(), 2), "the shipper must wait")
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "deliver log range 1")
	require.NotContains(t, err.Error(), "tok\"")
}

func TestShipper_incompleteLineWaits(t *testing.T) {
	t.Parallel()
	d := newLogRoute(t)
	l := d.log("progress 10%")
	ended := make(chan struct{})
	done := d.ship(t.Context(), l, ended, at(0))
	began := d.clock.Now()
	r := d.advanceUntilRequest()
	require.Equal(t, "progress 10%", r.text)
	require.GreaterOrEqual(t, d.clock.Now().Sub(began), patience)
	r.respond <- reply{status: 200}
	appendTo(t, l.Path, "\rprogress 20%\nnext")
	r = d.advanceUntilRequest()
	require.Equal(t, "\rprogress 20%\n", r.text, "a complete line must be sent without waiting")
	r.respond <- reply{status: 200}
	close(ended)
	r = d.next()
	require.Equal(t, "next", r.text, "at the end of the file, an incomplete line must be sent")
	r.respond <- reply{status: 200}
	require.NoError(t, <-done)
}

func TestShipper_pollInterval(t *testing.T) {
	t.Parallel()
	d := newLogRoute(t)
	l := d.log("")
	ended := make(chan struct{})
	done := d.ship(t.Context(), l, ended, at(0))
	require.NoError(t, d.clock.Await(t.Context(), 1))
	appendTo(t, l.Path, "a\n")
	d.clock.Advance(flush)
	r := d.next()
	require.Equal(t, "w:1", r.key)
	r.respond <- reply{status: 200}
	close(ended)
	require.NoError(t, <-done)
}

func TestShipper_logCreatedLater(t *testing.T) {
	t.Parallel()
	d := newLogRoute(t)
	l := d.log("")
	require.NoError(t, os.Remove(l.Path))
	ended := make(chan struct{})
	done := d.ship(t.Context(), l, ended, at(0))
	require.NoError(t, d.clock.Await(t.Context(), 1))
	appendTo(t, l.Path, "at last\n")
	r := d.advanceUntilRequest()
	require.Equal(t, "at last\n", r.text)
	r.respond <- reply{status: 200}
	close(ended)
	require.NoError(t, <-done)
}

func TestShipper_continuesSequenceAfterRestart(t *testing.T) {
	t.Parallel()
	d := newLogRoute(t)
	l := d.log("one\n")
	done := d.ship(t.Context(), l, finished(), at(0))
	d.next().respond <- reply{status: 200}
	require.NoError(t, <-done)
	appendTo(t, l.Path, "two\n")
	done = d.ship(t.Context(), l, finished(), at(0))
	r := d.next()
	require.Equal(t, "w:2", r.key)
	require.Equal(t, "two\n", r.text)
	r.respond <- reply{status: 200}
	require.NoError(t, <-done)
	done = d.ship(t.Context(), l, finished(), at(0))
	require.NoError(t, <-done, "nothing may be left to send")
}

func TestShipper_rangeSizeLimit(t *testing.T) {
	t.Parallel()
	d := newLogRoute(t)
	line := strings.Repeat("x", 1000) + "\n"
	text := strings.Repeat(line, 1000)
	done := d.ship(t.Context(), d.log(text), finished(), at(0))
	var got strings.Builder
	for seq := 1; got.Len() < len(text); seq++ {
		r := d.next()
		require.Equal(t, "w:"+strconv.Itoa(seq), r.key)
		require.LessOrEqual(t, len(r.body), maxBody)
		require.True(t, strings.HasSuffix(r.text, "\n"), "no line may be split")
		got.WriteString(r.text)
		r.respond <- reply{status: 200}
	}
	require.NoError(t, <-done)
	require.Equal(t, text, got.String())
}

func TestShipper_requestHeaders(t *testing.T) {
	t.Parallel()
	d := newLogRoute(t)
	l := d.log("a\n")
	l.Node = "gpu-1.example"
	done := d.ship(t.Context(), l, finished(), at(0))
	r := d.next()
	require.Equal(t, "Bearer tok", r.header.Get("Authorization"))
	require.Equal(t, "gpu-1.example", r.header.Get("X-Service-Node"))
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	require.JSONEq(t, `{"run_id":"run_1","chunks":["a\n"],"eof":false}`, string(r.body), "the agent must not set eof")
	r.respond <- reply{status: 200}
	require.NoError(t, <-done)
}
