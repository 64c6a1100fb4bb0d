package profile

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
)

func (d *harness) change(present, next string) error {
	_, err := d.ChangePassword(d.ctx(), &authv1.ChangePasswordRequest{CurrentPassword: present, NewPassword: next})
	return err
}

// passwordWorks reports whether the given text is bob's password.
func (d *harness) passwordWorks(text string) bool {
	d.t.Helper()
	var hash string
	require.NoError(d.t, d.pool.QueryRow(d.t.Context(), `SELECT password_hash FROM account WHERE id = $1`, bob).Scan(&hash))
	ok, err := d.hasher.Check(d.t.Context(), hash, secret.New(text))
	require.NoError(d.t, err)
	return ok
}

func TestPasswords_Change_endsTokensAndOtherSessions(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.exec(`UPDATE account SET must_change_password = true`)
	require.NoError(t, d.change(pass, "staple staple staple"))
	require.True(t, d.passwordWorks("staple staple staple"))
	require.False(t, d.passwordWorks(pass))
	require.Equal(t, 1, d.count(`account WHERE id = $1 AND epoch = 2 AND NOT must_change_password`, bob))
	require.Equal(t, 1, d.count(`account WHERE id = $1 AND epoch = 1 AND must_change_password`, eve))
	require.Equal(t, 1, d.count(`session WHERE account_id = $1 AND revoked_at IS NULL AND id = $2`, bob, mine), "the calling session continues")
	require.Equal(t, 1, d.count(`session WHERE account_id = $1 AND revoked_reason = 'password'`, bob))
	require.Equal(t, 2, d.count(`session WHERE account_id = $1 AND revoked_at IS NULL`, eve))
	require.Equal(t, 1, d.count(`audit WHERE action = 'account.password' AND target_id = $1 AND actor_id = $1`, bob))
	require.Zero(t, d.count(`audit WHERE after::text LIKE '%staple%' OR after::text LIKE '%argon%'`))
}

func TestPasswords_Change_wrongCurrentPassword(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []struct{ present, next, code string }{
		{"not it", "staple staple staple", "bad_password"},
		{"", "staple staple staple", "bad_password"},
		{pass, pass, "same_password"},
		{"not it", "not it", "bad_password"},
	} {
		err := d.change(c.present, c.next)
		require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, c.code), "%v", err)
	}
	require.True(t, d.passwordWorks(pass))
	require.Equal(t, 2, d.count(`account WHERE epoch = 1`))
	require.Zero(t, d.count(`session WHERE revoked_at IS NOT NULL`)+d.count(`audit`))
}

func TestPasswords_Change_sharesSignInLimit(t *testing.T) {
	t.Parallel()
	d := open(t)
	for range 9 {
		require.True(t, fault.HasCode(d.change("not it", "staple staple staple"), "bad_password"))
	}
	require.NoError(t, d.Passwords.Limit.Take(t.Context(), "192.0.2.9"), "the tenth attempt is a sign-in")
	err := d.change(pass, "staple staple staple")
	require.True(t, fault.Is(err, fault.Limited) && fault.From(err).RetryAfter > 0, "%v", err)
	require.True(t, d.passwordWorks(pass))
}

func TestPasswords_Change_concurrent(t *testing.T) {
	t.Parallel()
	d := open(t)
	var wg sync.WaitGroup
	var changed atomic.Int32
	for _, next := range []string{"staple staple 1", "staple staple 2", "staple staple 3", "staple staple 4"} {
		wg.Go(func() {
			err := d.change(pass, next)
			switch {
			case err == nil:
				changed.Add(1)
			case !fault.HasCode(err, "password_changed") && !fault.HasCode(err, "bad_password"):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, changed.Load())
	require.Equal(t, 1, d.count(`account WHERE id = $1 AND epoch = 2`, bob))
}

// racingHasher is a hasher whose Hash first calls the function in the field meanwhile. If err is set, Check returns it.
type racingHasher struct {
	hasher
	meanwhile func()
	err       error
}

func (r racingHasher) Check(ctx context.Context, stored string, p secret.String) (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	return r.hasher.Check(ctx, stored, p)
}

func (r racingHasher) Hash(ctx context.Context, p secret.String) (string, error) {
	r.meanwhile()
	return r.hasher.Hash(ctx, p)
}

func TestPasswords_Change_accountChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"reset":    `UPDATE account SET epoch = epoch + 1, password_hash = 'reset'`,
		"disabled": `UPDATE account SET disabled_at = now()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			d.Passwords.Hasher = racingHasher{hasher: d.hasher, meanwhile: func() { d.exec(sql) }}
			require.True(t, fault.HasCode(d.change(pass, "staple staple staple"), "password_changed"))
			require.Zero(t, d.count(`session WHERE revoked_at IS NOT NULL`)+d.count(`audit`))
		})
	}
}

func TestPasswords_Change_busyOrOff(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.Passwords.Hasher = racingHasher{hasher: d.hasher, err: password.ErrBusy}
	err := d.change(pass, "staple staple staple")
	require.True(t, fault.Is(err, fault.Unavailable) && fault.From(err).RetryAfter > 0, "a full hash queue is a temporary error: %v", err)
	d.Passwords.Hasher, d.Passwords.On = d.hasher, false
	err = d.change(pass, "staple staple staple")
	require.True(t, fault.Is(err, fault.Unconfigured) && fault.HasCode(err, "password_login_off"), "%v", err)
	require.True(t, d.passwordWorks(pass))
	require.Equal(t, 1, d.count(`login_attempt`), "a request while passwords are off is not counted as an attempt")
}
