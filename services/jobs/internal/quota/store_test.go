package quota_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
}

func reserve(ctx context.Context, pool *pgxpool.Pool, l quota.Ledger, user string, gpus int) (ok bool, err error) {
	return hold(ctx, pool, l, quota.Holder{UserID: user}, gpus)
}

var errFull = errors.New("full")

// hold reserves GPUs and rolls back if the reservation fails.
func hold(ctx context.Context, pool *pgxpool.Pool, l quota.Ledger, h quota.Holder, gpus int) (bool, error) {
	err := pg.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		ok, err := l.Reserve(ctx, tx, h, gpus)
		if err == nil && !ok {
			return errFull
		}
		return err
	})
	if errors.Is(err, errFull) {
		return false, nil
	}
	return err == nil, err
}

func release(ctx context.Context, pool *pgxpool.Pool, l quota.Ledger, h quota.Holder, gpus int) error {
	return pg.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error { return l.Release(ctx, tx, h, gpus) })
}

func TestReserveConcurrentlyWithinLimit(t *testing.T) {
	t.Parallel()
	pool, ledger := newPool(t), quota.Ledger{Default: 8}
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			ok, err := reserve(t.Context(), pool, ledger, "usr_1", 3)
			if err != nil {
				t.Error(err)
			}
			if ok {
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 2, granted.Load(), "a limit of 8 must allow two reservations of 3")
	a, err := ledger.Account(t.Context(), pool, "usr_1")
	require.NoError(t, err)
	require.Equal(t, quota.Account{Limit: 8, Held: 6}, a)
	require.Equal(t, 2, a.Available())
	require.True(t, a.Admits(8))
	require.False(t, a.Admits(9))
}

func TestAccountTableConstraints(t *testing.T) {
	t.Parallel()
	pool, ledger := newPool(t), quota.Ledger{Default: 2}
	ok, err := reserve(t.Context(), pool, ledger, "usr_1", 2)
	require.NoError(t, err)
	require.True(t, ok)
	_, err = pool.Exec(t.Context(), `UPDATE account SET held = held + 1`)
	require.ErrorContains(t, err, "account_limit")
	_, err = pool.Exec(t.Context(), `UPDATE account SET held = held - 3`)
	require.Error(t, err, "the table must refuse negative holdings")
}

func TestLoweredLimitKeepsHeldGPUs(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	ok, err := reserve(t.Context(), pool, quota.Ledger{Default: 8}, "usr_1", 6)
	require.NoError(t, err)
	require.True(t, ok)
	lower := quota.Ledger{Default: 4}
	ok, err = reserve(t.Context(), pool, lower, "usr_1", 1)
	require.NoError(t, err)
	require.False(t, ok)
	a, err := lower.Account(t.Context(), pool, "usr_1")
	require.NoError(t, err)
	require.Equal(t, quota.Account{Limit: 4, Held: 6}, a)
	require.Zero(t, a.Available())
	require.NoError(t, release(t.Context(), pool, lower, quota.Holder{UserID: "usr_1"}, 6))
	ok, err = reserve(t.Context(), pool, lower, "usr_1", 4)
	require.NoError(t, err)
	require.True(t, ok)
}

func TestOwnLimitOverridesDefault(t *testing.T) {
	t.Parallel()
	pool, ledger := newPool(t), quota.Ledger{Default: 8}
	_, err := pool.Exec(t.Context(), `INSERT INTO account (user_id, gpu_limit, set_limit) VALUES ('usr_1', 1, 1)`)
	require.NoError(t, err)
	ok, err := reserve(t.Context(), pool, ledger, "usr_1", 2)
	require.NoError(t, err)
	require.False(t, ok)
	accounts, err := ledger.Accounts(t.Context(), pool, quota.User, []string{"usr_1", "usr_2"})
	require.NoError(t, err)
	require.Equal(t, map[string]quota.Account{"usr_1": {Limit: 1}, "usr_2": {Limit: 8}}, accounts)
}

func TestReserveRolledBack(t *testing.T) {
	t.Parallel()
	pool, ledger := newPool(t), quota.Ledger{Default: 8}
	boom := errors.New("boom")
	err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		ok, err := ledger.Reserve(ctx, tx, quota.Holder{UserID: "usr_1"}, 8)
		if err != nil || !ok {
			return errors.Join(errors.New("not reserved"), err)
		}
		return boom
	})
	require.ErrorIs(t, err, boom)
	a, err := ledger.Account(t.Context(), pool, "usr_1")
	require.NoError(t, err)
	require.Zero(t, a.Held)
	ok, err := reserve(t.Context(), pool, ledger, "usr_2", 0)
	require.NoError(t, err)
	require.True(t, ok, "work without a GPU must not need an account")
	var rows int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM account`).Scan(&rows))
	require.Zero(t, rows)
}

// Postgres takes several times as long to plan the statement as to run it.
func TestLedger_Account_isPlannedOnce(t *testing.T) {
	t.Parallel()
	conn, err := newPool(t).Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	const calls, tries = 20, 5 // Postgres plans a prepared statement five times before it keeps a plan
	for range calls {
		_, err := quota.Ledger{}.Account(t.Context(), conn, "usr_1")
		require.NoError(t, err)
	}
	var planned, kept int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement LIKE '%wanted%'`).
		Scan(&planned, &kept))
	require.Equal(t, []int{tries, calls - tries}, []int{planned, kept})
}
