package executortest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// EngineCase is the engine driver under test.
type EngineCase struct {
	// Spec is complete except for the files of the model.
	Spec executor.EngineSpec
	// Model stores the files of the model in the given control plane and returns references to them.
	Model func(p *ControlPlane) []executor.ObjectRef
	// ChecksKey states whether the engine rejects a wrong key.
	ChecksKey bool
}

// engineTimeout includes the time to install an engine for the first time.
const engineTimeout = 5 * time.Minute

// RunEngine runs the suite for an engine driver: it starts one engine, sends requests to it, adopts it,
// kills it and stops it.
func RunEngine(t *testing.T, open Open, s EngineCase) {
	t.Helper()
	b := &engineHarness{T: t, subject: s, plane: NewControlPlane(t), dir: t.TempDir(), open: open}
	b.x = open(t, b.dir, b.plane)
	t.Cleanup(func() {
		_ = b.x.Apply(context.Background(), nil)
		b.until("all works are gone", func() bool { return len(b.x.Observed()) == 0 })
		b.x.Close()
	})
	s.Spec.Model = s.Model(b.plane)
	b.work = executor.Work{
		Key: executor.Key{WorkID: "wrk_engine", Generation: 1, Fence: 1}, Kind: executor.KindEngine,
		Desired: executor.DesiredRunning, Engine: &s.Spec,
	}
	first := b.starts()
	b.answers(first)
	b.streams(first)
	b.refusesWrongKey(first)
	b.adopted(first)
	second := b.crashes(first)
	b.stops(second)
}

type engineHarness struct {
	*testing.T
	subject EngineCase
	plane   *ControlPlane
	dir     string
	open    Open
	x       Opened
	work    executor.Work
}

func (b *engineHarness) until(what string, condition func() bool) {
	b.Helper()
	deadline := time.NewTimer(engineTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-b.x.Changes():
		case <-tick.C:
		case <-deadline.C:
			b.Fatalf("timeout after %s waiting for: %s", engineTimeout, what)
		}
	}
}

// report returns the engine's report. It fails the test if the work has ended.
func (b *engineHarness) report() executor.EngineReport {
	b.Helper()
	for _, o := range b.x.Observed() {
		require.Nil(b, o.Exit, "the engine's work ended: %+v, %+v", o.Exit, o.Engine)
		if o.Engine != nil {
			return *o.Engine
		}
	}
	return executor.EngineReport{}
}

func (b *engineHarness) ready(restarts int) executor.EngineReport {
	b.Helper()
	b.until("the engine is ready", func() bool { r := b.report(); return r.Ready && r.Restarts == restarts })
	return b.report()
}

// starts waits until the engine is ready and checks that all probes have passed.
func (b *engineHarness) starts() executor.EngineReport {
	b.Helper()
	require.NoError(b, b.x.Apply(context.Background(), []executor.Work{b.work}))
	r := b.ready(0)
	require.Equal(b, executor.EngineReady, r.Phase)
	require.NotZero(b, r.PID)
	require.False(b, r.ReadyAt.IsZero())
	require.NotEmpty(b, r.APIKey.Reveal())
	require.True(b, strings.HasPrefix(r.Address, "http://127.0.0.1:"), "the engine must listen on loopback, got %s", r.Address)
	var probes struct {
		Probes []struct {
			Name string `json:"name"`
			OK   bool   `json:"ok"`
		} `json:"probes"`
	}
	require.NoError(b, json.Unmarshal(r.Probes, &probes))
	passed := map[string]bool{}
	for _, p := range probes.Probes {
		passed[p.Name] = p.OK
	}
	require.True(b, passed["bound"] && passed["models"] && passed["generate"] && passed["stream"], "%s", r.Probes)
	return r
}

func (b *engineHarness) ask(r executor.EngineReport, key string, stream bool) (int, string) {
	b.Helper()
	// At temperature 0 the model of random weights returns the same tokens each time. A sampled response may end
	// before its second chunk.
	body, err := json.Marshal(map[string]any{
		"model": "default", "max_tokens": 8, "temperature": 0, "stream": stream, "messages": []map[string]string{{"role": "user", "content": "12+34?"}},
	})
	require.NoError(b, err)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, r.Address+"/v1/chat/completions", bytes.NewReader(body))
	require.NoError(b, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	// Use a new connection for each request, because an engine may close an idle connection at any time.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(b, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	return resp.StatusCode, string(answer)
}

func (b *engineHarness) answers(r executor.EngineReport) {
	b.Helper()
	status, body := b.ask(r, r.APIKey.Reveal(), false)
	require.Equal(b, http.StatusOK, status, body)
	require.Contains(b, body, "choices")
}

func (b *engineHarness) streams(r executor.EngineReport) {
	b.Helper()
	status, body := b.ask(r, r.APIKey.Reveal(), true)
	require.Equal(b, http.StatusOK, status, body)
	require.GreaterOrEqual(b, strings.Count(body, "data: {"), 2, body)
}

func (b *engineHarness) refusesWrongKey(r executor.EngineReport) {
	b.Helper()
	if !b.subject.ChecksKey {
		return
	}
	status, body := b.ask(r, "wrong", false)
	require.Equal(b, http.StatusUnauthorized, status, body)
}

// adopted checks that another executor adopts the engine and that the same process stays ready.
func (b *engineHarness) adopted(before executor.EngineReport) {
	b.Helper()
	b.x.Close()
	b.x = b.open(b.T, b.dir, b.plane)
	require.NoError(b, b.x.Apply(context.Background(), []executor.Work{b.work}))
	after := b.report()
	require.Equal(b, before, after, "adoption must not change the report")
	b.answers(after)
}

// crashes kills the engine and checks that the executor restarts it.
func (b *engineHarness) crashes(before executor.EngineReport) executor.EngineReport {
	b.Helper()
	require.NoError(b, syscall.Kill(before.PID, syscall.SIGKILL))
	b.until("the crash is reported", func() bool { r := b.report(); return !r.Ready || r.Restarts > 0 })
	after := b.ready(before.Restarts + 1)
	require.NotEqual(b, before.PID, after.PID)
	require.Equal(b, before.APIKey, after.APIKey)
	b.answers(after)
	return after
}

// stops stops the engine and checks that its port is free again.
func (b *engineHarness) stops(r executor.EngineReport) {
	b.Helper()
	stop := b.work
	stop.Desired = executor.DesiredStopped
	require.NoError(b, b.x.Apply(context.Background(), []executor.Work{stop}))
	var exit *executor.Exit
	b.until("the engine has ended", func() bool {
		for _, o := range b.x.Observed() {
			exit = o.Exit
		}
		return exit != nil
	})
	require.Equal(b, executor.ReasonStopped, exit.Reason, fmt.Sprintf("%+v", exit))
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", strings.TrimPrefix(r.Address, "http://"))
	require.NoError(b, err, "the port is still in use")
	require.NoError(b, listener.Close())
}
