package scheduler

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// engine inserts an engine that requests one GPU.
func (b *harness) engine(id, owner string) {
	b.t.Helper()
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, waiting,
			phase, created_at, updated_at)
		VALUES ($1, 'engine', 1, 4, 'running', now(), '', 'gpu', 1, 0, $2, 'p', 'starting', '', now(), now())`, id, owner)
}

func (b *harness) limit(owner string, gpus int) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.scheduler().Ledger.Set(ctx, tx, quota.User, owner, &gpus, "usr_admin")
		return err
	}))
}

func TestScheduler_RunOnce_enginesCountAgainstQuota(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 4, 4)
	const owner = "usr_1" // of the jobs that submit inserts
	b.limit(owner, 0)
	b.engine("wrk_1", owner)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE node_id = '' AND waiting = 'account_quota'`), "a quota of 0 allows no GPU")

	b.limit(owner, 1)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_1' AND node_id <> '' AND waiting = ''`))
	b.engine("wrk_2", owner)
	b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_2' AND node_id = '' AND waiting = 'account_quota'`))
	require.Equal(t, 1, b.count(`job WHERE state = 'queued' AND queue_reason = 'account_quota'`), "jobs and engines share the quota")
	held, err := b.scheduler().Ledger.Account(t.Context(), b.pool, owner)
	require.NoError(t, err)
	require.Equal(t, 1, held.Held)
	require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		ok, err := b.scheduler().Ledger.Reserve(ctx, tx, quota.Holder{UserID: owner}, 1)
		require.False(t, ok, "a reservation counts the engine")
		if err != nil {
			return err
		}
		ok, err = b.scheduler().Ledger.ReserveEngine(ctx, tx, owner, 1)
		require.False(t, ok)
		return err
	}))

	b.exec(`UPDATE work SET released_at = now(), phase = 'gone', desired = 'gone' WHERE id = 'wrk_1'`)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_2' AND node_id <> ''`), "a released engine holds nothing")
}
