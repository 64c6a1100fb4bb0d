package deployment

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// readyRevision creates a revision and makes it ready.
func (b *harness) readyRevision() *revision.Revision {
	b.t.Helper()
	r, _ := b.see(b.candidate(), 1, 1, serving())
	require.Equal(b.t, revision.Ready, r.State)
	return r
}

// promotedRevision creates a revision and promotes it.
func (b *harness) promotedRevision() *revision.Revision {
	b.t.Helper()
	r := b.readyRevision()
	_, err := b.Promote(b.ctx, b.d.ID, r.Number)
	require.NoError(b.t, err)
	return r
}

// now returns the deployment as it is stored.
func (b *harness) now() *Deployment {
	b.t.Helper()
	d, err := b.Store.Get(b.ctx, b.Pool, access.ServiceScope(), b.d.ID)
	require.NoError(b.t, err)
	return d
}

// revision returns a revision as it is stored.
func (b *harness) revision(number int32) *revision.Revision {
	b.t.Helper()
	r, err := b.Revisions.Get(b.ctx, b.Pool, b.d.ID, number)
	require.NoError(b.t, err)
	return r
}

// events returns the deployment's events, oldest first.
func (b *harness) events() []event.Event {
	b.t.Helper()
	found, err := event.List(b.ctx, b.Pool, SubjectKind, b.d.ID, request.Page{Limit: 500})
	require.NoError(b.t, err)
	return found
}

// count returns the number of events of a type.
func (b *harness) count(kind string) (n int) {
	b.t.Helper()
	for _, e := range b.events() {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// mint creates a token.
func (b *harness) mint(name string) (token *deploytoken.Token, text secret.String) {
	b.t.Helper()
	require.NoError(b.t, b.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
		token, text, err = b.Mint(ctx, tx, b.ids, rand.Reader, b.d.ID, name)
		return err
	}))
	return token, text
}

// everything returns the contents of all tables that a change of a deployment may write.
func (b *harness) everything() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	for _, table := range []string{"deployment", "revision", "deployment_token", "event", "audit", "snapshot_epoch"} {
		var text *string
		require.NoError(b.t, b.Pool.QueryRow(b.ctx, `SELECT string_agg(t::text, E'\n' ORDER BY t::text) FROM `+table+` t`).Scan(&text))
		if text != nil {
			out[table] = *text
		}
	}
	return out
}

// atOnce runs all functions concurrently and returns their errors in order.
func atOnce(fns ...func() error) []error {
	start, done := make(chan struct{}), make(chan int)
	errs := make([]error, len(fns))
	for i, fn := range fns {
		go func() {
			<-start
			errs[i] = fn()
			done <- i
		}()
	}
	close(start)
	for range fns {
		<-done
	}
	return errs
}

// exec changes rows directly, without the Changer.
func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.Pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}
