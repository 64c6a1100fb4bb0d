package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lifecycle"
)

// waiting inserts n queued jobs that have waited longer than their queue limit.
func (b *reconcileHarness) waiting(n int) {
	b.t.Helper()
	b.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec,
			spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, queued_at, seq, state)
		SELECT 'job_' || lpad(n::text, 4, '0'), 'run_' || n, 'n', 'u', '', 'p', '', 'all', '{}', 50, '{}', '', '', '[]', 0, 0, 1000, 100, 50,
			now(), now() - interval '1 hour', 1, 'queued' FROM generate_series(1, $1) n`, n)
}

// crashingCloser simulates a crash while a job ends. It lets a number of other jobs end first.
type crashingCloser struct {
	left *int
}

var errDied = errors.New("the process died")

func (d crashingCloser) CloseRun(context.Context, pgx.Tx, string) error {
	if *d.left--; *d.left < 0 {
		return errDied
	}
	return nil
}

// passErr runs one pass as a replica that has been the leader for an hour.
func (b *reconcileHarness) passErr(ctx context.Context) error {
	return b.r.RunOnce(ctx, clock.Real().Now().Add(-time.Hour))
}

func TestReconciler_RunOnce_completesAfterCrash(t *testing.T) {
	t.Parallel()
	for died := range 4 {
		t.Run(fmt.Sprint(died), func(t *testing.T) {
			t.Parallel()
			b := newReconcileHarness(t)
			b.waiting(4)
			left := died
			healthy := b.r.Driver
			jobs := &job.Store{Events: healthy.Jobs.Events, Closer: crashingCloser{&left}}
			b.r.Driver = &lifecycle.Driver{Pool: b.pool, Jobs: jobs, Works: healthy.Works}
			require.ErrorIs(t, b.passErr(t.Context()), errDied)
			require.Equal(t, died, b.count(`job WHERE state = 'failed'`), "each job must be its own transaction")
			require.Equal(t, died, b.count(`event WHERE type = 'job.failed'`))
			b.r.Driver = healthy
			for range 2 {
				require.NoError(t, b.passErr(t.Context()))
			}
			require.Equal(t, 4, b.count(`job WHERE state = 'failed' AND end_reason = 'queue_timeout'`))
			require.Equal(t, 4, b.count(`event WHERE type = 'job.failed'`), "each end must have one event")
		})
	}
}

// A job that cannot be ended does not stop the pass from handling other jobs and nodes.
func TestReconciler_RunOnce_continuesAfterFailure(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	b.waiting(5)
	b.exec(`UPDATE node SET last_seen_at = now() - interval '1 hour'`)
	left := 2
	jobs := &job.Store{Events: b.r.Driver.Jobs.Events, Closer: onlyOnce{&left}}
	b.r.Driver = &lifecycle.Driver{Pool: b.pool, Jobs: jobs, Works: b.r.Driver.Works}
	err := b.passErr(t.Context())
	require.ErrorIs(t, err, errDied)
	require.ErrorContains(t, err, "enforce the limits of job job_0003")
	require.Equal(t, 4, b.count(`job WHERE state = 'failed'`))
	require.Equal(t, 1, b.count(`node WHERE state = 'lost'`))
}

// onlyOnce fails one call of CloseRun: the one after the first *turn calls.
type onlyOnce struct{ turn *int }

func (o onlyOnce) CloseRun(context.Context, pgx.Tx, string) error {
	*o.turn--
	if *o.turn == -1 {
		return errDied
	}
	return nil
}

// A leader that lost its connection may run at the same time as the next leader.
func TestReconciler_RunOnce_concurrentLeadersActOnce(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	b.waiting(6)
	b.exec(`UPDATE node SET last_seen_at = now() - interval '1 hour'`)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := b.passErr(t.Context()); err != nil && !fault.Is(err, fault.Conflict) && !pg.IsRetryable(err) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, b.passErr(t.Context()))
	require.Equal(t, 6, b.count(`event WHERE type = 'job.failed'`))
	require.Equal(t, 1, b.count(`event WHERE type = 'node.lost'`))
	require.Equal(t, 1, b.count(`work WHERE node_id = 'nod_1'`), "the work must stay on a node that is lost but not fenced yet")
	require.NoError(t, b.passErr(pg.WithOffset(t.Context(), 2*time.Minute)))
	require.Equal(t, 1, b.count(`work WHERE node_id = '' AND waiting = 'starting'`))
}

// A pass handles at most batch jobs; the next pass continues.
func TestReconciler_RunOnce_bounded(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	b.waiting(520)
	require.NoError(t, b.passErr(t.Context()))
	require.Equal(t, 500, b.count(`job WHERE state = 'failed'`))
	require.NoError(t, b.passErr(t.Context()))
	require.Equal(t, 520, b.count(`job WHERE state = 'failed'`))
}
