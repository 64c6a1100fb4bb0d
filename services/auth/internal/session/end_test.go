package session

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// callerOf returns the caller that the access token identifies.
func (h *harness) callerOf(tokens Tokens) *authn.Caller {
	h.t.Helper()
	c, err := h.authenticate(tokens.Access)
	require.NoError(h.t, err)
	return c
}

func (h *harness) other() {
	h.t.Helper()
	h.exec(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES ('usr_2', 'bob', 'operator', 'right', now())`)
}

func TestSessions_Revoke_ownOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.other()
	mine, second := h.login(), h.login()
	foreign, err := h.Open(t.Context(), OpenRequest{AccountID: "usr_2", Method: MethodDevice})
	require.NoError(t, err)
	c := h.callerOf(mine)
	ctx := authn.NewContext(t.Context(), c)
	absent := h.Revoke(ctx, c, "ses_none")
	require.True(t, fault.Is(absent, fault.Absent))
	err = h.Revoke(ctx, c, foreign.SessionID)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = h.authenticate(foreign.Access)
	require.NoError(t, err)
	require.NoError(t, h.Revoke(ctx, c, second.SessionID))
	_, err = h.authenticate(second.Access)
	h.refused(err)
	_, err = h.renew(second.Refresh)
	h.refused(err)
	require.True(t, fault.Is(h.Revoke(ctx, c, second.SessionID), fault.Absent), "an ended session is absent")
	_, err = h.authenticate(mine.Access)
	require.NoError(t, err)
	require.Equal(t, "session.revoke", h.audits()[len(h.audits())-1])
	require.NoError(t, h.Revoke(ctx, c, mine.SessionID), "the calling session may be revoked")
	_, err = h.authenticate(mine.Access)
	h.refused(err)
}

func TestSessions_RevokeOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.other()
	foreign, err := h.Open(t.Context(), OpenRequest{AccountID: "usr_2", Method: MethodDevice})
	require.NoError(t, err)
	mine, others := h.login(), []Tokens{h.login(), h.open(MethodDevice), h.open(MethodOAuth)}
	c := h.callerOf(mine)
	ctx := authn.NewContext(t.Context(), c)
	require.NoError(t, h.RevokeOthers(ctx, c))
	require.NoError(t, h.RevokeOthers(ctx, c))
	for _, tokens := range others {
		_, err := loadLive(t.Context(), h.Pool, tokens.SessionID)
		require.ErrorIs(t, err, errToken)
	}
	for _, tokens := range []Tokens{mine, foreign} {
		_, err := h.authenticate(tokens.Access)
		require.NoError(t, err)
	}
	var recorded, ended int
	row := h.Pool.QueryRow(t.Context(), `SELECT count(*), max((after->>'ended')::int) FROM audit WHERE action = 'session.revoke_others'`)
	require.NoError(t, row.Scan(&recorded, &ended))
	require.Equal(t, []int{1, 3}, []int{recorded, ended}, "a repeat ends nothing and records nothing")
}

// A login that was checked against the old password must not have a session once the password has been changed.
func TestSessions_EndAll_racesWithLogin(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 10 {
		var epoch int64
		require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT epoch FROM account`).Scan(&epoch))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, _ = h.Open(t.Context(), OpenRequest{AccountID: userID, Method: MethodPassword, WithRefresh: true, epoch: epoch})
			})
		}
		wg.Go(func() {
			_ = pg.InTx(t.Context(), h.Pool, func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, `UPDATE account SET epoch = epoch + 1`); err != nil {
					return err
				}
				_, err := h.EndAll(ctx, tx, userID, RevokedPassword, "")
				return err
			})
		})
		wg.Wait()
		list, _, err := h.List(t.Context(), userID, request.Page{Limit: 50})
		require.NoError(t, err)
		require.Empty(t, list)
	}
}

func TestSessions_Authenticate_recordsUseOncePerMinute(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tokens := h.login()
	opened := h.clock.Now()
	lastUsed := func() (at time.Time) {
		require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT last_used_at FROM session`).Scan(&at))
		return at.UTC()
	}
	version := func() (xmin string) {
		require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT xmin::text FROM session`).Scan(&xmin))
		return xmin
	}
	first := version()
	h.clock.Advance(useEvery - time.Second)
	h.callerOf(tokens)
	require.Equal(t, opened, lastUsed())
	require.Equal(t, first, version(), "a second use within a minute does not write the row")
	h.clock.Advance(time.Second)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { _, _ = h.authenticate(tokens.Access) })
	}
	wg.Wait()
	require.Equal(t, opened.Add(useEvery), lastUsed())
	second := version()
	h.clock.Advance(useEvery - time.Second)
	h.callerOf(tokens)
	require.Equal(t, second, version())
}

// Authenticate must succeed while another transaction has locked the session's row.
func TestSessions_Authenticate_doesNotWaitForRowLock(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tokens := h.login()
	h.clock.Advance(2 * useEvery)
	tx, err := h.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM session FOR UPDATE`)
	require.NoError(t, err)
	h.callerOf(tokens)
}

func TestSessions_List_pages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var ids []string
	for range 3 {
		ids = append(ids, h.open(MethodDevice).SessionID)
		h.clock.Advance(time.Second)
	}
	list, more, err := h.List(t.Context(), userID, request.Page{Limit: 2})
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{ids[2], ids[1]}, []string{list[0].ID, list[1].ID}, "the newest session comes first")
	list, more, err = h.List(t.Context(), userID, request.Page{Limit: 2, Offset: 2})
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, ids[0], list[0].ID)
}
