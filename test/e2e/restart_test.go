package e2e

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// stopLimit is the longest time that signalboxd may take to stop after Ctrl-C.
const stopLimit = 3 * time.Second

// TestRestarts stops an installation by Ctrl-C, by SIGTERM and by kill after a model was trained and served. After the
// restart it reads all data again.
func TestRestarts(t *testing.T) {
	type way struct {
		stop  func(t *testing.T, s *testenv.Installation)
		again func(s *testenv.Installation)
		keeps bool // the engine continues
	}
	single := (*testenv.Installation).StartSingle
	ways := map[string]map[string]way{
		"single": {"Ctrl-C": {interrupt, single, false}, "SIGTERM": {terminate, single, true}, "kill": {testenv.KillAll, single, true}},
		"split":  {"Ctrl-C": {interruptAll, testenv.StartAll, true}, "kill": {testenv.KillAll, testenv.StartAll, true}},
	}
	for kind, start := range testenv.DrawnKinds(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			s := start(t, testenv.Options{})
			l := testenv.Train(ctx, t, s)
			q := testenv.Serve(ctx, t, s, l)
			_, err := l.AwaitTraffic(ctx, 1)
			require.NoError(t, err)
			parameters := createOtherObjects(t, l)
			for name, w := range ways[kind] {
				t.Run(name, func(t *testing.T) {
					paths, empty := resources(t, l, parameters)
					requireEmpty(ctx, t, l, empty)
					before := readAll(ctx, t, l, paths)
					engine := requireEngineRuns(ctx, t, l)
					w.stop(t, s)
					w.again(s)
					awaitSameData(ctx, t, l, paths, before)
					require.Equal(t, w.keeps, requireEngineRuns(ctx, t, l) == engine, "the engine, process %d, must continue if and only if the stop keeps engines", engine)
					answer, err := l.Chat(ctx, q.Question)
					require.NoError(t, err, s.Tail())
					require.Equal(t, q.Expected, answer)
					_, err = l.AwaitTraffic(ctx, 1+strings.Count(string(before[trafficPath(l)]), `"request_id"`))
					require.NoError(t, err)
				})
			}
			if kind == "single" {
				t.Run("Ctrl-C with a running job", func(t *testing.T) { requireSecondAttempt(ctx, t, s) })
			}
		})
	}
}

// openIdleConnections opens a connection on which nothing is ever sent, as browsers do, and one with a request
// whose body never arrives.
func openIdleConnections(t *testing.T, s *testenv.Installation) {
	t.Helper()
	for _, start := range []string{"", "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Write([]byte(start))
		require.NoError(t, err)
	}
}

// interrupt sends Ctrl-C. Every process must end in time, even if clients hold connections open.
func interrupt(t *testing.T, s *testenv.Installation) {
	t.Helper()
	openIdleConnections(t, s)
	p := s.Processes["signalboxd"]
	took, ok := p.Stop(4 * stopLimit)
	require.True(t, ok, "signalboxd had to be killed: %s", p.Tail())
	require.NoError(t, p.Err(), p.Tail())
	require.LessOrEqual(t, took, stopLimit, p.Tail())
	t.Logf("Ctrl-C took %s", took)
	for _, pid := range testenv.LeftProcesses(s.Dir) {
		require.Fail(t, "a process is still running", "%d %s", pid, commandLine(pid))
	}
}

// terminate stops signalboxd as a service manager does. No request is open, so signalboxd must not wait for the grace
// period.
func terminate(t *testing.T, s *testenv.Installation) {
	t.Helper()
	p := s.Processes["signalboxd"]
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	<-p.Exited()
	require.NoError(t, p.Err(), p.Tail())
	require.LessOrEqual(t, time.Since(began), stopLimit, p.Tail())
}

// interruptAll interrupts the processes in the reverse order of their start. Each must end before the next.
func interruptAll(t *testing.T, s *testenv.Installation) {
	t.Helper()
	for _, name := range slices.Backward(s.Order) {
		p := s.Processes[name]
		took, ok := p.Stop(testenv.StageTimeout)
		require.True(t, ok, "%s had to be killed: %s", name, p.Tail())
		require.NoError(t, p.Err(), "%s: %s", name, p.Tail())
		t.Logf("%s stopped in %s", name, took)
	}
}

func trafficPath(l *e2eflow.Loop) string {
	return "/api/model-deployments/" + l.Deployment.ID + "/traffic"
}

// awaitSameData waits until the revision is ready again and every path returns the same data as before. Only
// lists of events may have grown.
func awaitSameData(ctx context.Context, t *testing.T, l *e2eflow.Loop, paths []string, before map[string][]byte) {
	t.Helper()
	var diff string
	l.Revision.Ready = false
	ok := eventually(ctx, testenv.StageTimeout, func() bool {
		if !l.Revision.Ready && l.AwaitReady(ctx) != nil {
			return false
		}
		diff = ""
		for path, now := range readAll(ctx, t, l, paths) {
			was := before[path]
			if strings.HasSuffix(path, "/events") {
				was, now = bytes.TrimSuffix(bytes.TrimSpace(was), []byte("]")), bytes.TrimSpace(now)
				now = now[:min(len(now), len(was))]
			}
			if !bytes.Equal(was, now) {
				diff += path + "\n" + cmp.Diff(string(was), string(now)) + "\n"
			}
		}
		l.Revision.Ready = false
		return diff == ""
	})
	require.True(t, ok, "the data differs after the restart:\n%s", diff)
}

// requireEngineRuns requires that the engine of the revision is a running process, and returns the process id.
func requireEngineRuns(ctx context.Context, t *testing.T, l *e2eflow.Loop) (pid int) {
	t.Helper()
	var revision struct {
		Replicas []struct {
			PID int `json:"engine_pid"`
		} `json:"replicas"`
	}
	path := "/api/model-deployments/" + l.Deployment.ID + "/revisions/" + strconv.Itoa(l.Revision.Number)
	require.NoError(t, l.Client.Get(ctx, path, nil, &revision))
	require.Len(t, revision.Replicas, 1)
	pid = revision.Replicas[0].PID
	require.Contains(t, commandLine(pid), "llamacpp", "process %d must be the engine", pid)
	return pid
}

// eventually polls until the condition is true. It returns false if the time limit passes first.
func eventually(ctx context.Context, limit time.Duration, condition func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if condition() {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// requireSecondAttempt stops signalboxd during an attempt. The next signalboxd must start a second attempt.
func requireSecondAttempt(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	l := s.Loop(ctx)
	// The command of the first attempt runs until it is stopped. In the second attempt it exits.
	submitCommand(ctx, t, l, "sh", "-c", `echo "attempt $SERVICE_JOB_ATTEMPT"; [ "$SERVICE_JOB_ATTEMPT" = 2 ] || exec sleep 612`)
	var lines []string
	require.True(t, eventually(ctx, testenv.StageTimeout, func() bool {
		var logs []e2eflow.LogLine
		require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID+"/logs", nil, &logs))
		return len(logs) > 0
	}), s.Tail())
	interrupt(t, s)
	s.StartSingle()
	require.NoError(t, l.AwaitEnd(ctx), s.Tail())
	require.Equal(t, 2, l.Job.Attempt)
	require.NoError(t, l.FollowLogs(ctx, func(line e2eflow.LogLine) { lines = append(lines, line.Text) }))
	require.Equal(t, []string{"attempt 1", "attempt 2"}, lines)
	var attempts []attempt
	require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID+"/attempts", nil, &attempts))
	require.Len(t, attempts, 2)
	require.Equal(t, "executor_lost", attempts[0].EndReason)
}
