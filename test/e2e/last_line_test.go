package e2e

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// lastLines runs jobs of one second at the same time. Each ends with a line without a line break. That line must be in the
// log at the moment at which the job has ended.
func lastLines(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	jobs := 4
	if draw.Whole() {
		jobs = 40
	}
	loops, first := make([]*e2eflow.Loop, jobs), s.Loop(ctx)
	for n := range loops {
		loops[n] = &e2eflow.Loop{Client: first.Client, Clock: first.Clock, Name: first.Name + "-" + strconv.Itoa(n), Timeout: first.Timeout}
		submitCommand(ctx, t, loops[n], "python", "-c",
			"import sys, time; time.sleep(1); print('hello'); sys.stdout.write('final loss="+strconv.Itoa(n)+"')")
	}
	waiting := map[int]bool{}
	for n := range loops {
		waiting[n] = true
	}
	for len(waiting) > 0 {
		for n := range waiting {
			l := loops[n]
			var job struct {
				State     string
				Collected *bool
			}
			require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID, nil, &job))
			if job.State != "succeeded" {
				require.NotContains(t, []string{"failed", "stopped"}, job.State, s.Tail())
				require.Nil(t, job.Collected)
				continue
			}
			delete(waiting, n)
			var lines []e2eflow.LogLine
			require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID+"/logs", nil, &lines))
			require.Equal(t, []e2eflow.LogLine{{Seq: 1, Text: "hello"}, {Seq: 2, Text: "final loss=" + strconv.Itoa(n)}}, lines)
			require.True(t, *job.Collected)
		}
	}
}

// progressBar runs a command that overwrites a line again and again. The current text must be visible while it runs, and
// the last one must remain.
func progressBar(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	l := s.Loop(ctx)
	submitCommand(ctx, t, l, "sh", "-c", `cd "$SERVICE_JOB_WORKDIR"; touch bar; n=0
while [ ! -e enough ]; do n=$((n+1)); printf '\rEpoch 1: %d%%' $n >&2; sleep 0.3; done; printf '\rEpoch 1: done' >&2`)
	var seen []string
	s.Until(ctx, "the progress bar is shown and replaced", func() bool {
		var lines []e2eflow.LogLine
		require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID+"/logs", url.Values{"partial": {"true"}}, &lines))
		for _, line := range lines {
			require.Zero(t, line.Seq, "the line is not finished")
			require.Regexp(t, `^Epoch 1: \d+%$`, line.Text)
			if len(seen) == 0 || seen[len(seen)-1] != line.Text {
				seen = append(seen, line.Text)
			}
		}
		return len(seen) >= 3
	})
	bar := s.Find("bar", func(path string) bool { return strings.HasPrefix(s.WorkOf(path), filepath.Join(s.AgentDir(), "works")) })
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(bar), "enough"), nil, 0o666))
	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "succeeded", e.State, e.Message)
	require.Equal(t, "Epoch 1: done\n", e.log)
}
