package session

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

const keptAfterEnd = 24 * time.Hour

// sweep deletes what expired more than a day ago, as the retention worker does.
func (h *harness) sweep(ctx context.Context) error {
	before := h.clock.Now().Add(-keptAfterEnd)
	for _, step := range []func(context.Context, time.Time, int) (int64, error){h.DeleteTokens, h.DeleteSessions} {
		for {
			n, err := step(ctx, before, 1000)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

func TestSessions_DeleteSessions_dayAfterExpiry(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	left := h.login()
	device := h.open(MethodDevice)
	require.NoError(t, h.sweep(t.Context()))
	require.Equal(t, 2, h.count("session"), "live sessions are kept")

	h.clock.Advance(8*time.Hour + keptAfterEnd - time.Second)
	require.NoError(t, h.sweep(t.Context()))
	require.Equal(t, 2, h.count("session"), "expired sessions are kept for a day")
	h.clock.Advance(2 * time.Second)
	require.NoError(t, h.sweep(t.Context()))
	require.Equal(t, 1, h.count("session"), "the device's access token expired a day ago")
	_, err := h.authenticate(device.Access)
	h.refused(err)

	h.clock.Advance(RefreshTTL - 8*time.Hour)
	require.NoError(t, h.sweep(t.Context()))
	require.Zero(t, h.count("session"))
	require.Zero(t, h.count("refresh_token"))
	_, err = h.renew(left.Refresh)
	h.refused(err)
}

// The last login of an account outlives its sessions.
func TestSessions_DeleteSessions_keepsLastLogin(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	last := func() (at *time.Time) {
		require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT last_login_at FROM account WHERE id = 'usr_1'`).Scan(&at))
		return at
	}
	opened := h.clock.Now()
	_ = h.login()
	h.clock.Advance(RefreshTTL + keptAfterEnd - time.Hour)
	newest := h.clock.Now()
	_ = h.login()
	require.NoError(t, h.sweep(t.Context()))
	require.Nil(t, last(), "no session has been deleted")
	h.clock.Advance(2 * time.Hour)
	require.NoError(t, h.sweep(t.Context()))
	require.Equal(t, 1, h.count("session"))
	require.WithinDuration(t, opened, *last(), 0)
	h.clock.Advance(RefreshTTL + keptAfterEnd)
	require.NoError(t, h.sweep(t.Context()))
	require.Zero(t, h.count("session"))
	require.WithinDuration(t, newest, *last(), 0)

	h.exec(`INSERT INTO session (id, account_id, client_address, created_at, expires_at) VALUES ('ses_old', 'usr_1', '', $1, $1)`, opened)
	require.NoError(t, h.sweep(t.Context()))
	require.WithinDuration(t, newest, *last(), 0, "an older session does not change the last login")
}

// While another transaction changes an account, its sessions are skipped, and the sweep does not wait.
func TestSessions_DeleteSessions_skipsLockedAccount(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	_ = h.login()
	h.clock.Advance(RefreshTTL + keptAfterEnd + time.Second)
	require.NoError(t, pg.InTx(t.Context(), h.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM account WHERE id = 'usr_1' FOR NO KEY UPDATE`); err != nil {
			return err
		}
		return h.sweep(t.Context())
	}))
	require.Equal(t, 1, h.count("session"))
	require.NoError(t, h.sweep(t.Context()))
	require.Zero(t, h.count("session"))
}

func TestSessions_DeleteSessions_keepsUsedTokens(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	stolen := h.login().Refresh
	h.clock.Advance(RefreshTTL - time.Hour)
	renewed, err := h.renew(stolen)
	require.NoError(t, err)
	h.clock.Advance(time.Hour + keptAfterEnd/2)
	require.NoError(t, h.sweep(t.Context()))
	require.Equal(t, 2, h.count("refresh_token"))
	h.clock.Advance(keptAfterEnd)
	require.NoError(t, h.sweep(t.Context()))
	require.Equal(t, 1, h.count("refresh_token"), "the session continues with the newer token")
	_, err = h.renew(renewed.Refresh)
	require.NoError(t, err)
}

// A program extends the session of its grant with its own refresh tokens. Such a session must not be deleted.
func TestSessions_DeleteSessions_keepsExtendedSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	kept := h.open(MethodOAuth)
	require.NoError(t, pg.InTx(t.Context(), h.Pool, func(ctx context.Context, tx pgx.Tx) error {
		return h.KeepTx(ctx, tx, kept.SessionID, h.clock.Now().Add(RefreshTTL))
	}))
	h.clock.Advance(RefreshTTL)
	require.NoError(t, h.sweep(t.Context()))
	require.Equal(t, 1, h.count("session"))
}

func TestSessions_DeleteSessions_concurrent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`INSERT INTO session (id, account_id, client_address, created_at, expires_at)
		SELECT 'ses_' || n, 'usr_1', '192.0.2.7', $1, $1 FROM generate_series(1, 2500) n`, h.clock.Now().Add(-2*keptAfterEnd))
	h.exec(`INSERT INTO refresh_token (hash, session_id, issued_at, expires_at)
		SELECT sha256(n::text::bytea), 'ses_' || n, $1, $1 FROM generate_series(1, 2500) n`, h.clock.Now().Add(-2*keptAfterEnd))
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() { errs[n] = h.sweep(t.Context()) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, h.sweep(t.Context()), "this sweep deletes the rows that the concurrent sweeps skipped")
	require.Zero(t, h.count("session"))
	require.Zero(t, h.count("refresh_token"))
}
