package engineclient

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/inference/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// replacements records the engines that a watchdog replaces.
type replacements struct {
	mu  sync.Mutex
	all []Target
	err error
}

func (r *replacements) Replace(_ context.Context, t Target, _ time.Duration) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return false, r.err
	}
	r.all = append(r.all, t)
	return true, nil
}

func (*replacements) Probed(context.Context, string) {}
func (*replacements) Replaced(context.Context)       {}

// watchHarness is a database with the watchdogs of several replicas of inference. The watchdogs do not run by
// themselves: the tests call look. Time passes only when a test calls pass, which moves the replicas' clock and the
// times in the database.
type watchHarness struct {
	t      *testing.T
	pool   *pgxpool.Pool
	engine *httptest.Server
	// responds decides whether the engine responds to a path.
	responds func(path string) bool
	// metrics returns the engine's metrics. If responds returns false, the engine calls the function works before it
	// responds; by default, that function waits until the caller has left. began counts the calls.
	metrics func() string
	works   func(gone <-chan struct{})
	began   atomic.Int32
	clock   *clock.Fake
	found   replacements
}

const watchAfter = 30 * time.Second

func newWatchHarness(t *testing.T, responds func(path string) bool) *watchHarness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	h := &watchHarness{t: t, pool: pgtest.New(t, pgtest.Schema{Name: "inference", Migrations: files}).Pool("inference"), responds: responds, clock: clock.NewFake(clock.Real().Now())}
	h.works = func(gone <-chan struct{}) { <-gone }
	h.engine = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.began.Add(1)
		if !h.responds(r.URL.Path) {
			h.works(r.Context().Done())
		}
		if h.metrics != nil && r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w, h.metrics())
		}
	}))
	t.Cleanup(h.engine.Close)
	return h
}

// replica returns the watchdog of one replica.
func (h *watchHarness) replica(name string) *Watchdog {
	h.t.Helper()
	c := &Client{Timeouts: Timeouts{Connect: time.Minute, Send: time.Minute, FirstByte: time.Minute, Idle: time.Minute}, Clock: h.clock}
	h.t.Cleanup(c.CloseIdle)
	return &Watchdog{
		Client: c, Store: &SilenceStore{Pool: h.pool}, Replacer: &h.found, After: watchAfter, Name: name, Clock: h.clock,
		Log: slog.New(slog.DiscardHandler), Tally: &h.found, Targets: func() []Target { return []Target{h.target()} },
	}
}

func (h *watchHarness) target() Target {
	return Target{
		Engine: Engine{Addr: strings.TrimPrefix(h.engine.URL, "http://")}, RevisionID: "rev_1", ReplicaID: "rep_1", Address: h.engine.URL,
	}
}

// call sends a call to the engine and returns when the call waits for the response. The end of the test cancels the
// call.
func (h *watchHarness) call(d *Watchdog, path string) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if a, err := d.Client.Do(ctx, h.target().Engine, Request{Method: http.MethodPost, Target: path}); err == nil {
			_, _ = io.Copy(io.Discard, a)
			_ = a.Close()
		}
	}()
	if h.responds(path) {
		<-done
	}
	h.t.Cleanup(func() { cancel(); <-done })
	require.Eventually(h.t, func() bool {
		d.Client.silences.mu.Lock()
		defer d.Client.silences.mu.Unlock()
		e := d.Client.silences.engines[h.target().Engine]
		return e != nil && (e.waiting > 0 || h.responds(path))
	}, time.Minute, time.Millisecond)
}

// pass lets time pass for the replicas and for the suspicions in the database.
func (h *watchHarness) pass(by time.Duration) {
	h.t.Helper()
	h.clock.Advance(by)
	_, err := h.pool.Exec(h.t.Context(), `UPDATE engine_silence SET suspected_at = suspected_at - $1::interval, probing_until = probing_until - $1::interval`, by)
	require.NoError(h.t, err)
}

func (h *watchHarness) look(all ...*Watchdog) {
	h.t.Helper()
	for _, d := range all {
		require.NoError(h.t, d.look(h.t.Context()))
		d.probing.Wait()
	}
}

// fail stores a failed probe without sending one.
func (h *watchHarness) fail(d *Watchdog) {
	h.t.Helper()
	e := execution{"rep_1", h.engine.URL}
	claimed, err := d.Store.Claim(h.t.Context(), e, d.Name, time.Minute)
	require.NoError(h.t, err)
	require.True(h.t, claimed)
	claimed, err = d.Store.Claim(h.t.Context(), e, "other", time.Minute)
	require.NoError(h.t, err)
	require.False(h.t, claimed, "a second process must not get the claim")
	require.NoError(h.t, d.Store.Failed(h.t.Context(), e, "other"))
	require.NoError(h.t, d.Store.Failed(h.t.Context(), e, d.Name))
}

func (h *watchHarness) rows() (n int) {
	h.t.Helper()
	require.NoError(h.t, h.pool.QueryRow(h.t.Context(), `SELECT count(*) FROM engine_silence`).Scan(&n))
	return n
}

func never(string) bool { return false }

func TestWatchdog_twoFailedProbesAndNoByte(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, never)
	a := h.replica("a")
	h.call(a, "/v1/a")
	h.pass(watchAfter - time.Second)
	h.look(a)
	require.Zero(t, h.rows(), "29 seconds of silence must not raise a suspicion")
	h.pass(time.Second)
	_, err := a.Store.Suspect(t.Context(), h.target())
	require.NoError(t, err)
	h.fail(a)
	h.fail(a)
	require.Empty(t, h.found.all)
	h.found.err = context.DeadlineExceeded
	require.ErrorIs(t, a.look(t.Context()), context.DeadlineExceeded)
	require.Equal(t, 1, h.rows(), "the suspicion must stay, so that the failed replacement is retried")
	h.found.err = nil
	h.look(a)
	require.Len(t, h.found.all, 1)
	require.Zero(t, h.rows())
}

// A replica whose calls get bytes ends the suspicion that was raised by a replica whose calls get none.
func TestWatchdog_anyReplicaThatGetsBytes(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, func(path string) bool { return path == "/v1/b" })
	a, b := h.replica("a"), h.replica("b")
	h.call(a, "/v1/a")
	h.pass(watchAfter)
	_, err := a.Store.Suspect(t.Context(), h.target())
	require.NoError(t, err)
	h.fail(a)
	h.pass(watchAfter)
	h.call(b, "/v1/b")
	h.fail(a)
	h.look(b)
	require.Zero(t, h.rows())
	h.look(a)
	require.Empty(t, h.found.all)
}

// Bytes that arrived before the suspicion do not end it.
func TestWatchdog_bytesBeforeSuspicion(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, func(path string) bool { return path == "/v1/b" })
	a, b := h.replica("a"), h.replica("b")
	h.call(b, "/v1/b")
	h.pass(watchAfter)
	_, err := a.Store.Suspect(t.Context(), h.target())
	require.NoError(t, err)
	h.fail(a)
	h.fail(a)
	h.look(b)
	require.Len(t, h.found.all, 1)
}

func TestWatchdog_aliveEngineIsNotSuspectedAgain(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, func(path string) bool { return path == "/v1/chat/completions" })
	a := h.replica("a")
	h.call(a, "/v1/long") // a call that takes long, such as a slow upload
	h.pass(watchAfter)
	h.look(a)
	require.Equal(t, 1, h.rows())
	h.look(a) // probes it
	require.Zero(t, h.rows())
	h.look(a)
	require.Zero(t, h.rows(), "the byte that the probe got must count")
}

func TestWatchdog_closedPortIsNotReported(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, never)
	a := h.replica("a")
	h.call(a, "/v1/a")
	h.pass(watchAfter)
	h.look(a)
	h.engine.CloseClientConnections()
	require.NoError(t, h.engine.Listener.Close())
	for range 5 {
		h.look(a)
		h.pass(3 * watchAfter)
	}
	require.Empty(t, h.found.all, "the watchdog must leave an engine with a closed port to the node's agent")
	h.pass(giveUp * watchAfter)
	h.look(a)
	require.Zero(t, h.rows(), "a suspicion must be dropped after a while")
}

func TestClient_Probe_results(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, func(path string) bool { return path == "/v1/embeddings" })
	a, target := h.replica("a"), h.target()
	require.Equal(t, Silent, a.Client.Probe(t.Context(), target, 50*time.Millisecond))
	target.Task = "embedding"
	require.Equal(t, Alive, a.Client.Probe(t.Context(), target, time.Minute))
	target.Addr = "127.0.0.1:1"
	require.Equal(t, Unreachable, a.Client.Probe(t.Context(), target, time.Minute))
	for task, path := range map[string]string{"chat": "/v1/chat/completions", "completion": "/v1/completions", "": "/v1/chat/completions"} {
		got, body := probeRequest(Target{Task: task})
		require.Equal(t, path, got)
		require.Contains(t, string(body), `"max_tokens":1`)
		require.Contains(t, string(body), `"model":"default"`)
	}
}

// Callers that give up early do not hide that an engine hangs.
func TestSilences_impatientCallers(t *testing.T) {
	t.Parallel()
	clk, s, to := clock.NewFake(time.Unix(0, 0)), &silences{}, Engine{Addr: "a"}
	for range 4 {
		w := s.begin(to, clk)
		clk.Advance(8 * time.Second)
		w.end()
		w.end()
	}
	require.Empty(t, s.silent(watchAfter, clk.Now()), "an engine without open calls must not count as silent")
	w := s.begin(to, clk)
	require.Equal(t, 32*time.Second, s.silent(watchAfter, clk.Now())[to])
	w.byte()
	require.Empty(t, s.silent(watchAfter, clk.Now()))
	w.end()
	clk.Advance(time.Hour)
	s.begin(to, clk)
	require.Empty(t, s.silent(watchAfter, clk.Now()), "the time without calls must not count as silence")
	clk.Advance(time.Minute)
	require.Len(t, s.silent(watchAfter, clk.Now()), 1)
}

// While a caller reads slowly, the engine may have to wait for it. The engine does not count as silent then.
func TestSilences_slowCaller(t *testing.T) {
	t.Parallel()
	clk, s, to := clock.NewFake(time.Unix(0, 0)), &silences{}, Engine{Addr: "a"}
	slow := s.begin(to, clk)
	s.begin(to, clk) // another call, which waits behind the slow one
	slow.byte()
	slow.hold(true)
	clk.Advance(time.Hour)
	require.Empty(t, s.silent(watchAfter, clk.Now()))
	ago, heard := s.heardAgo(to, clk.Now())
	require.True(t, heard)
	require.Zero(t, ago, "while a caller reads slowly, the last byte must count as received just now, so that other replicas drop their suspicions")
	slow.hold(false)
	require.Empty(t, s.silent(watchAfter, clk.Now()))
	clk.Advance(watchAfter)
	require.Len(t, s.silent(watchAfter, clk.Now()), 1)
	slow.hold(true)
	slow.end()
	clk.Advance(watchAfter)
	require.Len(t, s.silent(watchAfter, clk.Now()), 1, "a call that has ended must not count as a slow reader")
}

// The last write to the caller may end after the call. Then the call must not count as one whose caller reads slowly.
func TestSilences_writeAfterEndOfCall(t *testing.T) {
	t.Parallel()
	clk, s, engine := clock.NewFake(time.Unix(0, 0)), &silences{}, Engine{Addr: "a"}
	ended := s.begin(engine, clk)
	ended.end()
	ended.hold(true)
	s.begin(engine, clk)
	clk.Advance(time.Minute)
	require.Contains(t, s.silent(time.Second, clk.Now()), engine)
}
