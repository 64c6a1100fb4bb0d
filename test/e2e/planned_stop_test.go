package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	grace    = 2 * time.Second // SERVICE_STOP_GRACE of these tests
	exitTime = time.Second     // the longest time from the end of the grace period to the exit
)

// planned is an installation with two jobs: one that may not be retried, and a counter.
type planned struct {
	*testing.T
	s       *testenv.Installation
	l       *e2eflow.Loop
	counter *testenv.Counter
}

// TestSingleProcess_plannedStops stops and starts signalboxd as a service manager does, once for an upgrade. The jobs
// must continue at their first attempt. The test then stops signalboxd together with its jobs. The next start must
// repeat the jobs, even a job that allows no retry.
func TestSingleProcess_plannedStops(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	p := &planned{T: t, s: testenv.Single(t, testenv.Options{Env: map[string]string{"SERVICE_STOP_GRACE": grace.String()}})}
	p.l = p.s.Loop(ctx)
	p.counter = p.s.Count(ctx, p.l)
	spec := commandSpec(ctx, t, p.l, "sh", "-c", `[ "$SERVICE_JOB_ATTEMPT" = 2 ] || exec sleep 613`)
	spec["spec"].(map[string]any)["retry"] = map[string]any{"max": 0}
	require.NoError(t, p.l.Submit(ctx, spec))
	pid := p.awaitCommand(ctx)
	for name, stop := range map[string]func(){
		"SIGTERM": func() { p.s.Processes["signalboxd"].Signal(syscall.SIGTERM) },
		"command": func() { p.stopCommand(ctx) },
		"upgrade": func() { p.s.Processes["signalboxd"].Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			p.T = t
			p.requireStop(ctx, stop)
			p.counter.AwaitMore(ctx, 3)
			if name == "upgrade" {
				p.upgrade()
			}
			p.s.StartSingle()
			require.Equal(t, pid, p.awaitCommand(ctx), "the command must continue")
			require.Equal(t, 1, p.attempt(ctx))
		})
	}
	p.T = t
	p.counter.AwaitMore(ctx, 3)
	p.counter.Stop(ctx)
	p.counter.End(ctx)
	p.requireWorksEnd(ctx)
}

// attempt returns the number of the job's current attempt.
func (p *planned) attempt(ctx context.Context) int {
	p.Helper()
	var job struct{ Attempt int }
	p.s.Until(ctx, "the job can be read", func() bool { return p.l.Client.Get(ctx, "/api/jobs/"+p.l.Job.ID, nil, &job) == nil })
	return job.Attempt
}

// runFile returns the shim's file about the running processes of the job.
func (p *planned) runFile() string {
	return p.s.Find("run.json", func(path string) bool {
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(path)), "assignment.json"))
		return err == nil && strings.Contains(string(raw), p.l.Job.ID)
	})
}

// awaitCommand waits until the job's command runs and returns its process id.
func (p *planned) awaitCommand(ctx context.Context) (pid int) {
	p.Helper()
	p.s.Until(ctx, "the command of the job runs", func() bool {
		var running struct {
			Command struct {
				PID int `json:"pid"`
			} `json:"command"`
		}
		raw, err := os.ReadFile(p.runFile())
		if err != nil || json.Unmarshal(raw, &running) != nil {
			return false
		}
		pid = running.Command.PID
		return strings.Contains(commandLine(pid), "sleep 613")
	})
	return pid
}

func (p *planned) stopCommand(ctx context.Context, flags ...string) {
	p.Helper()
	cmd := exec.CommandContext(ctx, testenv.Bin(p, "signalboxd"), append([]string{"stop", "--data", filepath.Join(p.s.Dir, "data")}, flags...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(p, err, "%s", out)
}

// requireStop stops signalboxd while a stream is open and a request hangs. New requests must be refused at once, the
// stream must end with a hint to reconnect, and the process must exit within exitTime after the grace period.
func (p *planned) requireStop(ctx context.Context, stop func()) {
	p.Helper()
	openIdleConnections(p.T, p.s)
	stream := p.openStream(ctx)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(p.s.URL, "http://"))
	require.NoError(p, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST /api/auth/login HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	require.NoError(p, err)
	_, err = conn.Read(make([]byte, 1)) // the server requests the body
	require.NoError(p, err)
	process := p.s.Processes["signalboxd"]
	began := time.Now()
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	p.s.Until(ctx, "new requests are refused", func() bool {
		a, err := p.l.Client.Call(ctx, http.MethodGet, "/api/jobs", nil)
		return err == nil && a.Status == http.StatusServiceUnavailable && strings.Contains(string(a.Body), `"code":"draining"`)
	})
	require.Less(p, time.Since(began), grace, "new requests must be refused during the grace period")
	rest, err := io.ReadAll(stream)
	require.NoError(p, err)
	require.True(p, strings.HasSuffix(string(rest), "retry: 1000\n\n"), "%q", rest)
	require.NotContains(p, string(rest), "event: eof")
	require.Less(p, time.Since(began), grace, "streams must end at once")
	<-process.Exited()
	took := time.Since(began)
	require.NoError(p, process.Err(), process.Tail())
	require.LessOrEqual(p, took, grace+exitTime, process.Tail())
	require.GreaterOrEqual(p, took, grace, "signalboxd must wait the whole grace period for the open request")
	p.Logf("the stop took %s", took)
	<-stopped
}

func (p *planned) openStream(ctx context.Context) io.Reader {
	p.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.s.URL+"/api/jobs/"+p.l.Job.ID+"/stream", nil)
	require.NoError(p, err)
	var login struct{ Token string }
	require.NoError(p, p.l.Client.Post(ctx, "/api/auth/login", map[string]string{"username": "admin", "password": p.s.Password.Reveal()}, &login))
	req.Header.Set("Authorization", "Bearer "+login.Token)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(p, err)
	p.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(p, http.StatusOK, resp.StatusCode)
	return resp.Body
}

// upgrade makes the next start use another program file. It also removes the version from the shims' files, as if an
// agent that did not write versions had started the works.
func (p *planned) upgrade() {
	p.Helper()
	raw, err := os.ReadFile(testenv.Bin(p, "signalboxd"))
	require.NoError(p, err)
	next := filepath.Join(p.s.Dir, "signalboxd-next")
	require.NoError(p, os.WriteFile(next, raw, 0o755))
	p.s.Program(next)
	files, err := filepath.Glob(filepath.Join(p.s.AgentDir(), "works", "*", "run", "*.json"))
	require.NoError(p, err)
	require.NotEmpty(p, files)
	for _, file := range files {
		members := map[string]any{}
		raw, err := os.ReadFile(file)
		require.NoError(p, err)
		require.NoError(p, json.Unmarshal(raw, &members))
		require.Contains(p, members, "version", file)
		delete(members, "version")
		raw, err = json.Marshal(members)
		require.NoError(p, err)
		require.NoError(p, os.WriteFile(file, raw, 0o600))
	}
}

// requireWorksEnd stops signalboxd with its jobs. Everything must end within stopLimit. The next start repeats the job,
// although its spec allows no retry.
func (p *planned) requireWorksEnd(ctx context.Context) {
	p.Helper()
	process := p.s.Processes["signalboxd"]
	began := time.Now()
	p.stopCommand(ctx, "--works")
	<-process.Exited()
	require.LessOrEqual(p, time.Since(began), stopLimit, process.Tail())
	require.NoError(p, process.Err(), process.Tail())
	require.Empty(p, testenv.LeftProcesses(p.s.Dir))
	p.s.StartSingle()
	require.NoError(p, p.l.AwaitEnd(ctx), p.s.Tail())
	require.Equal(p, 2, p.attempt(ctx))
}
