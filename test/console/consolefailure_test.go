package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// requireStates shows error responses, an expired token, the end of the session and the maintenance mode on pages.
// Each status is shown on three pages; the seed selects three statuses.
func requireStates(ctx context.Context, t *testing.T, task consoleTask) {
	t.Helper()
	task.Statuses = draw.Some(draw.New(t), 3, []int{400, 403, 404, 409, 413, 422, 429, 500, 501, 502, 503}, strconv.Itoa)
	var saw struct{ Problems []string }
	drive(ctx, t, task, "states.mjs", &saw)
	require.Empty(t, saw.Problems)
}

// requireReconnect kills all processes of the server while the browser follows a log and fills in a form.
func requireReconnect(ctx context.Context, t *testing.T, s *testenv.Installation, task consoleTask, l *e2eflow.Loop) {
	t.Helper()
	counter := *l
	counter.Name = l.Name + "-survivor"
	require.NoError(t, counter.Submit(ctx, testenv.Command(ctx, s, &counter, "sh", "-c", hostile, counter.Name)))
	require.NoError(t, counter.AwaitState(ctx, "running"), s.Tail())
	asked, back := make(chan struct{}, 1), make(chan struct{})
	control := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-back
	}))
	defer control.Close()
	ids := map[string]string{"counter": counter.Name}
	task.IDs, task.Control = ids, control.URL
	c := newBrowserCommand(ctx, t, task, "reconnect.mjs")
	var out []byte
	var err error
	var browser sync.WaitGroup
	browser.Go(func() { out, err = c.Output(); asked <- struct{}{} })
	<-asked
	if err == nil {
		testenv.KillAll(t, s)
		if s.Postgres == nil {
			s.StartSingle()
		} else {
			testenv.StartAll(s)
		}
	}
	close(back)
	browser.Wait()
	var saw struct {
		Lines   []consoleRow
		Console []string
	}
	decodeReport(t, c, out, err, &saw)
	require.Empty(t, saw.Console)
	require.Greater(t, len(saw.Lines), 50)
	requireConsecutive(t, saw.Lines, "after the restart")
	require.True(t, strings.HasSuffix(saw.Lines[0].Text, " counts 1"), saw.Lines[0].Text)
}
