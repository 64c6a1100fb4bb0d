package db_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestAuditTrail_Record_sameTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	log := &db.AuditTrail{Log: audit.NewLog(clock.Real(), id.NewSource(clock.Real(), rand.Reader), "jobs")}
	ctx := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Username: "alice"})
	record := func(ctx context.Context, target string, then error) error {
		return pg.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
			after := map[string]any{"name": "n", "token": secret.New("hush")}
			return errors.Join(log.Record(ctx, tx, "job.stop", "job", target, after), then)
		})
	}
	rollback := errors.New("rollback")
	require.ErrorIs(t, record(ctx, "job_undone", rollback), rollback)
	require.NoError(t, record(ctx, "job_1", nil))
	require.NoError(t, record(t.Context(), "job_2", nil))

	rows, err := audit.List(t.Context(), pool, audit.Filter{Action: "job.stop"}, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 2, "a rolled-back change must leave no row")
	byTarget := map[string]audit.Row{}
	for _, r := range rows {
		require.Equal(t, "job", r.TargetKind)
		require.Nil(t, r.Before)
		require.NotContains(t, string(r.After), "hush")
		require.Contains(t, string(r.After), `"name":"n"`)
		byTarget[r.TargetID] = r
	}
	require.Equal(t, "usr_1", byTarget["job_1"].Actor.ID)
	require.Equal(t, "alice", byTarget["job_1"].Actor.Name)
	require.Equal(t, "jobs", byTarget["job_2"].Actor.ID, "without a caller, the service must be the actor")
}
