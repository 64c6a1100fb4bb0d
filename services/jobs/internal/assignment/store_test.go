package assignment_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestStore_Save_roundTripWithSealedKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	raw := make([]byte, 32)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	keys, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: raw})
	require.NoError(t, err)
	store, now := &assignment.Store{Keys: keys}, time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	w := assignment.NewEngine(assignment.Order{
		ID: "wrk_1", Generation: 2, Desired: assignment.WantRunning, Pool: "gpu", Driver: "vllm", GPUs: 1, Slots: 2, Spec: []byte{7},
		OwnerID: "usr_1", ProjectID: "prj_1",
	}, now)
	w.CPUs, w.Memory = 3, 5<<30
	tx := func(fn func(ctx context.Context, tx pgx.Tx) error) error { return pg.InTx(t.Context(), pool, fn) }
	require.NoError(t, tx(func(ctx context.Context, tx pgx.Tx) error { return store.Insert(ctx, tx, w) }))
	before := w.Key
	w.Fence, w.NodeID, w.Waiting, w.Phase = 5, "nod_1", "", gang.PhaseExited
	w.RunningAt, w.ExitedAt, w.Exit = &now, &now, &gang.Exit{Code: 3, Signal: 2, Reason: gang.ExitStart, Message: "m"}
	w.Engine, w.EngineKey = []byte{9}, secret.New("hush-hush")
	save := func() error {
		return tx(func(ctx context.Context, tx pgx.Tx) error { return store.Save(ctx, tx, w, before, "", now) })
	}
	require.NoError(t, save())
	require.True(t, fault.HasCode(save(), "work_moved"), "saving must fail if the fence has changed since the work was loaded")

	got, err := store.Get(t.Context(), pool, "wrk_1")
	require.NoError(t, err)
	w.CreatedAt, w.UpdatedAt = now, now
	require.Empty(t, cmp.Diff(w, got))
	var open int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM work WHERE position('hush-hush'::bytea in engine_key) > 0`).Scan(&open))
	require.Zero(t, open)
	_, err = pool.Exec(t.Context(), `UPDATE work SET id = 'wrk_2'`)
	require.NoError(t, err)
	_, err = store.Get(t.Context(), pool, "wrk_2")
	require.ErrorContains(t, err, "decrypt the API key", "an encrypted key must be readable only in its own row")
	_, err = store.Get(t.Context(), pool, "wrk_1")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}
