package quota_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func set(ctx context.Context, pool *pgxpool.Pool, l quota.Ledger, k quota.Kind, id string, limit ...int) (before *int, err error) {
	var to *int
	if len(limit) > 0 {
		to = &limit[0]
	}
	err = pg.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		before, err = l.Set(ctx, tx, k, id, to, "usr_root")
		return err
	})
	return before, err
}

func TestReserveCountsOwnerAndTeam(t *testing.T) {
	t.Parallel()
	pool, l := newPool(t), quota.Ledger{Default: 3, TeamDefault: 4}
	ann, bob := quota.Holder{UserID: "usr_1", TeamID: "team_1"}, quota.Holder{UserID: "usr_2", TeamID: "team_1"}
	for _, step := range []struct {
		holder quota.Holder
		gpus   int
		ok     bool
	}{{ann, 3, true}, {ann, 1, false}, {bob, 2, false}, {bob, 1, true}, {bob, 1, false}, {quota.Holder{UserID: "usr_2"}, 2, true}} {
		ok, err := hold(t.Context(), pool, l, step.holder, step.gpus)
		require.NoError(t, err)
		require.Equal(t, step.ok, ok, "%+v", step)
	}
	held := func() []int {
		team, err := l.Team(t.Context(), pool, "team_1")
		require.NoError(t, err)
		return []int{holds(t, pool, l, "usr_1"), holds(t, pool, l, "usr_2"), team.Held, team.Limit}
	}
	require.Equal(t, []int{3, 3, 4, 4}, held(), "the account must not hold GPUs that the team's limit refused")
	require.NoError(t, release(t.Context(), pool, l, bob, 1))
	require.Equal(t, []int{3, 2, 3, 4}, held())
	require.NoError(t, release(t.Context(), pool, l, ann, 3))
	require.Equal(t, []int{0, 2, 0, 4}, held())
}

func TestLedger_Set(t *testing.T) {
	t.Parallel()
	pool, l := newPool(t), quota.Ledger{Default: 8, TeamDefault: 9}
	before, err := set(t.Context(), pool, l, quota.User, "usr_1", 6)
	require.NoError(t, err)
	require.Nil(t, before)
	ok, err := reserve(t.Context(), pool, l, "usr_1", 6)
	require.NoError(t, err)
	require.True(t, ok)
	before, err = set(t.Context(), pool, l, quota.User, "usr_1", 2)
	require.NoError(t, err)
	require.Equal(t, 6, *before)
	a, err := l.Account(t.Context(), pool, "usr_1")
	require.NoError(t, err)
	require.Equal(t, quota.Account{Limit: 2, Held: 6}, a, "a limit below the holdings must end nothing")
	require.Zero(t, a.Available())
	require.NoError(t, release(t.Context(), pool, l, quota.Holder{UserID: "usr_1"}, 4))
	ok, err = reserve(t.Context(), pool, l, "usr_1", 1)
	require.NoError(t, err)
	require.False(t, ok, "a limit below the holdings must admit nothing new")
	before, err = set(t.Context(), pool, l, quota.User, "usr_1")
	require.NoError(t, err)
	require.Equal(t, 2, *before)
	ok, err = reserve(t.Context(), pool, l, "usr_1", 6)
	require.NoError(t, err)
	require.True(t, ok, "the default limit must apply again")

	_, err = set(t.Context(), pool, l, quota.Team, "team_1", 0)
	require.NoError(t, err)
	teams, err := l.Accounts(t.Context(), pool, quota.Team, []string{"team_1", "team_2"})
	require.NoError(t, err)
	require.Equal(t, map[string]quota.Account{"team_1": {}, "team_2": {Limit: 9}}, teams)
	var by string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT set_by FROM account WHERE user_id = 'team_1' AND kind = 'team' AND set_at IS NOT NULL`).Scan(&by))
	require.Equal(t, "usr_root", by)
}

// The previous release reads the limit from two columns and must get the same value.
func TestSetLimitReadableByPreviousRelease(t *testing.T) {
	t.Parallel()
	pool, l := newPool(t), quota.Ledger{Default: 8}
	previousRelease := func() (limit int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT CASE WHEN own_limit THEN gpu_limit ELSE 8 END FROM account`).Scan(&limit))
		return limit
	}
	_, err := set(t.Context(), pool, l, quota.User, "usr_1", 5)
	require.NoError(t, err)
	require.Equal(t, 5, previousRelease())
	_, err = set(t.Context(), pool, l, quota.User, "usr_1")
	require.NoError(t, err)
	require.Equal(t, 8, previousRelease())
}

// TestReserveWithinLimitWhileLimitsChange makes 200 concurrent reservations on two accounts of one team, with
// releases and limit changes in between. A trigger fails on every increase above the limit in force.
func TestReserveWithinLimitWhileLimitsChange(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations})
	pool, l := d.Pool("jobs"), quota.Ledger{Default: 8, TeamDefault: 10}
	_, err := d.OwnerPool("jobs").Exec(t.Context(), `CREATE FUNCTION grown() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'overstep: % holds % of %', NEW.user_id, NEW.held, NEW.set_limit; END $$;
		CREATE TRIGGER grown BEFORE UPDATE ON account FOR EACH ROW
			WHEN (NEW.held > OLD.held AND NEW.held > coalesce(NEW.set_limit, CASE NEW.kind WHEN 'team' THEN 10 ELSE 8 END)) EXECUTE FUNCTION grown()`)
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for i := range 200 {
		h := quota.Holder{UserID: []string{"usr_1", "usr_2"}[i%2], TeamID: "team_1"}
		wg.Go(func() {
			ok, err := hold(t.Context(), pool, l, h, 1)
			if err == nil && ok {
				mu.Lock()
				granted++
				mu.Unlock()
				err = release(t.Context(), pool, l, h, 1)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if i%8 == 0 {
			wg.Go(func() {
				if _, err := set(t.Context(), pool, l, quota.User, h.UserID, 1+rand.IntN(8)); err != nil {
					t.Error(err)
				}
				if _, err := set(t.Context(), pool, l, quota.Team, "team_1", 1+rand.IntN(10)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	require.Positive(t, granted)
	var held int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT sum(held) FROM account`).Scan(&held))
	require.Zero(t, held)
}
