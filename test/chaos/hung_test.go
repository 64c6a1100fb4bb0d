package chaos

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// engineSilence is how long an engine in these tests may stay silent before the platform probes it.
	engineSilence = 3 * time.Second
	// engineWait is how long calls wait for an engine. The slow engine has no counters, so it is not replaced earlier.
	engineWait = 10 * time.Second
)

// engineRate is the number of calls that the slow engine serves per second.
const engineRate = 10

// slowEngine is an engine that serves one call after another and responds with `x`.
const slowEngine = `
import http.server, json, sys, threading, time
host, port, pause, turn = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), threading.Lock()
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def reply(self, body, kind="application/json"):
        self.send_response(200); self.send_header("Content-Type", kind); self.end_headers(); self.wfile.write(body.encode())
    def do_GET(self): self.reply(json.dumps({"data": [{"id": "default"}]}))
    def do_POST(self):
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with turn: time.sleep(pause)
        if ask.get("stream"): return self.reply('data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n', "text/event-stream")
        self.reply(json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]}))
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
Server((host, port), Handler).serve_forever()
`

// durationOf returns the duration in the environment variable with the given name, or short if it is not set.
func durationOf(t *testing.T, name string, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return short
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "%s must be a duration", name)
	return length
}

// TestSingleProcess_slowAndHungEngine calls an engine at four times the rate that it can serve. The engine must survive
// the load. The test then freezes the engine. The frozen engine must be replaced, and calls must succeed again.
func TestSingleProcess_slowAndHungEngine(t *testing.T) {
	length := durationOf(t, "CHAOS_SATURATION", 20*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 4*testenv.StageTimeout+2*length)
	defer cancel()
	s := testenv.Single(t, testenv.Options{Env: map[string]string{
		"SERVICE_INFERENCE_ENGINE_SILENCE": engineSilence.String(), "SERVICE_INFERENCE_FIRST_BYTE_TIMEOUT": engineWait.String(),
		"SERVICE_INFERENCE_ENGINE_IDLE_TIMEOUT": engineWait.String(),
	}})
	sc := &scenario{T: t, s: s, l: s.Loop(ctx)}
	sc.serveSlowly(ctx)
	pid := sc.replicaPID(ctx)
	require.NotZero(t, pid)
	f := &flood{load: &load{l: sc.l, urls: []string{s.URL}, question: "q", expected: "x"}}

	f.run(ctx, length)
	f.requireNoneWrong(t)
	require.Greater(t, f.succeeded, int(length.Seconds())*engineRate/4, "the engine must serve calls all the time")
	require.Equal(t, pid, sc.replicaPID(ctx), "an engine with too many calls must not be replaced")
	require.Zero(t, sc.replaced(ctx))

	text, err := sc.l.Chat(ctx, "q") // the engine first finishes the calls of the flood that it still works on
	require.NoError(t, err)
	require.Equal(t, "x", text)
	_, frozen := freeze(ctx, t, s, pid)
	require.True(t, frozen)
	began := time.Now()
	end := f.start(ctx)
	s.Until(ctx, "the engine is replaced", func() bool { now := sc.replicaPID(ctx); return now != 0 && now != pid })
	require.GreaterOrEqual(t, time.Since(began), engineWait, "the engine may be busy for as long as a call waits")
	require.NoError(t, sc.l.AwaitReady(ctx), s.Tail())
	before := f.count()
	s.Until(ctx, "calls succeed", func() bool { return f.count() > before+engineRate })
	end()
	f.requireNoneWrong(t)
	require.Equal(t, 1, sc.replaced(ctx))
	require.Zero(t, stateOf(pid), "the frozen engine must have ended")
}

// serveSlowly deploys the slow engine for the model of a short training.
func (sc *scenario) serveSlowly(ctx context.Context) {
	sc.Helper()
	sc.submit(ctx)
	require.NoError(sc, sc.l.AwaitEnd(ctx), sc.s.Tail())
	artifact, err := sc.l.FindArtifact(ctx, "merged_model", "gguf")
	require.NoError(sc, err)
	version, err := sc.l.Register(ctx, artifact)
	require.NoError(sc, err)
	require.NoError(sc, sc.l.Deploy(ctx, sc.l.Name, version, map[string]any{
		"engine": "command", "command": []string{"python", "-c", slowEngine, "{host}", "{port}", "0.1"},
	}))
	require.NoError(sc, sc.l.AwaitReady(ctx), sc.s.Tail())
	require.NoError(sc, sc.l.Promote(ctx))
	require.NoError(sc, sc.l.MakeToken(ctx, "chaos"))
}

// replicaPID returns the process id of the revision's engine, or 0 while the revision has no engine.
func (sc *scenario) replicaPID(ctx context.Context) int {
	sc.Helper()
	var revision struct {
		Replicas []struct {
			PID int `json:"engine_pid"`
		} `json:"replicas"`
	}
	require.NoError(sc, sc.l.Client.Get(ctx, sc.revision(), nil, &revision))
	if len(revision.Replicas) == 0 {
		return 0
	}
	return revision.Replicas[0].PID
}

// replaced returns how many engines were replaced because they hung, according to the events of the deployment.
func (sc *scenario) replaced(ctx context.Context) (n int) {
	sc.Helper()
	var events []struct{ Reason string }
	require.NoError(sc, sc.l.Client.Get(ctx, "/api/model-deployments/"+sc.l.Deployment.ID+"/events?limit=500", nil, &events))
	for _, e := range events {
		if strings.Contains(e.Reason, "engine_hung") {
			n++
		}
	}
	return n
}

// mostWaiting is the maximum number of calls of a flood that wait at the same time. It is large enough that the engine
// needs longer than engineSilence to serve them, so that the platform probes the engine. It is small enough that the
// engine finishes soon after the flood: while the engine works only on calls whose callers have left, it sends no
// bytes, as if it hung.
const mostWaiting = 40

// flood calls a deployment at four times the rate of the slow engine.
type flood struct{ *load }

func (f *flood) run(ctx context.Context, length time.Duration) {
	over := time.NewTimer(length)
	defer over.Stop()
	next := time.NewTicker(time.Second / engineRate / 4)
	defer next.Stop()
	open := make(chan struct{}, mostWaiting)
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	for {
		select {
		case <-over.C:
			return
		case <-next.C:
		}
		select {
		case open <- struct{}{}:
			calls.Go(func() {
				f.call(ctx)
				<-open
			})
		default: // skip this call, because mostWaiting calls are open
		}
	}
}
