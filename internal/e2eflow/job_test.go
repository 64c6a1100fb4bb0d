package e2eflow

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpec(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/recipes/demo/chat-tiny", ok(`{"name":"demo/chat-tiny","version":"1.2.0"}`))
	a.respond("GET /api/recipes/demo/chat-tiny/versions/1.2.0/lock", ok(`{"name":"demo/chat-tiny","digest":"sha256:ab"}`))
	spec, err := a.loop(long).Spec(t.Context(), Dataset{Ref: "ds/default/walk@v1"}, map[string]any{"train.batch": 20}, 7)
	require.NoError(t, err)
	require.Equal(t, "service/v1", spec["api"])
	inner, _ := spec["spec"].(map[string]any)
	require.Equal(t, "walk", inner["name"])
	recipe, _ := inner["recipe"].(map[string]any)
	require.Equal(t, "1.2.0", recipe["version"])
	require.Equal(t, map[string]any{"name": "demo/chat-tiny", "digest": "sha256:ab"}, recipe["lock"], "the lock is unchanged")
	require.Equal(t, map[string]any{"datasets": map[string]string{"train": "ds/default/walk@v1"}}, inner["bindings"])
	require.EqualValues(t, 7, inner["seed"])
}

func TestAwaitStateEndsWithJob(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/jobs/job_1", ok(`{"state":"queued"}`), ok(`{"state":"preparing"}`),
		ok(`{"state":"failed","end_reason":"env_build","message":"no such package","attempt":2}`))
	l := a.loop(long)
	require.NoError(t, l.AwaitState(t.Context(), "running"), "the end of the job ends the wait")
	require.Equal(t, "failed", l.Job.State)
	require.Equal(t, 2, l.Job.Attempt)
	require.Equal(t, "job_1", l.Job.ID)
	err := l.AwaitEnd(t.Context())
	require.ErrorContains(t, err, "the job failed: env_build: no such package")
}

func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/jobs/job_1", ok(`{"state":"running"}`), ok(`{"state":"succeeded"}`))
	require.NoError(t, a.loop(long).AwaitEnd(t.Context()))
	stopped := newAPI(t)
	stopped.respond("GET /api/jobs/job_1", ok(`{"state":"stopped","end_reason":null,"message":null}`))
	require.ErrorContains(t, stopped.loop(long).AwaitEnd(t.Context()), "the job stopped: -: -")
}

// stream adds an SSE route that aborts the connection after the given number of events. Event IDs count from 1. The
// result contains the Last-Event-ID of each request.
func (a *api) stream(route string, events []string, cutAfter int) *[]string {
	var mu sync.Mutex
	resumed := &[]string{}
	a.mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		*resumed = append(*resumed, r.Header.Get("Last-Event-ID"))
		mu.Unlock()
		from, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, ": hello\n\n")
		for n := from; n < len(events); n++ {
			if n-from == cutAfter {
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			_, _ = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", n+1, events[n])
		}
		_, _ = fmt.Fprintf(w, "id: %d\nevent: eof\ndata: {}\n\n", len(events))
	})
	return resumed
}

func TestFollowLogsReconnects(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	var events []string
	for n := range 7 {
		events = append(events, fmt.Sprintf(`{"seq":%d,"text":"line %d"}`, n+1, n+1))
	}
	resumed := a.stream("GET /api/jobs/job_1/logs/stream", events, 3)
	var seen []LogLine
	require.NoError(t, a.loop(long).FollowLogs(t.Context(), func(l LogLine) { seen = append(seen, l) }))
	require.Len(t, seen, len(events))
	for n, line := range seen {
		require.Equal(t, LogLine{Seq: int64(n + 1), Text: fmt.Sprintf("line %d", n+1)}, line, "lines arrive without gaps or repeats")
	}
	require.Equal(t, []string{"", "3", "6"}, *resumed)
}

func TestFollowMetrics(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.stream("GET /api/jobs/job_1/metrics/stream", []string{
		`{"points":[{"key":"loss","step":1,"value":2.5},{"key":"lr","step":1,"value":0.1}]}`, `{"points":[{"key":"loss","step":2,"value":1.5}]}`,
	}, 1)
	var seen []Point
	require.NoError(t, a.loop(long).FollowMetrics(t.Context(), func(p Point) { seen = append(seen, p) }))
	require.Equal(t, []Point{{"loss", 1, 2.5}, {"lr", 1, 0.1}, {"loss", 2, 1.5}}, seen)
}

func TestLoop_FollowLogs_reopensAfterErrorEvent(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/jobs/job_1/logs/stream", ok("id: 1\ndata: {\"seq\":1}\n\nevent: error\ndata: {\"detail\":\"draining\"}\n\n"),
		response{status: 503}, ok("id: 2\ndata: {\"seq\":2}\n\nid: 2\nevent: eof\ndata: {}\n\n"))
	var seen []int64
	require.NoError(t, a.loop(long).FollowLogs(t.Context(), func(l LogLine) { seen = append(seen, l.Seq) }))
	require.Equal(t, []int64{1, 2}, seen)
}

func TestLoop_followInvalidEvents(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/jobs/job_1/logs/stream", ok("id: 1\ndata: rubbish\n\n"))
	a.respond("GET /api/jobs/job_1/metrics/stream", ok("id: 1\ndata: {\"points\":3}\n\n"))
	l := a.loop(long)
	require.ErrorContains(t, l.FollowLogs(t.Context(), func(LogLine) {}), "decode a log line")
	require.ErrorContains(t, l.FollowMetrics(t.Context(), func(Point) {}), "decode metrics")
}

func TestLoop_followDuringAwaitEnd(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/jobs/job_1", ok(`{"id":"job_1","state":"running"}`), ok(`{"id":"job_1","state":"succeeded"}`))
	a.stream("GET /api/jobs/job_1/logs/stream", []string{`{"seq":1}`}, 9)
	a.stream("GET /api/jobs/job_1/metrics/stream", []string{`{"points":[]}`}, 9)
	l := a.loop(long)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() { errs[0] = l.FollowLogs(t.Context(), func(LogLine) {}) })
	wg.Go(func() { errs[1] = l.FollowMetrics(t.Context(), func(Point) {}) })
	require.NoError(t, l.AwaitEnd(t.Context()))
	wg.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
}
