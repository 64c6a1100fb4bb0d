package console

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// hostile prints a line with markup and a character that reverses the direction of the text, and then counts until it
// is stopped. Its standard error is discarded, because the shell would report the interrupted sleep there.
const hostile = `exec 2>/dev/null; stop=; trap 'stop=1' TERM; n=0
printf '\033[31mred\033[0m <img src=x onerror=alert(1)><script>alert(2)</script> \342\200\256reversed\n'
until [ "$stop" ]; do n=$((n+1)); echo "$0 counts $n"; sleep 0.1; done
echo "$0 ends at $n"`

// consoleRow is a line of a log on the screen.
type consoleRow struct {
	Seq  int
	Text string
}

// requireLiveJob follows and stops a job in the browser.
func requireLiveJob(ctx context.Context, t *testing.T, s *testenv.Installation, task consoleTask, l *e2eflow.Loop) {
	t.Helper()
	counter := *l
	counter.Name = l.Name + "-counter"
	spec := testenv.Command(ctx, s, &counter, "sh", "-c", hostile, counter.Name)
	require.NoError(t, counter.Submit(ctx, spec))
	require.NoError(t, counter.AwaitState(ctx, "running"), s.Tail())
	task.IDs["counter"] = counter.Name
	var saw struct {
		Hostile, State, Dialog string
		Images, Wide           int
		Policy                 []string
		Following, AtEnd       []consoleRow
	}
	drive(ctx, t, task, "live.mjs", &saw)
	require.Contains(t, saw.Hostile, "<img src=x onerror=alert(1)><script>alert(2)</script>", "markup must be shown as text")
	require.NotContains(t, saw.Hostile, "\u202e", "a character that changes the direction must not reach the screen")
	require.Zero(t, saw.Images)
	require.Empty(t, saw.Dialog, "no script of the log may run")
	require.Empty(t, saw.Policy)
	require.Equal(t, "Stopped", saw.State)
	require.Zero(t, saw.Wide)
	requireConsecutive(t, saw.Following, "while the browser follows the log")
	requireConsecutive(t, saw.AtEnd, "at the end")
}

var counted = regexp.MustCompile(` counts (\d+)`)

// requireConsecutive requires that no line is missing and none is shown twice.
func requireConsecutive(t *testing.T, rows []consoleRow, when string) {
	t.Helper()
	require.Greater(t, len(rows), 10, when)
	for i, row := range rows {
		require.Equal(t, rows[0].Seq+i, row.Seq, when)
		if m := counted.FindStringSubmatch(row.Text); m != nil {
			require.Equal(t, fmt.Sprint(row.Seq-1), m[1], "line %d %s", row.Seq, when)
		}
	}
}
