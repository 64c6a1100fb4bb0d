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
	b.limitOf(quota.User, owner, gpus)
}

func (b *harness) limitOf(kind quota.Kind, holder string, gpus int) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.scheduler().Ledger.Set(ctx, tx, kind, holder, &gpus, "usr_admin")
		return err
	}))
}

func TestScheduler_RunOnce_enginesCountAgainstQuota(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 4, 4)
	const owner = "usr_1" // the owner of the jobs that the method submit inserts
	b.limit(owner, 0)
	b.engine("wrk_1", owner)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE node_id = '' AND waiting = 'account_quota'`), "a quota of 0 must allow no GPU")

	b.limit(owner, 1)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_1' AND node_id <> '' AND waiting = ''`))
	b.engine("wrk_2", owner)
	b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_2' AND node_id = '' AND waiting = 'account_quota'`))
	require.Equal(t, 1, b.count(`job WHERE state = 'queued' AND queue_reason = 'account_quota'`), "jobs and engines must share the quota")
	held, err := b.scheduler().Ledger.Account(t.Context(), b.pool, owner)
	require.NoError(t, err)
	require.Equal(t, 1, held.Held)
	require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		ok, err := b.scheduler().Ledger.Reserve(ctx, tx, quota.Holder{UserID: owner}, 1)
		require.False(t, ok, "a reservation must count the engine's GPUs")
		if err != nil {
			return err
		}
		ok, err = b.scheduler().Ledger.ReserveEngine(ctx, tx, quota.Holder{UserID: owner}, 1)
		require.False(t, ok)
		return err
	}))

	b.exec(`UPDATE work SET released_at = now(), phase = 'gone', desired = 'gone' WHERE id = 'wrk_1'`)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_2' AND node_id <> ''`), "a released engine must hold no GPU")
}

func TestScheduler_RunOnce_enginesCountAgainstTeam(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 4, 4)
	const team = "team_1"
	for _, owner := range []string{"usr_1", "usr_2", "usr_3"} {
		b.limit(owner, 4)
	}
	b.limitOf(quota.Team, team, 1)
	b.engine("wrk_1", "usr_2")
	b.engine("wrk_2", "usr_3")
	b.exec(`UPDATE work SET team_id = $1`, team)
	b.engine("wrk_3", "usr_3") // of a project without a team
	b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	b.exec(`UPDATE job SET team_id = $1`, team)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_1' AND node_id <> '' AND waiting = ''`))
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_2' AND node_id = '' AND waiting = 'team_quota'`), "another user's engine must count for the same team")
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_3' AND node_id <> ''`))
	require.Equal(t, 1, b.count(`job WHERE state = 'queued' AND queue_reason = 'team_quota'`), "jobs and engines must share the quota")
	held, err := b.scheduler().Ledger.Team(t.Context(), b.pool, team)
	require.NoError(t, err)
	require.Equal(t, quota.Account{Limit: 1, Held: 1, Queued: 1}, held)

	b.limitOf(quota.Team, team, 2)
	decisions, _, err := b.scheduler().decide(t.Context())
	require.NoError(t, err)
	b.limitOf(quota.Team, team, 1)
	for _, d := range decisions {
		if len(d.Places) > 0 {
			require.NoError(t, b.scheduler().place(t.Context(), d))
		}
	}
	require.Equal(t, 2, b.count(`work WHERE kind = 'engine' AND node_id <> ''`), "placing must respect a limit that was lowered after the decision")
	b.exec(`UPDATE work SET released_at = now(), phase = 'gone', desired = 'gone' WHERE id = 'wrk_1'`)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_2' AND node_id <> ''`), "a released engine must hold no GPU")
}
