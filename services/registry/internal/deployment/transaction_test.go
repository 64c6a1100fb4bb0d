package deployment

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// broken makes every write to a table fail until mend is called.
func (b *harness) broken(table string) (mend func()) {
	b.t.Helper()
	owner := b.base.OwnerPool("registry")
	exec := func(sql string) {
		_, err := owner.Exec(b.t.Context(), sql)
		require.NoError(b.t, err)
	}
	exec(`CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken on purpose'; END $$`)
	exec(`CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION broken()`)
	return func() {
		exec(`DROP TRIGGER broken ON ` + table)
		exec(`DROP FUNCTION broken()`)
		owner.Close()
	}
}

// change is an operation on a deployment and the tables that it writes.
type change struct {
	prepare func(b *harness) func() error
	tables  []string
	// audit is the audit action of the operation, or empty if a report of the jobs service caused the operation. The field
	// raises reports whether the operation raises the epoch, and orders is the number of engine orders that it queues.
	audit  string
	raises bool
	orders int
}

func changes() map[string]change {
	every := []string{"event", "audit", "snapshot_epoch"}
	return map[string]change{
		"create": {func(b *harness) func() error {
			d := *b.d
			d.ID, d.Name = b.ids.New(id.Deployment), "other"
			return func() error { return b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Create(ctx, tx, &d) }) }
		}, append([]string{"deployment"}, every...), "deployment.create", true, 0},
		"create a revision": {func(b *harness) func() error {
			m, v := ready()
			r, err := Candidate(b.ids, b.Clock.Now(), time.Minute, b.d, m, v, revision.Serving{})
			require.NoError(b.t, err)
			return func() error {
				return b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.CreateRevision(ctx, tx, r) })
			}
		}, []string{"revision", "event", "audit"}, "deployment.revision.create", false, 1},
		"promote": {func(b *harness) func() error {
			r := b.readyRevision()
			return func() error { _, err := b.Promote(b.ctx, b.d.ID, r.Number); return err }
		}, append([]string{"deployment", "revision"}, every...), "deployment.promote", true, 0},
		"stop": {func(b *harness) func() error {
			r := b.readyRevision()
			return func() error { _, err := b.Stop(b.ctx, b.d.ID, r.Number); return err }
		}, []string{"revision", "event", "audit"}, "deployment.revision.stop", false, 1},
		"describe": {func(b *harness) func() error {
			return func() error { _, err := b.Describe(b.ctx, b.d.ID, "what it is for"); return err }
		}, []string{"deployment", "event", "audit"}, "deployment.update", false, 0},
		"suspend": {func(b *harness) func() error {
			b.promotedRevision()
			return func() error { _, _, err := b.Suspend(b.ctx, b.d.ID, ModeCut); return err }
		}, append([]string{"deployment"}, every...), "deployment.suspend", true, 0},
		"resume": {func(b *harness) func() error {
			_, _, err := b.Suspend(b.ctx, b.d.ID, ModeDrain)
			require.NoError(b.t, err)
			return func() error { _, err := b.Resume(b.ctx, b.d.ID); return err }
		}, append([]string{"deployment"}, every...), "deployment.resume", true, 0},
		"roll back": {func(b *harness) func() error {
			b.promotedRevision()
			b.promotedRevision()
			return func() error { _, err := b.Rollback(b.ctx, b.d.ID, nil, false); return err }
		}, append([]string{"deployment", "revision"}, every...), "deployment.rollback", true, 0},
		"start": {func(b *harness) func() error {
			r := b.readyRevision()
			_, err := b.Stop(b.ctx, b.d.ID, r.Number)
			require.NoError(b.t, err)
			return func() error { _, err := b.Start(b.ctx, b.d.ID, r.Number); return err }
		}, []string{"revision", "event", "audit"}, "deployment.revision.start", false, 1},
		"delete": {func(b *harness) func() error {
			b.mint("ci")
			return func() error { _, err := b.Delete(b.ctx, b.d.ID); return err }
		}, append([]string{"deployment", "deployment_token"}, every...), "deployment.delete", true, 0},
		"lose the promoted engine": {func(b *harness) func() error {
			o := died()
			o.WorkID, o.Generation, o.Fence = b.promotedRevision().WorkID, 1, 1
			return func() error { _, err := b.Observe(b.ctx, o); return err }
		}, []string{"revision", "event", "snapshot_epoch"}, "", true, 1},
		"mint": {func(b *harness) func() error {
			return func() error {
				return b.tx(func(ctx context.Context, tx pgx.Tx) error {
					_, _, err := b.Mint(ctx, tx, b.ids, rand.Reader, b.d.ID, "ci")
					return err
				})
			}
		}, append([]string{"deployment_token"}, every...), "deployment.token.create", true, 0},
		"revoke": {func(b *harness) func() error {
			token, _ := b.mint("ci")
			return func() error { _, err := b.Revoke(b.ctx, b.d.ID, token.ID); return err }
		}, append([]string{"deployment_token"}, every...), "deployment.token.revoke", true, 0},
	}
}

func TestChanger_changesAreAtomic(t *testing.T) {
	t.Parallel()
	for name, c := range changes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			do := c.prepare(b)
			before := b.everything()
			for _, table := range c.tables {
				mend := b.broken(table)
				require.ErrorContains(t, do(), "broken on purpose", table)
				mend()
				require.Equal(t, before, b.everything(), "a failed write to %s must leave no change", table)
			}
			epoch, events, ordered := b.epoch(), len(b.events()), len(b.orders.of)
			require.NoError(t, do(), "the change succeeds once writes work")
			require.Equal(t, c.raises, b.epoch() == epoch+1)
			require.Equal(t, c.raises, b.epoch() != epoch)
			if name != "create" {
				require.Len(t, b.events(), events+1)
			}
			require.Len(t, b.orders.of, ordered+c.orders)
			c.audited(t, b, before["audit"])
		})
	}
}

// audited checks that a user's change has written an audit row, and that a change caused by a report of the jobs
// service has not.
func (c change) audited(t *testing.T, b *harness, before string) {
	t.Helper()
	if c.audit == "" {
		require.Equal(t, before, b.everything()["audit"], "a report of the jobs service must write no audit row")
		return
	}
	rows, err := audit.List(b.ctx, b.Pool, audit.Filter{}, request.Page{Limit: 100})
	require.NoError(t, err)
	var actions []string
	for _, r := range rows {
		actions = append(actions, r.Action)
		require.Equal(t, "usr_1", r.Actor.ID)
		require.Equal(t, SubjectKind, r.TargetKind)
	}
	require.Contains(t, actions, c.audit)
}

func TestChanger_failedOrderRollsBack(t *testing.T) {
	t.Parallel()
	full := errors.New("the queue is full")
	for name, c := range changes() {
		if c.orders == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			do := c.prepare(b)
			before := b.everything()
			b.orders.fail = func(context.Context, pgx.Tx) error { return full }
			require.ErrorIs(t, do(), full)
			require.Equal(t, before, b.everything())
			b.orders.fail = nil
			require.NoError(t, do())
			require.NotEqual(t, before, b.everything())
		})
	}
}

func TestChanger_brokenConnectionRollsBack(t *testing.T) {
	t.Parallel()
	for name, c := range changes() {
		if c.orders == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			do := c.prepare(b)
			before := b.everything()
			admin, err := pgx.Connect(t.Context(), b.base.AdminURL().Reveal())
			require.NoError(t, err)
			defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
			b.orders.fail = func(ctx context.Context, tx pgx.Tx) error {
				_, err := admin.Exec(ctx, `SELECT pg_terminate_backend($1, 60000)`, tx.Conn().PgConn().PID())
				return err
			}
			require.Error(t, do(), "the commit must fail")
			require.Equal(t, before, b.everything())
			b.orders.fail = nil
			require.NoError(t, do(), "a repeat succeeds")
		})
	}
}

func TestChanger_Stop_cancelledRollsBack(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.readyRevision()
	before := b.everything()
	ctx, cancel := context.WithCancel(b.ctx)
	b.orders.fail = func(context.Context, pgx.Tx) error { cancel(); return nil }
	_, err := b.Stop(ctx, b.d.ID, r.Number)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, b.everything())
}

func TestChanger_Mint_secretNotStored(t *testing.T) {
	t.Parallel()
	b := open(t)
	_, text := b.mint("ci")
	for table, rows := range b.everything() {
		require.NotContains(t, rows, text.Reveal(), table)
		require.NotContains(t, rows, text.Reveal()[len("dtk_"):], table)
	}
	require.Contains(t, b.everything()["deployment_token"], text.Reveal()[:prefixLength], "the prefix is stored")
	_, err := secret.Mint(failing{}, secret.KindDeployment)
	require.Error(t, err)
	before := b.everything()
	err = b.tx(func(ctx context.Context, tx pgx.Tx) error {
		_, text, err := b.Mint(ctx, tx, b.ids, failing{}, b.d.ID, "ci")
		require.True(t, text.IsZero())
		return err
	})
	require.ErrorContains(t, err, "mint a deployment token", "minting fails without randomness")
	require.Equal(t, before, b.everything())
}

// failing is a random source that always fails.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no randomness") }

func TestDeploymentStore_Get_ownEverything(t *testing.T) {
	t.Parallel()
	b := open(t)
	got, err := b.Store.Get(t.Context(), b.Pool, access.ServiceScope(), b.d.ID)
	require.NoError(t, err)
	want := *b.d
	want.FormerIDs = []string{}
	require.Equal(t, &want, got)
}
