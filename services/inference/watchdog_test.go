package inference_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/services/inference"
)

// inProcess is set in the environment of the process that runs TestEngineProcess as an engine.
const inProcess = "TEST_ENGINE_PROCESS"

const answer = `{"choices":[{"message":{"content":"hi"}}]}`

// TestEngineProcess is the engine that engineProcess starts. It prints its address and serves until its standard input
// ends.
func TestEngineProcess(t *testing.T) {
	if os.Getenv(inProcess) == "" {
		return // the code below runs only in the process that engineProcess starts
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	}()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// engineProcess starts an engine as a process of its own.
func engineProcess(t *testing.T) (*engine, *os.Process) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestEngineProcess$")
	cmd.Env = append(os.Environ(), inProcess+"=1")
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return &engine{addr: strings.TrimSpace(addr)}, cmd.Process
}

// freeze stops the engine and waits until all its threads have stopped, because the signal could otherwise take effect
// only after the next calls.
func freeze(t *testing.T, engine *os.Process) {
	t.Helper()
	require.NoError(t, engine.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", engine.Pid))
		require.NoError(t, err)
		for _, path := range threads {
			raw, err := os.ReadFile(path)
			if err == nil && !strings.Contains(string(raw), ") T ") {
				return false
			}
		}
		return len(threads) > 0
	}, limit, time.Millisecond)
}

// ask sends a chat call and returns the status of the response, or 0 if the connection ended without a response.
func (r *harness) ask(ctx context.Context, bearer string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL+"/inference/"+deploymentA+chat, strings.NewReader(`{"messages":[]}`))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := r.server.Client().Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func silence(after time.Duration) func(*inference.Config) {
	return func(c *inference.Config) { c.EngineSilence = after }
}

func (r *harness) suspected() (n int) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(r.t.Context(), `SELECT count(*) FROM engine_silence`).Scan(&n))
	return n
}

func TestHungEngineIsReplaced(t *testing.T) {
	t.Parallel()
	r := open(t, silence(time.Second), func(c *inference.Config) { c.FirstByte, c.EngineIdle = 3*time.Second, 3*time.Second })
	e := newToken(t, "good")
	hung, process := engineProcess(t)
	r.ready(served(deploymentA, []*registrypeerv1.ServedToken{e.served}, hung))
	require.Equal(t, http.StatusOK, r.ask(t.Context(), e.text))
	freeze(t, process)
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() { r.ask(ctx, e.text) })
	}
	defer calls.Wait()
	defer cancel()
	select {
	case in := <-r.registry.replaced:
		require.Equal(t, []string{"rev_1", "rep_" + hung.addr, "http://" + hung.addr}, []string{in.GetRevisionId(), in.GetReplicaId(), in.GetAddress()})
		require.GreaterOrEqual(t, time.Since(began), 3*time.Second, "the replacement must wait for one second of silence and two probes of one second each")
	case <-time.After(limit):
		require.Fail(t, "the engine was not replaced")
	}
	require.Eventually(t, func() bool { return r.suspected() == 0 }, limit, 10*time.Millisecond)
}

// An engine that hangs for a while and then responds again must not be replaced.
func TestHungEngineThatRecovers(t *testing.T) {
	t.Parallel()
	r, e := open(t, silence(time.Second)), newToken(t, "good")
	hung, process := engineProcess(t)
	r.ready(served(deploymentA, []*registrypeerv1.ServedToken{e.served}, hung))
	require.Equal(t, http.StatusOK, r.ask(t.Context(), e.text))
	freeze(t, process)
	status := make(chan int, 1)
	go func() { status <- r.ask(t.Context(), e.text) }()
	require.Eventually(t, func() bool { return r.suspected() == 1 }, limit, 10*time.Millisecond)
	require.NoError(t, process.Signal(syscall.SIGCONT))
	require.Equal(t, http.StatusOK, <-status)
	require.Eventually(t, func() bool { return r.suspected() == 0 }, limit, 10*time.Millisecond)
	require.Empty(t, r.registry.replaced)
}

// For twenty seconds, the engine gets four times as many calls as it can serve. Most of them wait for longer than the
// one second after which a silent engine is suspected, and a probe waits behind them.
func TestSaturatedEngineIsNotReplaced(t *testing.T) {
	t.Parallel()
	const rate, factor = 5, 4
	var slot sync.Mutex
	var did atomic.Int32
	busy := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); !ok {
			return
		}
		slot.Lock()
		time.Sleep(time.Second / rate) // the engine works on the call
		slot.Unlock()
		did.Add(1)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	})
	r, e := open(t, silence(time.Second)), newToken(t, "good")
	r.ready(served(deploymentA, []*registrypeerv1.ServedToken{e.served}, busy))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	next := time.NewTicker(time.Second / rate / factor)
	defer next.Stop()
	for ctx.Err() == nil {
		select {
		case <-next.C:
			calls.Go(func() { r.ask(ctx, e.text) })
		case <-ctx.Done():
		}
	}
	calls.Wait()
	require.Greater(t, did.Load(), int32(20), "the engine must have responded to calls all the time")
	require.Empty(t, r.registry.replaced)
}

// All callers leave before the overloaded engine responds to them. The engine does not notice that they have left. It
// works on their calls, so neither a caller nor a probe gets a byte.
func TestEngineWithAbandonedCallsIsNotReplaced(t *testing.T) {
	t.Parallel()
	var did atomic.Int32
	turn := make(chan chan struct{}, 1000) // the engine works on one call after another
	defer close(turn)
	go func() {
		for done := range turn {
			time.Sleep(100 * time.Millisecond) // the engine works on the call
			close(done)
		}
	}()
	busy := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		if _, _, ok := e.read(in); !ok {
			return
		}
		done := make(chan struct{})
		turn <- done
		<-done
		did.Add(1)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	})
	r, e := open(t, silence(time.Second)), newToken(t, "good")
	r.ready(served(deploymentA, []*registrypeerv1.ServedToken{e.served}, busy))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	defer calls.Wait()
	next := time.NewTicker(25 * time.Millisecond)
	defer next.Stop()
	for ctx.Err() == nil {
		select {
		case <-next.C:
			calls.Go(func() {
				impatient, leave := context.WithTimeout(ctx, 500*time.Millisecond)
				defer leave()
				r.ask(impatient, e.text)
			})
		case <-ctx.Done():
		}
	}
	require.Greater(t, did.Load(), int32(20), "the engine must have responded to calls all the time")
	require.Empty(t, r.registry.replaced)
}
