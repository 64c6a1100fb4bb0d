package ship

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

// request is one call of the log route; what the test writes to answer is its answer.
type request struct {
	key, text string
	body      []byte
	header    http.Header
	answer    chan<- reply
}

type reply struct {
	status     int
	retryAfter string
	// cut breaks the connection instead of answering.
	cut bool
}

// desk is a log route whose every answer is the test's.
type desk struct {
	*testing.T
	url      string
	requests chan request
	clock    *clock.Fake
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, requests: make(chan request), clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))}
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.take(w, r, over) }))
	d.url = s.URL
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(over) })
	return d
}

func (d *desk) take(w http.ResponseWriter, r *http.Request, over <-chan struct{}) {
	body, _ := io.ReadAll(r.Body)
	var p payload
	_ = json.Unmarshal(body, &p)
	answer := make(chan reply, 1)
	select {
	case d.requests <- request{
		key: r.Header.Get("Idempotency-Key"), text: strings.Join(p.Chunks, ""), body: body, header: r.Header, answer: answer,
	}:
	case <-over:
		return
	}
	var a reply
	select {
	case a = <-answer:
	case <-over:
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
}

// next waits for the next request.
func (d *desk) next() request {
	d.Helper()
	select {
	case r := <-d.requests:
		return r
	case <-time.After(time.Minute):
		d.Fatal("no request came")
		panic("unreachable")
	}
}

// ticks lets the shipper look at the file again, and again, until a request comes.
func (d *desk) ticks() request {
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

func (d *desk) ship(ctx context.Context, l Log, ended chan struct{}, backoff func(int) time.Duration) chan error {
	d.Helper()
	done := make(chan error, 1)
	s := NewShipper(&http.Client{}, d.clock, backoff, slog.New(slog.DiscardHandler))
	go func() { done <- s.Run(ctx, l, ended) }()
	return done
}

func (d *desk) log(text string) Log {
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

func TestTheServersOwnWaitIsKeptAndBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retryAfter string
		own, want  time.Duration
	}{
		"longer than ours":       {"7", time.Second, 7 * time.Second},
		"shorter than ours":      {"1", 5 * time.Second, 5 * time.Second},
		"an hour is a minute":    {"3600", time.Second, time.Minute},
		"a date is no number":    {"Sat, 21 Nov 2026 03:00:00 GMT", time.Second, time.Second},
		"negative":               {"-5", time.Second, time.Second},
		"none":                   {"", time.Second, time.Second},
		"larger than any number": {"99999999999999999999", time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			done := d.ship(t.Context(), d.log("a\n"), over(), at(c.own))
			d.next().answer <- reply{status: 503, retryAfter: c.retryAfter}
			// The ticker of the file, and the wait.
			require.NoError(t, d.clock.Await(t.Context(), 2))
			d.clock.Advance(c.want - time.Millisecond)
			require.NoError(t, d.clock.Await(t.Context(), 2), "it went on before the wait was over")
			d.clock.Advance(time.Millisecond)
			d.next().answer <- reply{status: 200}
			require.NoError(t, <-done)
		})
	}
}

func TestABrokenConnectionIsAnotherTryOfTheSameBytes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := d.log("one\n")
	var tries []int
	done := d.ship(t.Context(), l, over(), func(try int) time.Duration { tries = append(tries, try); return 0 })
	first := d.next()
	first.answer <- reply{cut: true}
	// What the work writes meanwhile belongs to the next range.
	appendTo(t, l.Path, "two\n")
	second := d.next()
	require.Equal(t, first.key, second.key)
	require.Equal(t, first.body, second.body)
	second.answer <- reply{cut: true}
	d.next().answer <- reply{status: 202}
	last := d.next()
	require.Equal(t, "w:2", last.key)
	require.Equal(t, "two\n", last.text)
	last.answer <- reply{status: 200}
	require.NoError(t, <-done)
	require.Equal(t, []int{0, 1}, tries, "the waits grow with the tries of one range")
}

func TestEachTryGoesToWhereTheRoutesAreThen(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"which were away": 503, "where somebody else is now": 404} {
		t.Run(name, func(t *testing.T) { t.Parallel(); moves(t, status) })
	}
}

// moves has a range answered by where the routes were, after they have moved.
func moves(t *testing.T, status int) {
	t.Helper()
	former, now := newDesk(t), newDesk(t)
	l := former.log("one\n")
	var at atomic.Pointer[string]
	at.Store(&former.url)
	l.Endpoint = func() string { return *at.Load() }
	done := former.ship(t.Context(), l, over(), func(int) time.Duration { return 0 })
	first := former.next()
	at.Store(&now.url)
	first.answer <- reply{status: status}
	second := now.next()
	require.Equal(t, first.key, second.key, "it is the same range")
	require.Equal(t, first.body, second.body)
	second.answer <- reply{status: 200}
	require.NoError(t, <-done)
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := d.log("a\n")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Endpoint = fixed("http://" + listener.Addr().String())
	require.NoError(t, listener.Close())
	ctx, cancel := context.WithCancel(t.Context())
	done := d.ship(ctx, l, over(), at(time.Hour))
	require.NoError(t, d.clock.Await(t.Context(), 2), "it waits for a better time")
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "log range 1 is not delivered")
	require.NotContains(t, err.Error(), "tok\"")
}

func TestAnUnendedLineWaitsASecondAndIsThenSent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := d.log("progress 10%")
	ended := make(chan struct{})
	done := d.ship(t.Context(), l, ended, at(0))
	began := d.clock.Now()
	r := d.ticks()
	require.Equal(t, "progress 10%", r.text)
	require.GreaterOrEqual(t, d.clock.Now().Sub(began), patience)
	r.answer <- reply{status: 200}
	appendTo(t, l.Path, "\rprogress 20%\nnext")
	r = d.ticks()
	require.Equal(t, "\rprogress 20%\n", r.text, "a whole line does not wait for what follows it")
	r.answer <- reply{status: 200}
	close(ended)
	r = d.next()
	require.Equal(t, "next", r.text, "the end of the file ends its last line")
	r.answer <- reply{status: 200}
	require.NoError(t, <-done)
}

func TestTheFileIsLookedAtFiveTimesASecondAtMost(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := d.log("")
	ended := make(chan struct{})
	done := d.ship(t.Context(), l, ended, at(0))
	require.NoError(t, d.clock.Await(t.Context(), 1))
	appendTo(t, l.Path, "a\n")
	d.clock.Advance(flush)
	r := d.next()
	require.Equal(t, "w:1", r.key)
	r.answer <- reply{status: 200}
	close(ended)
	require.NoError(t, <-done)
}

func TestALogThatBeginsToExistLaterIsDelivered(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := d.log("")
	require.NoError(t, os.Remove(l.Path))
	ended := make(chan struct{})
	done := d.ship(t.Context(), l, ended, at(0))
	require.NoError(t, d.clock.Await(t.Context(), 1))
	appendTo(t, l.Path, "at last\n")
	r := d.ticks()
	require.Equal(t, "at last\n", r.text)
	r.answer <- reply{status: 200}
	close(ended)
	require.NoError(t, <-done)
}

func TestTheNextAgentGoesOnAfterTheLastNumber(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := d.log("one\n")
	done := d.ship(t.Context(), l, over(), at(0))
	d.next().answer <- reply{status: 200}
	require.NoError(t, <-done)
	appendTo(t, l.Path, "two\n")
	done = d.ship(t.Context(), l, over(), at(0))
	r := d.next()
	require.Equal(t, "w:2", r.key)
	require.Equal(t, "two\n", r.text)
	r.answer <- reply{status: 200}
	require.NoError(t, <-done)
	done = d.ship(t.Context(), l, over(), at(0))
	require.NoError(t, <-done, "everything is delivered: there is nothing to send")
}

func TestARangeIsBoundedHoweverMuchThereIs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	line := strings.Repeat("x", 1000) + "\n"
	text := strings.Repeat(line, 1000)
	done := d.ship(t.Context(), d.log(text), over(), at(0))
	var got strings.Builder
	for seq := 1; got.Len() < len(text); seq++ {
		r := d.next()
		require.Equal(t, "w:"+strconv.Itoa(seq), r.key)
		require.LessOrEqual(t, len(r.body), maxBody)
		require.True(t, strings.HasSuffix(r.text, "\n"), "a line was torn")
		got.WriteString(r.text)
		r.answer <- reply{status: 200}
	}
	require.NoError(t, <-done)
	require.Equal(t, text, got.String())
}

func TestTheHeadersOfARange(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	done := d.ship(t.Context(), d.log("a\n"), over(), at(0))
	r := d.next()
	require.Equal(t, "Bearer tok", r.header.Get("Authorization"))
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	require.JSONEq(t, `{"run_id":"run_1","chunks":["a\n"],"eof":false}`, string(r.body), "the agent never says that it is the end")
	r.answer <- reply{status: 200}
	require.NoError(t, <-done)
}
