package account

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// plainHasher is a hasher whose hashes contain the password.
type plainHasher struct{ err error }

func (p plainHasher) Hash(_ context.Context, password secret.String) (string, error) {
	return "hash of " + password.Reveal(), p.err
}

func database(t *testing.T) *pgtest.DB {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	return pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files})
}

func newBootstrap(t *testing.T, d *pgtest.DB, given string) *Bootstrap {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	return &Bootstrap{
		Pool: d.Pool("auth"), Hasher: plainHasher{}, Audit: audit.NewLog(clk, ids, "auth"), Clock: clk, IDs: ids,
		Rand: rand.Reader, Password: secret.New(given),
	}
}

type counts struct{ Accounts, Projects, Memberships, Audits int }

func count(t *testing.T, d *pgtest.DB) (c counts) {
	t.Helper()
	row := d.Pool("auth").QueryRow(t.Context(), `SELECT (SELECT count(*) FROM account), (SELECT count(*) FROM project),
		(SELECT count(*) FROM membership), (SELECT count(*) FROM audit)`)
	require.NoError(t, row.Scan(&c.Accounts, &c.Projects, &c.Memberships, &c.Audits))
	return c
}

// mustChange reports whether the first admin must change the password.
func mustChange(t *testing.T, q pg.Querier) (must bool) {
	t.Helper()
	require.NoError(t, q.QueryRow(t.Context(), `SELECT must_change_password FROM account`).Scan(&must))
	return must
}

func TestBootstrap_Run_createsAdmin(t *testing.T) {
	t.Parallel()
	d := database(t)
	b := newBootstrap(t, d, "")
	first, err := b.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, FirstUsername, first.Username)
	require.False(t, first.Given)
	require.Len(t, first.Password.Reveal(), 24)
	a, err := ByUsername(t.Context(), b.Pool, FirstUsername)
	require.NoError(t, err)
	require.Equal(t, RoleAdmin, a.Role)
	require.Equal(t, "hash of "+first.Password.Reveal(), a.PasswordHash)
	require.Nil(t, a.DisabledAt)
	require.True(t, mustChange(t, b.Pool), "a generated password must be changed")
	require.Equal(t, counts{1, 1, 1, 1}, count(t, d))
	members, err := Memberships(t.Context(), b.Pool, a.ID)
	require.NoError(t, err)
	require.Len(t, members, 1)
	require.Equal(t, "owner", members[0].Role)
	var action, actor, target string
	row := b.Pool.QueryRow(t.Context(), `SELECT action, actor_kind, target_id FROM audit`)
	require.NoError(t, row.Scan(&action, &actor, &target))
	require.Equal(t, []string{"account.bootstrap", "service", a.ID}, []string{action, actor, target})
}

func TestBootstrap_Run_passwordsDiffer(t *testing.T) {
	t.Parallel()
	one, err := newBootstrap(t, database(t), "").Run(t.Context())
	require.NoError(t, err)
	two, err := newBootstrap(t, database(t), "").Run(t.Context())
	require.NoError(t, err)
	require.False(t, one.Password.Equal(two.Password))
}

func TestBootstrap_Run_passwordFromSettings(t *testing.T) {
	t.Parallel()
	b := newBootstrap(t, database(t), "from the settings")
	first, err := b.Run(t.Context())
	require.NoError(t, err)
	require.True(t, first.Given)
	require.False(t, mustChange(t, b.Pool), "a password from the settings need not be changed")
	require.Equal(t, "from the settings", first.Password.Reveal())
}

func TestBootstrap_Run_concurrentStarts(t *testing.T) {
	t.Parallel()
	d := database(t)
	shown := make([]*FirstLogin, 5)
	errs := make([]error, len(shown))
	var wg sync.WaitGroup
	for n := range shown {
		b := newBootstrap(t, d, "")
		wg.Go(func() { shown[n], errs[n] = b.Run(t.Context()) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	var winner *FirstLogin
	for _, f := range shown {
		if f != nil {
			require.Nil(t, winner, "only one start returns a login")
			winner = f
		}
	}
	require.NotNil(t, winner)
	a, err := ByUsername(t.Context(), d.Pool("auth"), FirstUsername)
	require.NoError(t, err)
	require.Equal(t, "hash of "+winner.Password.Reveal(), a.PasswordHash, "the returned password is the stored one")
	require.Equal(t, counts{1, 1, 1, 1}, count(t, d))
}

func TestBootstrap_Run_existingAccount(t *testing.T) {
	t.Parallel()
	d := database(t)
	_, err := newBootstrap(t, d, "").Run(t.Context())
	require.NoError(t, err)
	again, err := newBootstrap(t, d, "another password").Run(t.Context())
	require.NoError(t, err)
	require.Nil(t, again)
	require.Equal(t, counts{1, 1, 1, 1}, count(t, d))
}

func TestBootstrap_Run_failureLeavesNoRows(t *testing.T) {
	t.Parallel()
	d := database(t)
	b := newBootstrap(t, d, "")
	b.Hasher = plainHasher{err: errors.New("no memory")}
	_, err := b.Run(t.Context())
	require.ErrorContains(t, err, "no memory")
	b = newBootstrap(t, d, "")
	b.Rand = iotest.ErrReader(io.ErrUnexpectedEOF)
	_, err = b.Run(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, counts{}, count(t, d))
}
