package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestJobEndsWhileIngestIsAway kills ingest before the command of a job ends, and jobs afterwards. The job must wait for
// its last line. A stop that is requested meanwhile comes too late, because the command has ended by itself.
func TestJobEndsWhileIngestIsAway(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	s := testenv.Split(t, testenv.Options{})
	l := s.Loop(ctx)
	submitCommand(ctx, t, l, "sh", "-c", `cd "$SERVICE_JOB_WORKDIR"; echo one; touch begun
while [ ! -e enough ]; do sleep 0.05; done; printf last`)
	begun := ""
	s.Until(ctx, "the command runs", func() bool {
		begun = s.Find("begun", func(string) bool { return true })
		return begun != ""
	})
	s.Processes["ingest"].Kill()
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(begun), "enough"), nil, 0o666))
	var attempts []struct{ Phase string }
	s.Until(ctx, "the command has ended", func() bool {
		require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID+"/attempts", nil, &attempts))
		return len(attempts) == 1 && attempts[0].Phase == "collecting"
	})
	require.NoError(t, l.Client.Post(ctx, "/api/jobs/"+l.Job.ID+"/stop", nil, nil))
	s.Processes["jobs"].Kill()
	s.Processes["jobs"].Start()
	s.Processes["ingest"].Start()
	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "succeeded", e.State, e.Message)
	require.True(t, *e.Collected)
	require.Len(t, e.attempts, 1)
	require.Equal(t, 0, *e.attempts[0].ExitCode)
	require.Equal(t, "one\nlast\n", e.log)
}
