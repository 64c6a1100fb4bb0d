package transfer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// reportedOwner returns the owner of a run as the jobs service reports it, with the given version of its project's
// visibility.
func reportedOwner(runID, project, visibility string, version int64) *run.Owner {
	return &run.Owner{
		RunID: runID, JobID: "job_of_" + runID, OwnerID: "usr_1", ProjectID: project, Project: project,
		Visibility: visibility, VisibilityVersion: version,
	}
}

func (b *harness) learn(runID, project, visibility string, version int64) {
	b.t.Helper()
	require.NoError(b.t, b.rows.Upsert(b.t.Context(), reportedOwner(runID, project, visibility, version)))
}

func (b *harness) show(project, to string, version int64) error {
	_, err := b.server.SetProjectVisibility(b.t.Context(),
		&commonpeerv1.SetProjectVisibilityRequest{ProjectId: project, Visibility: to, Version: version})
	return err
}

func (b *harness) visibility(runID string) string {
	b.t.Helper()
	o, err := b.rows.Find(b.t.Context(), runID)
	require.NoError(b.t, err)
	return o.Visibility
}

func TestServer_SetProjectVisibility_appliesToRuns(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.learn("run_1", "prj_1", "all", 0)
	b.learn("run_2", "prj_2", "all", 0)
	require.NoError(t, b.show("prj_1", "team", 1))
	require.Equal(t, []string{"team", "all"}, []string{b.visibility("run_1"), b.visibility("run_2")})
	require.NoError(t, b.show("prj_1", "all", 2))
	require.NoError(t, b.show("prj_1", "team", 1))
	require.Equal(t, "all", b.visibility("run_1"), "the newest version wins, in any order")
}

func TestServer_SetProjectVisibility_ignoresLateReports(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.learn("run_1", "prj_1", "all", 0)
	require.NoError(t, b.show("prj_1", "team", 1))
	b.learn("run_1", "prj_1", "all", 0)
	b.learn("run_2", "prj_1", "all", 0)
	require.Equal(t, []string{"team", "team"}, []string{b.visibility("run_1"), b.visibility("run_2")})
	b.learn("run_1", "prj_1", "all", 2)
	require.Equal(t, "all", b.visibility("run_1"), "the jobs service reported the new visibility before ingest received the change")
	require.NoError(t, b.show("prj_1", "team", 1))
	b.learn("run_1", "prj_1", "team", 1)
	require.Equal(t, "all", b.visibility("run_1"))
	b.learn("run_1", "prj_2", "team", 0)
	require.Equal(t, "team", b.visibility("run_1"), "versions of different projects are not compared")
}

// The jobs service reports the run with the old visibility. Ingest inserts the run while the visibility changes.
func TestServer_SetProjectVisibility_concurrentInsert(t *testing.T) {
	t.Parallel()
	b := open(t)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	require.NoError(t, (&run.Store{Pool: tx, Clock: b.rows.Clock}).Upsert(t.Context(), reportedOwner("run_1", "prj_1", "all", 0)))
	done := make(chan error, 1)
	go func() { done <- b.show("prj_1", "team", 1) }()
	require.Eventually(t, func() bool {
		var n int
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n > 0
	}, time.Minute, time.Millisecond, "the change waits for the insert")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, "team", b.visibility("run_1"))
}
