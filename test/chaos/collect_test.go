package chaos

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// soon is the time within which the next job must be placed after the processes of the previous job have ended. On an
// idle machine, placing the job takes less than 2 s; on a busy machine it takes longer, because the news that the
// processes have ended passes through three other processes.
const soon = 5 * time.Second

// TestSplitInstallation_ingestAwayAtEnd stops the ingest service while a job ends on a node with one slot. The job's
// undelivered reports and log lines must not keep the next job waiting, and none of them may be lost.
func TestSplitInstallation_ingestAwayAtEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.StageTimeout)
	defer cancel()
	s := testenv.Split(t, testenv.Options{Env: map[string]string{"SERVICE_JOBS_NODE_SLOTS": "1"}})
	first := newTrainer(ctx, t, s, 50, "0.01", "leaves")
	dir := first.folder(ctx)
	next := newTrainer(ctx, t, s, 5, "0.01", "finishes")
	require.NoError(t, next.l.AwaitState(ctx, "queued"))
	s.Processes["ingest"].Kill()
	require.NoError(t, os.WriteFile(filepath.Join(s.Inside(dir, "package"), "go"), nil, 0o600))
	var exit struct {
		EndedAt time.Time `json:"ended_at"`
		Code    int       `json:"code"`
	}
	s.Until(ctx, "the processes of the first job have ended", func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, "run", "exit.json"))
		return err == nil && json.Unmarshal(raw, &exit) == nil
	})
	require.Zero(t, exit.Code)
	var job struct {
		State       string
		ScheduledAt *time.Time `json:"scheduled_at"`
	}
	s.Until(ctx, "the next job is placed", func() bool {
		return next.l.Client.Get(ctx, "/api/jobs/"+next.l.Job.ID, nil, &job) == nil && job.ScheduledAt != nil
	})
	t.Logf("the next job was placed %s after the end of the processes", job.ScheduledAt.Sub(exit.EndedAt))
	require.Less(t, job.ScheduledAt.Sub(exit.EndedAt), soon)
	require.NoError(t, first.l.Client.Get(ctx, "/api/jobs/"+first.l.Job.ID, nil, &job))
	require.Equal(t, "running", job.State, "the first job must not end before its output is delivered")
	s.Processes["ingest"].Start()
	first.requireComplete(ctx)
	next.requireComplete(ctx)
}
