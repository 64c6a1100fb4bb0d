package cli

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// rounds is the number of lines and values that the run of the restart reports.
const rounds = 120

// follower is a command that follows a run, and what it has printed so far.
type follower struct {
	cmd *exec.Cmd

	mu  sync.Mutex
	out strings.Builder
	err strings.Builder
}

// Write implements io.Writer for the output.
func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (f *follower) lines() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Split(strings.TrimSuffix(f.out.String(), "\n"), "\n")
}

func (w *world) follow(t *testing.T, args ...string) *follower {
	t.Helper()
	f := &follower{cmd: w.program(t, t.TempDir(), w.signedIn("admin"), args...)}
	f.cmd.Stdout, f.cmd.Stderr = f, &f.err
	require.NoError(t, f.cmd.Start())
	return f
}

// restart kills and restarts the server while commands follow the log and the metrics of a run that continues to report.
// No line is lost, and none is printed twice.
func (w *world) restart(t *testing.T) {
	t.Helper()
	r := w.newRun(t, "apart", "restarted")
	r.lifecycle("running")
	logs := w.follow(t, "logs", r.ID, "--follow")
	grep := w.follow(t, "logs", r.ID, "--follow", "--grep", "line .*0$")
	metrics := w.follow(t, "metrics", r.ID, "--follow", "-o", "jsonl", "--jq", "\"\\(.key) \\(.step) \\(.value)\"")
	waits := w.follow(t, "logs", r.ID, "--tail", "0", "--follow", "-o", "jsonl", "--jq", ".text")
	all := []*follower{logs, grep, metrics, waits}

	const before = rounds / 3
	for range before {
		require.NoError(t, r.round())
	}
	w.until(t, "the commands follow", func() bool {
		return len(logs.lines()) >= before && len(metrics.lines()) >= before
	})
	// The run reports while the server is killed and restarted.
	var reporting sync.WaitGroup
	reporting.Go(func() { r.rounds(rounds - before) })
	w.until(t, "the run continues", func() bool { return len(logs.lines()) > before })
	testenv.KillAll(t, w.Installation)
	testenv.StartAll(w.Installation)
	reporting.Wait()
	w.until(t, "the end is reported", func() bool {
		return r.try("lifecycle", map[string]any{"event": "succeeded", "ts": stamp(rounds)}) == nil
	})
	for _, f := range all {
		require.NoError(t, f.cmd.Wait(), "%q: %s", f.cmd.Args[1:], &f.err)
	}

	// What the server has stored is what the commands must have printed.
	stored := strings.Split(strings.TrimSuffix(w.mustRun(t, "logs", r.ID), "\n"), "\n")
	require.GreaterOrEqual(t, len(stored), rounds)
	require.Len(t, unique(stored), len(stored))
	require.Equal(t, stored, logs.lines())
	var found []string
	for _, line := range stored {
		if strings.HasSuffix(line, "0") {
			found = append(found, line)
		}
	}
	require.Equal(t, found, grep.lines())
	require.Equal(t, stored[len(stored)-len(waits.lines()):], waits.lines(), "the lines after the start of the command")
	require.ElementsMatch(t, w.values(t, r.ID), metrics.lines())
}

// rounds sends further reports, until the given number has arrived. One whose response is lost may have arrived too.
func (r *reporter) rounds(more int) {
	for more > 0 {
		if err := r.round(); err != nil {
			select {
			case <-r.t.Context().Done():
				return
			case <-time.After(10 * time.Millisecond): // the server is away; try again
			}
			continue
		}
		more--
	}
}

// round sends a line of the log and a value, other ones each time.
func (r *reporter) round() error {
	n := r.sent
	r.sent++
	if err := r.try("logs", map[string]any{"chunks": []string{fmt.Sprintf("line %d\n", n)}}); err != nil {
		return err
	}
	return r.try("metrics", map[string]any{"points": []any{map[string]any{"key": "loss", "step": n, "value": float64(n) / 2, "ts": stamp(n)}}})
}

// values returns all values that the server has stored.
func (w *world) values(t *testing.T, run string) (out []string) {
	t.Helper()
	var series []struct {
		Key    string `json:"key"`
		Points []struct {
			Step  int64           `json:"step"`
			Value json.RawMessage `json:"value"`
		} `json:"points"`
	}
	require.NoError(t, json.Unmarshal([]byte(w.mustRun(t, "api", "GET", "/api/runs/"+run+"/metrics")), &series))
	for _, s := range series {
		for _, p := range s.Points {
			out = append(out, fmt.Sprintf("%s %d %s", s.Key, p.Step, p.Value))
		}
	}
	require.GreaterOrEqual(t, len(out), rounds)
	require.Len(t, unique(out), len(out))
	return out
}

func unique(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }
