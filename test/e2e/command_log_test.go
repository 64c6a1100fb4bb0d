package e2e

import (
	"context"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// manyLines prints numbered lines of many lengths and exits. It prints them faster than the agent can send
// them.
const manyLines = `n=0; while [ $n -lt 3000 ]; do n=$((n+1)); printf '%d %*d\n' $n $((n % 97 + 1)) $n; done`

// requirePrintedLines runs a command that prints many lines. It requires that the log contains each line once, in
// order.
func requirePrintedLines(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	l := s.Loop(ctx)
	submitCommand(ctx, t, l, "sh", "-c", manyLines)
	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "succeeded", e.State, e.Message)
	var want strings.Builder
	for n := 1; n <= 3000; n++ {
		number := strconv.Itoa(n)
		want.WriteString(number + " " + strings.Repeat(" ", max(0, n%97+1-len(number))) + number + "\n")
	}
	require.Equal(t, want.String(), e.log)
}

// killProcessGroup kills the process group of the attempt, as an operator might do. The platform must end the
// log exactly once, and the job must report how the command ended.
func killProcessGroup(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	l := s.Loop(ctx)
	submitCommand(ctx, t, l, "sh", "-c", `sleep 613 &
echo one; echo two; touch "$SERVICE_JOB_WORKDIR/leader"; wait; echo never`)
	leader := 0
	s.Until(ctx, "the command runs", func() bool {
		s.Find("leader", func(path string) bool {
			// The command has another process id inside its boundary.
			var run struct {
				Command struct{ PID int }
			}
			err := localfile.ReadJSON(filepath.Join(s.WorkOf(path), "run", "run.json"), &run)
			leader = run.Command.PID
			return err == nil
		})
		return leader != 0
	})
	group, err := syscall.Getpgid(leader)
	require.NoError(t, err)
	require.NotEqual(t, syscall.Getpgrp(), group)
	require.NoError(t, syscall.Kill(-group, syscall.SIGKILL))

	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "failed", e.State)
	require.Equal(t, "user_error", e.EndReason)
	require.Equal(t, "the command was killed by signal 9", e.Message)
	require.Len(t, e.attempts, 1)
	require.Equal(t, "user_error", e.attempts[0].EndReason)
	require.Equal(t, "one\ntwo\n", e.log)
	for range 2 { // later clients must receive the same stream
		events := stream(ctx, t, l, "/api/jobs/"+l.Job.ID+"/logs/stream")
		require.Len(t, events, 3, "%q", events)
		require.NotContains(t, events[0]+events[1], "event: eof")
		require.Contains(t, events[2], "event: eof", "eof must come last and only once")
	}
	for _, pid := range testenv.LeftProcesses(s.Dir) {
		require.NotContains(t, commandLine(pid), "sleep 613", "no process of the group may be left")
	}
}

// stream returns the events of an SSE route, up to the end of the connection and without comments.
func stream(ctx context.Context, t *testing.T, l *e2eflow.Loop, path string) []string {
	t.Helper()
	a, err := l.Client.Call(ctx, http.MethodGet, path, nil)
	require.NoError(t, err)
	var events []string
	for block := range strings.SplitSeq(string(a.Body), "\n\n") {
		if strings.TrimSpace(block) != "" && !strings.HasPrefix(block, ":") && !strings.HasPrefix(block, "retry:") {
			events = append(events, block)
		}
	}
	return events
}
