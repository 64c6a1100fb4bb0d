package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// notebook is a Python program that reports a curve to a run without a job. After a kill it continues where it was.
const notebook = `
import pathlib, signal, signalbox
kept = pathlib.Path("step")
first = int(kept.read_text()) if kept.exists() else 0
with signalbox.init(project="default", name="notebook", resume=True, hardware=0) as run:
    print(run.id, flush=True)
    for step in range(first, 1000):
        run.log({"curve": step * step}, step=step)
        kept.write_text(str(step + 1))
        if step == 400 and first == 0:
            print("middle", flush=True)
            signal.pause()
`

// reportFromNotebook reports 1,000 steps from a program that no job runs. It is killed in the middle and started again.
func reportFromNotebook(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	dir := t.TempDir()
	begin := func() (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.CommandContext(ctx, "python3", "-c", notebook)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PYTHONPATH=" + filepath.Join(testenv.Root(t), "sdk", "python", "src"),
			"SERVICE_SERVER=" + s.URL, "SERVICE_TOKEN=" + c.access,
		}
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		return cmd, bufio.NewScanner(out)
	}
	cmd, out := begin()
	require.True(t, out.Scan(), "the program creates a run")
	runID := out.Text()
	require.True(t, out.Scan(), "the program reports")
	folders := filepath.Join(dir, ".local", "state", "signalbox", "*", "run_*")
	kept, err := filepath.Glob(folders)
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	cmd, out = begin()
	require.True(t, out.Scan(), "the program continues")
	require.Equal(t, runID, out.Text())
	for out.Scan() {
		continue
	}
	require.NoError(t, cmd.Wait())

	l := s.Loop(ctx)
	var series []struct {
		Points []struct {
			Step  int64
			Value float64
		}
	}
	require.NoError(t, l.Client.Get(ctx, "/api/runs/"+runID+"/metrics", nil, &series))
	require.Len(t, series, 1)
	require.Len(t, series[0].Points, 1000)
	for step, p := range series[0].Points {
		require.EqualValues(t, step, p.Step)
		require.InDelta(t, step*step, p.Value, 0)
	}
	var run struct{ State string }
	require.NoError(t, l.Client.Get(ctx, "/api/runs/"+runID, nil, &run))
	require.Equal(t, "succeeded", run.State)
	kept, err = filepath.Glob(folders)
	require.NoError(t, err)
	require.Empty(t, strings.Join(kept, " "), "the token of an ended run is deleted")
}
