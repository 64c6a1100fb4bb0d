package testenv

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
)

// look is the pause between looks at a state that nothing announces.
const look = 20 * time.Millisecond

// Until looks until it holds; the end of ctx is the only limit.
func (s *Stand) Until(ctx context.Context, what string, holds func() bool) {
	s.T.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			require.FailNow(s.T, "it did not come true: "+what, s.Tail())
		case <-time.After(look):
		}
	}
}

// AgentDir is where the agent of the stand keeps its works.
func (s *Stand) AgentDir() string {
	if s.Processes["signalboxd"] != nil {
		return filepath.Join(s.Dir, "data", "agent")
	}
	return filepath.Join(s.Dir, "agent")
}

// Find looks for a file of that name in the agent's works, of which there need not be any.
func (s *Stand) Find(name string, fits func(path string) bool) string {
	found := ""
	_ = filepath.WalkDir(filepath.Join(s.AgentDir(), "works"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name && fits(path) {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// Command is the JobSpec of a user's own command.
func Command(ctx context.Context, s *Stand, l *e2eflow.Loop, command ...string) map[string]any {
	s.T.Helper()
	lock, version, err := l.Lock(ctx, "custom/custom")
	require.NoError(s.T, err)
	return map[string]any{"api": "service/v1", "spec": map[string]any{
		"name": l.Name, "source": map[string]any{"command": command},
		"recipe":    map[string]any{"name": "custom/custom", "version": version, "lock": lock},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
	}}
}

// Counter is a job that prints numbered lines until it is stopped, and then how many there were: whatever
// happens meanwhile, its log must hold each once and in order.
type Counter struct {
	s   *Stand
	l   *e2eflow.Loop
	log string // on the host
}

// counting prints a line at a time; a signal is looked at between lines, so that the last number is true.
// The shell would tell of the pause that the signal cuts short, on the other stream.
const counting = `exec 2>/dev/null; stop=; trap 'stop=1' TERM; n=0
until [ "$stop" ]; do n=$((n+1)); echo "$0 $n"; sleep 0.1; done
echo "$0 ends at $n"`

// Count starts a counter beside a walk, signed in as it is.
func (s *Stand) Count(ctx context.Context, beside *e2eflow.Loop) *Counter {
	s.T.Helper()
	c := &Counter{s: s, l: &e2eflow.Loop{
		Client: beside.Client, Clock: beside.Clock, Timeout: beside.Timeout, Name: beside.Name + "-counter",
	}}
	require.NoError(s.T, c.l.Submit(ctx, Command(ctx, s, c.l, "sh", "-c", counting, c.l.Name)))
	return c
}

// Follow goes on as another walk, to where the stand is by then.
func (c *Counter) Follow(beside *e2eflow.Loop) { c.l.Client = beside.Client }

// AwaitMore waits until the process has written n more lines, whoever reads them.
func (c *Counter) AwaitMore(ctx context.Context, n int) {
	c.s.T.Helper()
	c.s.Until(ctx, "the counter's first line", func() bool {
		if c.log == "" {
			c.log = c.find()
		}
		return c.log != ""
	})
	want := c.written() + n
	c.s.Until(ctx, fmt.Sprint(want, " lines"), func() bool { return c.written() >= want })
}

// find looks for the log that begins with the counter's first line.
func (c *Counter) find() string {
	first := c.l.Name + " 1\n"
	logs, err := filepath.Glob(filepath.Join(c.s.AgentDir(), "works", "*", "log"))
	require.NoError(c.s.T, err)
	for _, path := range logs {
		f, err := os.Open(path)
		if err != nil {
			continue // its work is gone
		}
		head := make([]byte, len(first))
		_, _ = io.ReadFull(f, head)
		_ = f.Close()
		if string(head) == first {
			return path
		}
	}
	return ""
}

func (c *Counter) written() int {
	raw, err := os.ReadFile(c.log)
	require.NoError(c.s.T, err)
	return strings.Count(string(raw), "\n")
}

// Stop tells the counter to stop.
func (c *Counter) Stop(ctx context.Context) {
	c.s.T.Helper()
	c.s.Until(ctx, "the counter is told to stop", func() bool {
		a, err := c.l.Client.Call(ctx, http.MethodPost, "/api/jobs/"+c.l.Job.ID+"/stop", nil)
		return err == nil && a.Status < http.StatusBadRequest
	})
}

// End awaits the end of a counter that was told to stop, and demands every line that it wrote, once and
// in order.
func (c *Counter) End(ctx context.Context) {
	t := c.s.T
	t.Helper()
	require.NoError(t, c.l.AwaitState(ctx, "stopped"), c.s.Tail())
	require.Equal(t, "stopped", c.l.Job.State)
	require.Equal(t, 1, c.l.Job.Attempt, "the counter's attempt is the first one")
	var got []string
	require.NoError(t, c.l.FollowLogs(ctx, func(line e2eflow.LogLine) { got = append(got, line.Text) }))
	require.Greater(t, len(got), 1)
	n := len(got) - 1
	want := make([]string, 0, len(got))
	for i := range n {
		want = append(want, fmt.Sprintf("%s %d", c.l.Name, i+1))
	}
	require.Equal(t, append(want, fmt.Sprintf("%s ends at %d", c.l.Name, n)), got, "each line once and in order")
}

// LessonLines demands that a log is what the lesson's training printed, line by line, as the stored
// validation rounds tell it. What the reporter itself says of a server that is away stands between.
func (s *Stand) LessonLines(ctx context.Context, l *e2eflow.Loop, log []e2eflow.LogLine) {
	t := s.T
	t.Helper()
	rounds, err := l.Rounds(ctx)
	require.NoError(t, err)
	want := []string{"80 rows to train on, 20 held out, "}
	for _, r := range rounds {
		want = append(want, fmt.Sprintf("step %d: exact match %.3f after ", r.Step, *r.AvgReward))
	}
	want = append(want, fmt.Sprintf("finished with exact match %.3f", *rounds[len(rounds)-1].AvgReward))
	var got []string
	for i, line := range log {
		require.EqualValues(t, i+1, line.Seq)
		if !strings.HasPrefix(line.Text, "signalbox: ") {
			got = append(got, line.Text)
		}
	}
	require.Len(t, got, len(want), "%q", got)
	for i := range want {
		require.Equal(t, want[i], got[i][:min(len(want[i]), len(got[i]))], "line %d of %q", i+1, got)
	}
}
