package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// namedReplicas is an installation with a gateway that finds two replicas of inference by one host name. Its addresses
// always come in the same order, and also while a replica is away. The gateway therefore opens connections to the
// second replica only if the first one refuses them.
type namedReplicas struct {
	*scenario

	url           string // of the gateway
	first, second namedReplica
	// streaming is true while calls are sent that the gateway cannot repeat, because their bodies are not in memory.
	streaming atomic.Bool

	mu     sync.Mutex
	failed []string
}

type namedReplica struct {
	process *testenv.Process
	admin   string
}

// TestSplitInstallation_namedReplicas stops and starts each of two replicas under load. No call may fail.
func TestSplitInstallation_namedReplicas(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	r := startNamedReplicas(ctx, t)
	end := r.load(ctx)
	defer end()
	// The first replica stops without a delay, so that it refuses calls of kept connections. The gateway must repeat them.
	r.awaitServed(ctx, r.first)
	r.stop(r.first)
	r.awaitServed(ctx, r.second)
	r.start(ctx, r.first)
	// The second replica serves for the drain delay. Calls of kept connections still reach it, until its responses end these
	// connections. The calls that follow reach the first replica. After the delay, calls that cannot be repeated would fail.
	r.awaitServed(ctx, r.second)
	r.streaming.Store(true)
	r.stop(r.second)
	r.streaming.Store(false)
	r.awaitServed(ctx, r.first)
	r.start(ctx, r.second)
	end()
	require.Empty(t, r.failed)
}

// startNamedReplicas deploys an engine and starts the second replica and the gateway.
func startNamedReplicas(ctx context.Context, t *testing.T) *namedReplicas {
	t.Helper()
	s := testenv.Split(t, testenv.Options{Admin: true})
	r := &namedReplicas{scenario: servingScenario(ctx, t, s), first: namedReplica{s.Processes["inference"], s.Admin}}
	_, port, err := net.SplitHostPort(r.first.process.Setting("SERVICE_INFERENCE_HTTP_LISTEN"))
	require.NoError(t, err)
	r.second.admin = s.FreeAddress()
	r.second.process = s.StartReplica("inference", "inference-two", map[string]string{
		"SERVICE_INFERENCE_LISTEN": s.FreeAddress(), "SERVICE_INFERENCE_HTTP_LISTEN": net.JoinHostPort("127.0.0.2", port),
		"SERVICE_INFERENCE_SPOOL": secondSpool(t, s), "SERVICE_ADMIN_LISTEN": r.second.admin, "SERVICE_DRAIN_DELAY": "3s",
	})
	gateway := s.FreeAddress()
	r.url = "http://" + gateway
	s.StartReplicaKnowing("replicas.test", []string{"127.0.0.1", "127.0.0.2"}, "gateway", "gateway-named", map[string]string{
		"SERVICE_LISTEN": gateway, "SERVICE_GATEWAY_INFERENCE_ADDR": net.JoinHostPort("replicas.test", port),
	})
	r.awaitReady(ctx, r.second)
	s.Until(ctx, "the gateway serves", func() bool { return r.call(ctx, 0) == "" })
	return r
}

// load sends one call after the other, so that the gateway keeps one connection. The function end ends the calls.
func (r *namedReplicas) load(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if why := r.call(ctx, n); why != "" && ctx.Err() == nil {
				r.mu.Lock()
				r.failed = append(r.failed, why)
				r.mu.Unlock()
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// call sends the n-th call and returns why it failed, or "".
func (r *namedReplicas) call(ctx context.Context, n int) string {
	question, err := json.Marshal(client.NewChatRequest("hello"))
	if err != nil {
		return err.Error()
	}
	method, path, body := http.MethodPost, "chat/completions", io.Reader(bytes.NewReader(question))
	switch {
	case r.streaming.Load():
		body = io.MultiReader(body) // of unknown length
	case n%2 == 1:
		method, path, body = http.MethodGet, "models", nil
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+"/inference/"+r.l.Deployment.ID+"/v1/"+path, body)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+r.l.Token.Reveal())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%s %s of length %d: %d %s %v", method, path, req.ContentLength, resp.StatusCode, raw, err)
	}
	return ""
}

// stop stops a replica as a service manager does.
func (r *namedReplicas) stop(a namedReplica) {
	r.Helper()
	a.process.Signal(syscall.SIGTERM)
	<-a.process.Exited()
	require.NoError(r, a.process.Err(), a.process.Tail())
}

// start starts a replica again and waits until it is ready.
func (r *namedReplicas) start(ctx context.Context, a namedReplica) {
	r.Helper()
	a.process.Start()
	r.awaitReady(ctx, a)
}

func (r *namedReplicas) awaitReady(ctx context.Context, a namedReplica) {
	r.Helper()
	r.s.Until(ctx, a.process.Name+" is ready", func() bool {
		_, err := r.admin(ctx, a, "/readyz")
		return err == nil
	})
}

// awaitServed waits until a replica has served more calls.
func (r *namedReplicas) awaitServed(ctx context.Context, a namedReplica) {
	r.Helper()
	before := r.served(ctx, a)
	r.s.Until(ctx, a.process.Name+" serves calls", func() bool { return r.served(ctx, a) > before+10 })
}

// served returns how many calls a replica has served since its start.
func (r *namedReplicas) served(ctx context.Context, a namedReplica) (n float64) {
	r.Helper()
	text, err := r.admin(ctx, a, "/metrics")
	require.NoError(r, err)
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "inference_calls_total{") {
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			require.NoError(r, err)
			n += value
		}
	}
	return n
}

// admin returns what the admin listener of a replica responds.
func (r *namedReplicas) admin(ctx context.Context, a namedReplica, path string) (string, error) {
	resp, err := client.New("http://"+a.admin, nil).Call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	if resp.Status != http.StatusOK {
		return "", fmt.Errorf("%s: status %d", path, resp.Status)
	}
	return string(resp.Body), nil
}
