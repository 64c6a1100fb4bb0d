package quota_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

func move(ctx context.Context, pool *pgxpool.Pool, l quota.Ledger, from, to string, gpus int) error {
	return pg.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error { return l.Move(ctx, tx, from, to, gpus) })
}

func holds(t *testing.T, pool *pgxpool.Pool, l quota.Ledger, user string) int {
	t.Helper()
	a, err := l.Account(t.Context(), pool, user)
	require.NoError(t, err)
	return a.Held
}

func TestLedger_Move(t *testing.T) {
	t.Parallel()
	pool, ledger := newPool(t), quota.Ledger{Default: 8}
	for _, user := range []string{"usr_1", "usr_2"} {
		ok, err := reserve(t.Context(), pool, ledger, user, 6)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.NoError(t, move(t.Context(), pool, ledger, "usr_1", "usr_2", 6))
	require.Equal(t, []int{0, 12}, []int{holds(t, pool, ledger, "usr_1"), holds(t, pool, ledger, "usr_2")}, "all GPUs must move, because no attempt is ended")
	ok, err := reserve(t.Context(), pool, ledger, "usr_2", 1)
	require.NoError(t, err)
	require.False(t, ok, "no reservation above the limit must succeed")
	require.NoError(t, move(t.Context(), pool, ledger, "usr_2", "usr_3", 12), "the target account must not need a row")
	require.Equal(t, 12, holds(t, pool, ledger, "usr_3"))
	require.NoError(t, move(t.Context(), pool, ledger, "usr_4", "usr_5", 0))
}

func TestLedger_Move_ownLimit(t *testing.T) {
	t.Parallel()
	pool, ledger := newPool(t), quota.Ledger{Default: 8}
	_, err := reserve(t.Context(), pool, ledger, "usr_1", 6)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO account (user_id, gpu_limit, set_limit, held) VALUES ('usr_2', 4, 4, 1)`)
	require.NoError(t, err)
	err = move(t.Context(), pool, ledger, "usr_1", "usr_2", 6)
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "quota"), "%v", err)
	require.Equal(t, []int{6, 1}, []int{holds(t, pool, ledger, "usr_1"), holds(t, pool, ledger, "usr_2")}, "nothing must be moved")
	require.NoError(t, move(t.Context(), pool, ledger, "usr_1", "usr_2", 3), "a move up to the limit must be allowed")
}

func TestLedger_Move_bothDirectionsConcurrently(t *testing.T) {
	t.Parallel()
	pool, ledger := newPool(t), quota.Ledger{Default: 100}
	for _, user := range []string{"usr_1", "usr_2"} {
		_, err := reserve(t.Context(), pool, ledger, user, 40)
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		from, to := "usr_1", "usr_2"
		if i%2 == 1 {
			from, to = to, from
		}
		wg.Go(func() {
			if err := move(t.Context(), pool, ledger, from, to, 1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, []int{40, 40}, []int{holds(t, pool, ledger, "usr_1"), holds(t, pool, ledger, "usr_2")})
}
