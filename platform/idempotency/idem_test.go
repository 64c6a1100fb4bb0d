package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

type harness struct {
	pool  *pgxpool.Pool
	clock *clock.Fake
	store *idempotency.Store
	made  atomic.Int64
}

func setup(t *testing.T) *harness {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	return &harness{pool: pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs"), clock: clk, store: idempotency.New(clk)}
}

// post handles one request like a create method. The response contains the number of creations so far.
func (b *harness) post(ctx context.Context, r idempotency.Request) (answer string, replayed bool, err error) {
	err = pg.InTx(ctx, b.pool, func(ctx context.Context, tx pgx.Tx) error {
		kept, fresh, err := b.store.Claim(ctx, tx, r)
		if err != nil {
			return err
		}
		if !fresh {
			answer, replayed = string(kept), true
			return nil
		}
		answer = fmt.Sprintf("response %d", b.made.Add(1))
		return b.store.Finish(ctx, tx, r, []byte(answer))
	})
	return answer, replayed, err
}

func request(key, body string) idempotency.Request {
	return idempotency.Request{Subject: "usr_1", Route: "/x/Create", Key: key, Body: []byte(body)}
}

func TestStore_Claim_repeatGetsFirstResponse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, replayed, err := b.post(t.Context(), request("k", "body"))
	require.NoError(t, err)
	require.False(t, replayed)
	again, replayed, err := b.post(t.Context(), request("k", "body"))
	require.NoError(t, err)
	require.True(t, replayed)
	require.Equal(t, first, again)
	require.EqualValues(t, 1, b.made.Load())
}

func TestStore_Claim_sameRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change   func(*idempotency.Request)
		replayed bool
		conflict bool
	}{
		"all equal":         {func(*idempotency.Request) {}, true, false},
		"different body":    {func(r *idempotency.Request) { r.Body = []byte("other") }, false, true},
		"different key":     {func(r *idempotency.Request) { r.Key = "k2" }, false, false},
		"different route":   {func(r *idempotency.Request) { r.Route = "/x/Other" }, false, false},
		"different subject": {func(r *idempotency.Request) { r.Subject = "usr_2" }, false, false},
		"no key":            {func(r *idempotency.Request) { r.Key = "" }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			_, _, err := b.post(t.Context(), request("k", "body"))
			require.NoError(t, err)
			r := request("k", "body")
			tc.change(&r)
			_, replayed, err := b.post(t.Context(), r)
			require.Equal(t, tc.conflict, fault.HasCode(err, idempotency.CodeKey), "%v", err)
			require.Equal(t, tc.conflict, err != nil)
			require.Equal(t, tc.replayed, replayed)
		})
	}
}

func TestStore_Claim_rollbackFreesKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	boom := errors.New("boom")
	err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, fresh, err := b.store.Claim(ctx, tx, request("k", "body"))
		require.True(t, fresh)
		return errors.Join(err, boom)
	})
	require.ErrorIs(t, err, boom)
	_, replayed, err := b.post(t.Context(), request("k", "other body"))
	require.NoError(t, err)
	require.False(t, replayed)
}

func TestStore_Claim_concurrentRequestsCreateOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var replays atomic.Int64
	group, ctx := errgroup.WithContext(t.Context())
	for range 16 {
		group.Go(func() error {
			out, replayed, err := b.post(ctx, request("k", "body"))
			if replayed {
				replays.Add(1)
			}
			if err == nil && out != "response 1" {
				err = errors.New("unexpected response")
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.EqualValues(t, 1, b.made.Load())
	require.EqualValues(t, 15, replays.Load())
}

func TestStore_Claim_keyExpiresAfterADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := b.post(t.Context(), request("k", "body"))
	require.NoError(t, err)
	b.clock.Advance(idempotency.Lifetime - time.Second)
	_, replayed, err := b.post(t.Context(), request("k", "body"))
	require.NoError(t, err)
	require.True(t, replayed)
	n, err := idempotency.DeleteBefore(t.Context(), b.pool, b.clock.Now().Add(-idempotency.Lifetime), 10)
	require.NoError(t, err)
	require.Zero(t, n)

	b.clock.Advance(time.Second)
	_, replayed, err = b.post(t.Context(), request("k", "another body"))
	require.NoError(t, err)
	require.False(t, replayed, "an expired key is free even before its response is deleted")
	b.clock.Advance(idempotency.Lifetime)
	n, err = idempotency.DeleteBefore(t.Context(), b.pool, b.clock.Now().Add(-idempotency.Lifetime), 10)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

func TestStore_Claim_invalidKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []string{strings.Repeat("k", idempotency.MaxKey+1), "a b", "a\x00b", "ключ", "a\nb"} {
		_, _, err := b.post(t.Context(), request(key, "body"))
		require.True(t, fault.Is(err, fault.Invalid), "%q: %v", key, err)
		require.Equal(t, []any{"header", "idempotency-key"}, fault.From(err).Fields[0].Loc)
	}
	_, _, err := b.post(t.Context(), request(strings.Repeat("k", idempotency.MaxKey), "body"))
	require.NoError(t, err)
}

func TestStore_Finish_withoutClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return b.store.Finish(ctx, tx, request("k", "body"), []byte("x"))
	})
	require.ErrorContains(t, err, "not claimed")
	require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, fresh, err := b.store.Claim(ctx, tx, request("k", "body"))
		require.True(t, fresh)
		return err
	}))
	_, _, err = b.post(t.Context(), request("k", "body"))
	require.ErrorContains(t, err, "committed without a response", "a missing Finish is detected")
}

func TestDeleteBefore_oldestResponsesInBoundedSteps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO idempotency (subject, route, key, body_hash, answer, expires_at)
		SELECT 's', 'r', 'k' || n, '', '', $1::timestamptz + n * interval '1 second' FROM generate_series(1, 2500) n`,
		b.clock.Now().Add(idempotency.Lifetime))
	require.NoError(t, err)
	for _, want := range []int64{1000, 1000, 400, 0} {
		n, err := idempotency.DeleteBefore(t.Context(), b.pool, b.clock.Now().Add(2400*time.Second), 1000)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	var left int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM idempotency`).Scan(&left))
	require.Equal(t, 100, left)
}
