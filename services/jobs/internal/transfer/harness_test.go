package transfer_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lifecycle"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/transfer"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

type noClose struct{}

func (noClose) CloseRun(context.Context, pgx.Tx, string) error { return nil }

type harness struct {
	t      *testing.T
	pool   *pgxpool.Pool
	ids    *id.Source
	driver *lifecycle.Driver
	server *transfer.Server
}

// newHarness creates one node with eight GPUs. Accounts have the given limit by default.
func newHarness(t *testing.T, limit int) *harness {
	t.Helper()
	clk := clock.Real()
	ids := id.NewSource(clk, rand.Reader)
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	b := &harness{t: t, pool: pool, ids: ids}
	b.driver = &lifecycle.Driver{
		Pool: pool, Jobs: &job.Store{Events: event.NewLog(clk, ids, "jobs"), Closer: noClose{}}, Works: &assignment.Store{}, Ledger: quota.Ledger{Default: limit},
	}
	b.server = &transfer.Server{Owners: &transfer.Owners{
		Pool: pool, Jobs: b.driver.Jobs, Ledger: b.driver.Ledger, Trail: &db.AuditTrail{Log: audit.NewLog(clk, ids, "jobs")},
	}}
	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{gpu}', now())`)
	b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at, boundary)
		VALUES ('nod_1', 'flt_1', 'nod_1', 'ready', 64, 0, 8, 64, '', '', now(), '{"kind": "own_user"}')`)
	return b
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *harness) count(from string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

// submit inserts a queued job of a user.
func (b *harness) submit(userID string, gpus int) *job.Job {
	b.t.Helper()
	j := &job.Job{
		ID: b.ids.New(id.Job), RunID: b.ids.New(id.Run), Name: "n", OwnerID: userID, OwnerName: "name of " + userID, Visibility: "team",
		Labels: map[string]string{}, Spec: []byte(`{}`), Template: []byte{}, GPUs: gpus,
		Pools:    []job.Pool{{Pool: "gpu", Role: "trainer", Nodes: 1, GPUsPerNode: gpus}},
		RunningS: 1000, StartingS: 100, QueueS: 5000, CreatedAt: clock.Real().Now(),
		Status: job.Status{State: job.Queued, Queue: job.Queue{Reason: job.WaitNew, Since: clock.Real().Now()}},
	}
	facts := job.RunFacts{RecipeLock: []byte(`{}`), Bindings: []byte(`{}`)}
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return b.driver.Jobs.Insert(ctx, tx, j, facts, job.Cause{})
	}))
	return j
}

// schedule makes one scheduler pass.
func (b *harness) schedule() {
	b.t.Helper()
	s := &scheduler.Scheduler{
		Pool: b.pool, IDs: b.ids, Jobs: b.driver.Jobs, Works: b.driver.Works, Fleets: fleet.Store{}, Ledger: b.driver.Ledger,
	}
	_, err := s.RunOnce(b.t.Context())
	require.NoError(b.t, err)
}

func (b *harness) job(id string) *job.Job {
	b.t.Helper()
	got, err := b.driver.Jobs.Get(b.t.Context(), b.pool, authn.Scope{Admin: true, Projects: []string{}}, id)
	require.NoError(b.t, err)
	return got
}

// end reports that the only work item of a placed job exited successfully.
func (b *harness) end(j *job.Job) {
	b.t.Helper()
	var key assignment.Key
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT id, generation, fence FROM work WHERE job_id = $1`, j.ID).
		Scan(&key.ID, &key.Generation, &key.Fence))
	at := clock.Real().Now()
	require.NoError(b.t, b.driver.Observe(b.t.Context(), "nod_1", []assignment.Observed{{
		Key: key, Phase: gang.PhaseExited, PreparingAt: &at, RunningAt: &at, Exit: &gang.Exit{},
	}}))
	require.NoError(b.t, b.driver.Commit(b.t.Context(), j.RunID, true))
}

func (b *harness) held(userID string) int {
	b.t.Helper()
	a, err := b.driver.Ledger.Account(b.t.Context(), b.pool, userID)
	require.NoError(b.t, err)
	return a.Held
}

// countsText formats counts.
func countsText(c *commonpeerv1.OwnedCounts) string {
	text := ""
	for _, k := range c.GetCounts() {
		text += fmt.Sprintf("%s %d ", k.GetKind(), k.GetCount())
	}
	return text
}

func (b *harness) owned(userID string) string {
	b.t.Helper()
	c, err := b.server.CountOwned(b.t.Context(), &commonpeerv1.CountOwnedRequest{UserId: userID})
	require.NoError(b.t, err)
	return countsText(c)
}

func (b *harness) transfer(from, to string) (string, error) {
	ctx := authn.NewContext(b.t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_admin", Role: authn.RoleAdmin})
	c, err := b.server.TransferOwned(ctx, &commonpeerv1.TransferOwnedRequest{UserId: from, ToUserId: to, ToUsername: "name of " + to})
	return countsText(c), err
}
