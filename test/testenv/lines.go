package testenv

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// pollInterval is the time between two polls.
const pollInterval = 20 * time.Millisecond

// Until polls until the condition is true. It fails the test if ctx ends first.
func (s *Installation) Until(ctx context.Context, what string, condition func() bool) {
	s.T.Helper()
	for !condition() {
		select {
		case <-ctx.Done():
			require.FailNow(s.T, "condition not met: "+what, s.Tail())
		case <-time.After(pollInterval):
		}
	}
}

// AgentDir returns the data folder of the installation's agent.
func (s *Installation) AgentDir() string {
	if s.Processes["signalboxd"] != nil {
		return filepath.Join(s.Dir, "data", "agent")
	}
	return filepath.Join(s.Dir, "agent")
}

// Find returns the path of a file in the folders of the agent's works: the first file that has the given name and for
// which the function accept returns true. If no such file exists, Find returns "".
func (s *Installation) Find(name string, accept func(path string) bool) string {
	found := ""
	var visit fs.WalkDirFunc
	visit = func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // the file has disappeared
		case d.Name() == name && accept(path):
			found = path
			return fs.SkipAll
		case strings.HasSuffix(path, ".img"):
			if root := s.disks.open(s.T, path); root != "" {
				_ = filepath.WalkDir(root+"/.", visit) // the root itself is a link
			}
			if found != "" {
				return fs.SkipAll
			}
		}
		return nil
	}
	_ = filepath.WalkDir(filepath.Join(s.AgentDir(), "works"), visit)
	return found
}

// Inside returns a path of a folder that the work writes to, such as `package`. The argument work is the work's folder
// in the agent's data.
func (s *Installation) Inside(work, folder string) string {
	if root := s.disks.open(s.T, filepath.Join(work, "disk.img")); root != "" {
		return filepath.Join(root, folder)
	}
	return filepath.Join(work, folder)
}

// WorkOf returns the folder of the work that contains path, a path that Find has returned.
func (s *Installation) WorkOf(path string) string {
	s.disks.mu.Lock()
	defer s.disks.mu.Unlock()
	for image, root := range s.disks.roots {
		if strings.HasPrefix(path, root.Name()+"/") {
			return filepath.Dir(image)
		}
	}
	works := filepath.Join(s.AgentDir(), "works") + "/"
	work, _, _ := strings.Cut(strings.TrimPrefix(path, works), "/")
	return works + work
}

// openDisks holds the disks of works that a test has opened, by the paths of their images. They stay open until the
// test ends, so that the paths in them stay valid.
type openDisks struct {
	mu    sync.Mutex
	roots map[string]*os.File
}

// open returns a path of the root of the disk, or "" if the disk was removed.
func (o *openDisks) open(t testing.TB, image string) string {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if root := o.roots[image]; root != nil {
		return root.Name()
	}
	d := boundary.Disk{Image: image, Purpose: boundary.Scratch}
	if strings.HasPrefix(filepath.Base(image), "spool") {
		d.Purpose = boundary.Reports
	}
	root, err := d.Open()
	if err != nil {
		return ""
	}
	t.Cleanup(func() { _ = root.Close() })
	if o.roots == nil {
		o.roots = map[string]*os.File{}
	}
	o.roots[image] = root
	return root.Name()
}

// Command returns the submission of a job that runs the given command.
func Command(ctx context.Context, s *Installation, l *e2eflow.Loop, command ...string) map[string]any {
	s.T.Helper()
	lock, version, err := l.Lock(ctx, "custom/custom")
	require.NoError(s.T, err)
	return map[string]any{"api": "service/v1", "spec": map[string]any{
		"name": l.Name, "source": map[string]any{"command": command},
		"recipe":    map[string]any{"name": "custom/custom", "version": version, "lock": lock},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
	}}
}

const exporting = `
import sys, signalbox
with signalbox.init() as run:
    run.starting()
    run.running()
    with open("model.gguf", "wb") as f:
        f.write(bytes.fromhex(sys.argv[1]))
    run.artifact("model.gguf", kind="merged_model", format="gguf", step=1)
`

// ExportModel runs a job that exports the smallest valid model, and returns the artifact of the model.
// fixtures.Engine can serve the model.
func ExportModel(ctx context.Context, s *Installation, l *e2eflow.Loop) e2eflow.Artifact {
	s.T.Helper()
	require.NoError(s.T, l.Submit(ctx, Command(ctx, s, l, "python", "-c", exporting, hex.EncodeToString(fixtures.GGUF(l.Name)))))
	require.NoError(s.T, l.AwaitEnd(ctx), s.Tail())
	artifact, err := l.FindArtifact(ctx, "merged_model", "gguf")
	require.NoError(s.T, err)
	return artifact
}

// Counter is a job that prints numbered lines until it is stopped, and then prints the number of these lines. Its log
// must contain each line once and in order, even if processes were killed meanwhile.
type Counter struct {
	s   *Installation
	l   *e2eflow.Loop
	log string // path of the log in the agent's folder; empty until AwaitMore has found the log
}

// counting prints one line at a time. The shell handles SIGTERM between two lines, so that the last number
// is correct. stderr is discarded, because the shell would report the interrupted sleep there.
const counting = `exec 2>/dev/null; stop=; trap 'stop=1' TERM; n=0
until [ "$stop" ]; do n=$((n+1)); echo "$0 $n"; sleep 0.1; done
echo "$0 ends at $n"`

// Count starts a counter. The counter uses the client and the settings of the given Loop.
func (s *Installation) Count(ctx context.Context, other *e2eflow.Loop) *Counter {
	s.T.Helper()
	c := &Counter{s: s, l: &e2eflow.Loop{
		Client: other.Client, Clock: other.Clock, Timeout: other.Timeout, Name: other.Name + "-counter",
	}}
	require.NoError(s.T, c.l.Submit(ctx, Command(ctx, s, c.l, "sh", "-c", counting, c.l.Name)))
	return c
}

// Follow makes the counter use the client of another Loop. This is necessary after the installation's address has
// changed.
func (c *Counter) Follow(other *e2eflow.Loop) { c.l.Client = other.Client }

// AwaitMore waits until the counter has printed n more lines, even if the agent has not sent them yet.
func (c *Counter) AwaitMore(ctx context.Context, n int) {
	c.s.T.Helper()
	c.s.Until(ctx, "the counter has printed its first line", func() bool {
		if c.log == "" {
			c.log = c.find()
		}
		return c.log != ""
	})
	want := c.written() + n
	c.s.Until(ctx, fmt.Sprint("the counter has printed ", want, " lines"), func() bool { return c.written() >= want })
}

// find returns the path of the log that begins with the counter's first line, or "" if no log does.
func (c *Counter) find() string {
	first := c.l.Name + " 1\n"
	logs, err := filepath.Glob(filepath.Join(c.s.AgentDir(), "works", "*", "log"))
	require.NoError(c.s.T, err)
	for _, path := range logs {
		f, err := os.Open(path)
		if err != nil {
			continue // the work was removed
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

// AwaitLast waits until a stopped counter has printed its last line, even if no agent reports it.
func (c *Counter) AwaitLast(ctx context.Context) {
	c.s.T.Helper()
	c.s.Until(ctx, "the counter has printed its last line", func() bool {
		raw, err := os.ReadFile(c.log)
		return err == nil && strings.Contains(string(raw), c.l.Name+" ends at ")
	})
}

// Stop requests the stop of the counter. It repeats the request until it succeeds.
func (c *Counter) Stop(ctx context.Context) {
	c.s.T.Helper()
	c.s.Until(ctx, "the stop request succeeds", func() bool {
		a, err := c.l.Client.Call(ctx, http.MethodPost, "/api/jobs/"+c.l.Job.ID+"/stop", nil)
		return err == nil && a.Status < http.StatusBadRequest
	})
}

// End waits until a stopped counter has ended. It requires that the log contains every printed line once
// and in order.
func (c *Counter) End(ctx context.Context) {
	t := c.s.T
	t.Helper()
	require.NoError(t, c.l.AwaitState(ctx, "stopped"), c.s.Tail())
	require.Equal(t, "stopped", c.l.Job.State)
	require.Equal(t, 1, c.l.Job.Attempt, "the counter's first attempt must succeed")
	var got []string
	require.NoError(t, c.l.FollowLogs(ctx, func(line e2eflow.LogLine) { got = append(got, line.Text) }))
	require.Greater(t, len(got), 1)
	n := len(got) - 1
	want := make([]string, 0, len(got))
	for i := range n {
		want = append(want, fmt.Sprintf("%s %d", c.l.Name, i+1))
	}
	require.Equal(t, append(want, fmt.Sprintf("%s ends at %d", c.l.Name, n)), got, "each line must be logged once and in order")
}

// RequireTrainingLines requires that a log contains the lines that the training printed according to the stored
// validation rounds. The reporter may print lines in between, for example about a server that does not
// respond.
func (s *Installation) RequireTrainingLines(ctx context.Context, l *e2eflow.Loop, log []e2eflow.LogLine) {
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
