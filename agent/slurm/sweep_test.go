package slurm

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

func TestRunner_keyOf(t *testing.T) {
	t.Parallel()
	r := New(Config{Agent: "a1"}, Deps{Clock: clock.Real()})
	for comment, want := range map[string]string{
		"signalbox:a1:wrk_a.1.1":               "wrk_a.1.1",
		"signalbox:a1:wrk_a.1.1;bill=x":        "wrk_a.1.1",
		"project 7, signalbox:a1:wrk_a.1.1 ok": "wrk_a.1.1",
		"signalbox:a1:wrk_a.1.11":              "wrk_a.1.11",
		"signalbox:a2:wrk_a.1.1":               "",
		"signalbox:a1:":                        "",
		"by hand":                              "",
	} {
		require.Equal(t, want, r.keyOf(Job{Comment: comment}), comment)
	}
}

// cancelled are commands that note the jobs which are cancelled.
type cancelled struct{ ids []string }

func (c *cancelled) Run(_ context.Context, _ string, args ...string) ([]byte, error) {
	c.ids = append(c.ids, args[len(args)-1])
	return nil, nil
}

// Jobs are cancelled only if their works were certainly removed. A shared file system that fails or is not mounted shows none.
func TestRunner_sweep_onlyWithoutWork(t *testing.T) {
	t.Parallel()
	now := clock.NewFake(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		change func(folder, run string) error
		want   []string
	}{
		"work exists":      {func(string, string) error { return nil }, nil},
		"work was removed": {func(_, run string) error { return os.RemoveAll(run) }, []string{"7"}},
		"not mounted":      {func(folder, _ string) error { return os.RemoveAll(folder) }, nil},
		"not readable": {func(_, run string) error { // as a failure of the file system: the path leads through a file
			if err := os.RemoveAll(filepath.Dir(run)); err != nil {
				return err
			}
			return os.WriteFile(filepath.Dir(run), nil, 0o600)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, commands := t.TempDir(), &cancelled{}
			r := New(Config{Agent: "a1", Folder: folder}, Deps{Commands: commands, Clock: now, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
			require.NoError(t, Mark(folder))
			run := filepath.Join(folder, "works", "wrk_a.1.1", "run")
			require.NoError(t, os.MkdirAll(run, 0o700))
			require.NoError(t, localfile.WriteJSON(orderFile(run), order{}, 0o600))
			require.NoError(t, c.change(folder, run))
			r.sweep(t.Context(), map[string]Job{"7": {ID: "7", State: "RUNNING", Comment: "signalbox:a1:wrk_a.1.1"}})
			require.Equal(t, c.want, commands.ids)
		})
	}
}

// The results of tests count only for an agent that would run works in the same way.
func TestRunner_readTested(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	isolated := host.Place{Isolate: true, Ranks: 1}
	open := func(c Config) *Runner {
		c.Folder = folder
		return New(c, Deps{Clock: clock.Real(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	}
	first := open(Config{Place: isolated, Program: "/p1"})
	none, err := first.readTested()
	require.NoError(t, err)
	require.Empty(t, none)
	first.reporting.tested["gpu"] = first.test(t.Context(), executor.Pool{Name: "gpu", Slurm: executor.SlurmPool{Partition: "gpu", Folder: "/elsewhere"}})
	first.keepTest(t.Context(), first.reporting.tested["gpu"])
	for name, c := range map[string]struct {
		config Config
		kept   bool
	}{
		"same agent":        {Config{Place: isolated, Program: "/p1"}, true},
		"without isolation": {Config{Place: host.Place{Ranks: 1}, Program: "/p1"}, false},
		"another program":   {Config{Place: isolated, Program: "/p2"}, false},
	} {
		known, err := open(c.config).readTested()
		require.NoError(t, err)
		require.Equal(t, c.kept, len(known) == 1, name)
	}
}
