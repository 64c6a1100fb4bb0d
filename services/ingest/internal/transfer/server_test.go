package transfer_test

import (
	"crypto/rand"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/transfer"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

type harness struct {
	t      *testing.T
	pool   *pgxpool.Pool
	rows   *run.Store
	server *transfer.Server
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	clk := clock.Real()
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	return &harness{
		t: t, pool: pool, rows: &run.Store{Pool: pool, Clock: clk},
		server: &transfer.Server{Pool: pool, Audit: audit.NewLog(clk, id.NewSource(clk, rand.Reader), "ingest")},
	}
}

// storeOwner stores the owner of a run as if the jobs service had reported it.
func (b *harness) storeOwner(runID, userID string) {
	b.t.Helper()
	require.NoError(b.t, b.rows.Upsert(b.t.Context(), &run.Owner{
		RunID: runID, JobID: "job_of_" + runID, OwnerID: userID, ProjectID: "prj_1", Project: "team", Visibility: "team",
	}))
}

func (b *harness) ownerOf(runID string) string {
	b.t.Helper()
	o, err := b.rows.Find(b.t.Context(), runID)
	require.NoError(b.t, err)
	return o.OwnerID
}

func (b *harness) owned(userID string) int32 {
	b.t.Helper()
	c, err := b.server.CountOwned(b.t.Context(), &commonpeerv1.CountOwnedRequest{UserId: userID})
	require.NoError(b.t, err)
	require.Equal(b.t, "run_data", c.GetCounts()[0].GetKind())
	return c.GetCounts()[0].GetCount()
}

func (b *harness) transfer(from, to string) int32 {
	b.t.Helper()
	ctx := authn.NewContext(b.t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_admin", Role: authn.RoleAdmin})
	c, err := b.server.TransferOwned(ctx, &commonpeerv1.TransferOwnedRequest{UserId: from, ToUserId: to, ToUsername: to})
	require.NoError(b.t, err)
	return c.GetCounts()[0].GetCount()
}

func TestServer_TransferOwned_movesAllRuns(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.storeOwner("run_1", "usr_1")
	b.storeOwner("run_2", "usr_1")
	b.storeOwner("run_3", "usr_3")
	require.EqualValues(t, 2, b.owned("usr_1"))
	require.EqualValues(t, 2, b.transfer("usr_1", "usr_2"))
	require.Equal(t, []int32{0, 2, 1}, []int32{b.owned("usr_1"), b.owned("usr_2"), b.owned("usr_3")})
	require.Zero(t, b.transfer("usr_1", "usr_2"), "a repeated transfer finds no runs")
	var audits int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'run_data.transfer'
		AND target_id = 'usr_1' AND actor_id = 'usr_admin' AND after->>'owner_id' = 'usr_2' AND after->>'runs' = '2'`).Scan(&audits))
	require.Equal(t, 1, audits)
}

func TestServer_TransferOwned_lateReportDoesNotUndo(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.storeOwner("run_1", "usr_1")
	b.transfer("usr_1", "usr_2")
	b.storeOwner("run_1", "usr_1") // from a response that the jobs service sent before the transfer
	require.Equal(t, "usr_2", b.ownerOf("run_1"))
	b.storeOwner("run_1", "usr_2")
	require.Equal(t, "usr_2", b.ownerOf("run_1"))
	b.storeOwner("run_1", "usr_3")
	require.Equal(t, "usr_3", b.ownerOf("run_1"), "any other owner that the jobs service reports is stored")
}

func TestServer_TransferOwned_backToFormerOwner(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.storeOwner("run_1", "usr_1")
	b.transfer("usr_1", "usr_2")
	b.transfer("usr_2", "usr_1")
	b.storeOwner("run_1", "usr_1")
	require.Equal(t, "usr_1", b.ownerOf("run_1"))
	b.storeOwner("run_1", "usr_2")
	require.Equal(t, "usr_1", b.ownerOf("run_1"), "a late report of the former owner usr_2 does not undo the transfer")
}
