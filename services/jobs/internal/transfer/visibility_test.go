package transfer_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// draft returns a job of a public project, resolved at a version of the project's visibility.
func (b *harness) draft(project string, version int64) *job.Job {
	return &job.Job{
		ID: b.ids.New(id.Job), RunID: b.ids.New(id.Run), Name: "n", OwnerID: "usr_1", OwnerName: "n", ProjectID: project, Project: project,
		Visibility: "all", VisibilityVersion: version, Labels: map[string]string{}, Spec: []byte(`{}`), Template: []byte{}, GPUs: 1,
		Pools:    []job.Pool{{Pool: "gpu", Role: "trainer", Nodes: 1, GPUsPerNode: 1}},
		RunningS: 1000, StartingS: 100, QueueS: 5000, CreatedAt: clock.Real().Now(),
		Status: job.Status{State: job.Queued, Queue: job.Queue{Reason: job.WaitNew, Since: clock.Real().Now()}},
	}
}

func (b *harness) insert(tx pgx.Tx, j *job.Job) *job.Job {
	b.t.Helper()
	require.NoError(b.t, b.driver.Jobs.Insert(b.t.Context(), tx, j, job.RunFacts{RecipeLock: []byte(`{}`), Bindings: []byte(`{}`)}, job.Cause{}))
	return j
}

func (b *harness) begin() pgx.Tx {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(b.t.Context())) })
	return tx
}

func (b *harness) add(j *job.Job) *job.Job {
	b.t.Helper()
	tx := b.begin()
	b.insert(tx, j)
	require.NoError(b.t, tx.Commit(b.t.Context()))
	return j
}

func (b *harness) setVisibility(project, to string, version int64) (int64, error) {
	got, err := b.server.SetProjectVisibility(b.t.Context(),
		&commonpeerv1.SetProjectVisibilityRequest{ProjectId: project, Visibility: to, Version: version})
	return got.GetVersion(), err
}

// seen reports whether a user without a role finds the job, and whether the user finds its run.
func (b *harness) seen(j *job.Job) (found []bool) {
	b.t.Helper()
	stranger := authn.Scope{UserID: "usr_9", Projects: []string{}}
	_, err := b.driver.Jobs.Get(b.t.Context(), b.pool, stranger, j.ID)
	found = append(found, !fault.Is(err, fault.Absent))
	_, err = run.Store{}.Get(b.t.Context(), b.pool, stranger, j.RunID)
	return append(found, !fault.Is(err, fault.Absent))
}

func TestSetProjectVisibility(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 8)
	ended := b.add(b.draft("prj_1", 0))
	b.schedule()
	b.end(ended)
	queued, other := b.add(b.draft("prj_1", 0)), b.add(b.draft("prj_2", 0))
	require.Equal(t, []bool{true, true}, b.seen(queued))
	version, err := b.setVisibility("prj_1", "team", 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, version)
	late := b.add(b.draft("prj_1", 0))
	for _, j := range []*job.Job{ended, queued, late} {
		require.Equal(t, []bool{false, false}, b.seen(j))
	}
	require.Equal(t, []bool{true, true}, b.seen(other))
	version, err = b.setVisibility("prj_1", "all", 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, version)
	require.Equal(t, []bool{false, false}, b.seen(queued), "a version that was already applied must change nothing")

	b.schedule()
	require.Equal(t, job.Scheduled, b.job(queued.ID).State, "the job must continue")
	got, err := run.Store{}.Get(t.Context(), b.pool, authn.Scope{Admin: true, Projects: []string{}}, queued.RunID)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.VisibilityVersion, "peers must receive the version")
	_, err = b.setVisibility("prj_1", "all", 2)
	require.NoError(t, err)
	for _, j := range []*job.Job{ended, queued, late} {
		require.Equal(t, []bool{true, true}, b.seen(j))
	}
	require.Zero(t, b.count(`audit WHERE target_id = 'prj_1'`), "the jobs service must not audit the change, because auth does")
}

// If a project is hidden while a job is being submitted, the job is hidden too, although it was resolved before the
// change and inserted during it.
func TestJobVisibilityChangeDuringSubmission(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 8)
	tx := b.begin()
	j := b.insert(tx, b.draft("prj_1", 0))
	done := make(chan error, 1)
	go func() {
		_, err := b.setVisibility("prj_1", "team", 1)
		done <- err
	}()
	require.Eventually(t, func() bool {
		return b.count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, time.Minute, time.Millisecond, "the change must wait for the lock on the job")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, []bool{false, false}, b.seen(j))
	require.Equal(t, []bool{true, true}, b.seen(b.add(b.draft("prj_1", 2))), "a job that was resolved at a newer version must keep its visibility")
}
