package session

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/draw"
)

func (h *harness) renew(token secret.String) (Tokens, error) {
	return h.Refresh(h.t.Context(), token.Reveal(), "192.0.2.7")
}

func TestSessions_Refresh_newPair(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.login()
	second, err := h.renew(first.Refresh)
	require.NoError(t, err)
	require.False(t, second.Refresh.Equal(first.Refresh))
	require.False(t, second.Access.Equal(first.Access))
	third, err := h.renew(second.Refresh)
	require.NoError(t, err)
	for _, tokens := range []Tokens{first, second, third} {
		_, err := h.authenticate(tokens.Access)
		require.NoError(t, err, "access tokens of the session are valid until they expire")
	}
	require.Equal(t, 1, h.count("session"))
}

// A client whose response was lost repeats the exchange.
func TestSessions_Refresh_repeatGetsSameSuccessor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after   time.Duration
		between func(h *harness, second Tokens)
		address string
		ok      bool
	}{
		"at once":                    {ok: true},
		"end of the grace period":    {after: reuseGrace, ok: true},
		"after the grace period":     {after: reuseGrace + time.Microsecond},
		"from another address":       {address: "192.0.2.8"},
		"after the salts are swept":  {after: reuseGrace, ok: true, between: func(h *harness, _ Tokens) { require.NoError(h.t, h.ForgetSalts(h.t.Context())) }},
		"after the successor's use":  {between: func(h *harness, second Tokens) { _, err := h.renew(second.Refresh); require.NoError(h.t, err) }},
		"after the successor's loss": {between: func(h *harness, _ Tokens) { h.exec(`DELETE FROM refresh_token WHERE used_at IS NULL`) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			first := h.login()
			second, err := h.renew(first.Refresh)
			require.NoError(t, err)
			h.clock.Advance(tc.after)
			if tc.between != nil {
				tc.between(h, second)
			}
			if tc.address == "" {
				tc.address = "192.0.2.7"
			}
			again, err := h.Refresh(t.Context(), first.Refresh.Reveal(), tc.address)
			if !tc.ok {
				h.refused(err)
				_, err = h.renew(second.Refresh)
				h.refused(err)
				require.Equal(t, []string{"session.open", "session.reuse"}, h.audits())
				return
			}
			require.NoError(t, err)
			require.True(t, again.Refresh.Equal(second.Refresh), "the session has one successor")
			_, err = h.authenticate(again.Access)
			require.NoError(t, err)
			_, err = h.renew(again.Refresh)
			require.NoError(t, err)
			require.Equal(t, []string{"session.open"}, h.audits())
		})
	}
}

func TestSessions_ForgetSalts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	token := h.login().Refresh
	_, err := h.renew(token)
	require.NoError(t, err)
	var salt []byte
	require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT salt FROM refresh_salt`).Scan(&salt))
	next, err := successor(token.Reveal(), salt)
	require.NoError(t, err)
	require.Equal(t, 1, h.count(`refresh_token WHERE hash = '\x`+hex.EncodeToString(secret.Hash(next.Reveal()))+`'`))
	h.clock.Advance(reuseGrace)
	require.NoError(t, h.ForgetSalts(t.Context()))
	require.Equal(t, 1, h.count("refresh_salt"))
	h.clock.Advance(time.Microsecond)
	require.NoError(t, h.ForgetSalts(t.Context()))
	require.Zero(t, h.count("refresh_salt"))
}

func TestSessions_Refresh_reuseRevokesOneFamily(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first, other := h.login(), h.login()
	second, err := h.renew(first.Refresh)
	require.NoError(t, err)
	h.clock.Advance(time.Minute)
	_, err = h.renew(first.Refresh)
	h.refused(err)
	for _, tokens := range []Tokens{first, second} {
		_, err = h.authenticate(tokens.Access)
		h.refused(err)
	}
	_, err = h.authenticate(other.Access)
	require.NoError(t, err)
	_, err = h.renew(other.Refresh)
	require.NoError(t, err)
	var reason string
	require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT revoked_reason FROM session WHERE revoked_at IS NOT NULL`).Scan(&reason))
	require.Equal(t, string(RevokedReuse), reason)
}

func TestSessions_Refresh_reuseAuditedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.login()
	_, err := h.renew(first.Refresh)
	require.NoError(t, err)
	h.clock.Advance(time.Minute)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _, _ = h.renew(first.Refresh) })
	}
	wg.Wait()
	require.Equal(t, []string{"session.open", "session.reuse"}, h.audits())
}

// In each round, several browser tabs refresh the same token at once. All tabs must get the same successor.
func TestSessions_Refresh_concurrent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	rounds := 50
	if draw.Whole() {
		rounds = 1000
	}
	token := h.login().Refresh
	for range rounds {
		var mu sync.Mutex
		next := map[string]bool{}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				tokens, err := h.renew(token)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				next[tokens.Refresh.Reveal()] = true
			})
		}
		wg.Wait()
		require.Len(t, next, 1)
		for text := range next {
			token = secret.New(text)
		}
	}
	require.Equal(t, rounds+1, h.count("refresh_token"))
}

func TestSessions_Refresh_invalidTokens(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	good := h.login()
	unknown, err := secret.Mint(rand.Reader, secret.KindRefresh)
	require.NoError(t, err)
	ingest, err := secret.Mint(rand.Reader, secret.KindIngest)
	require.NoError(t, err)
	text := good.Refresh.Reveal()
	for name, token := range map[string]string{
		"empty": "", "rubbish": "rubbish", "unknown": unknown.Reveal(), "another kind": ingest.Reveal(), "access token": good.Access.Reveal(),
		"truncated": text[:len(text)-1], "longer": text + "x", "upper case": strings.ToUpper(text), "zero byte": text + "\x00",
	} {
		_, err := h.renew(secret.New(token))
		require.True(t, fault.Is(err, fault.Unauthenticated), name)
		require.Equal(t, badRefresh().Error(), err.Error(), name)
	}
	_, err = h.renew(good.Refresh)
	require.NoError(t, err, "the failed attempts must not use up the token")
}

func TestSessions_Refresh_expiresAfterThirtyDays(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	late, later := h.login(), h.login()
	h.clock.Advance(RefreshTTL - time.Second)
	_, err := h.renew(late.Refresh)
	require.NoError(t, err)
	h.clock.Advance(2 * time.Second)
	_, err = h.renew(later.Refresh)
	h.refused(err)
	require.Equal(t, 0, h.revoked(), "the use of an expired token is not reuse")
}

func (h *harness) revoked() (n int) {
	h.t.Helper()
	require.NoError(h.t, h.Pool.QueryRow(h.t.Context(), `SELECT count(*) FROM session WHERE revoked_at IS NOT NULL`).Scan(&n))
	return n
}

func TestSessions_Refresh_endedSession(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"disabled": `UPDATE account SET disabled_at = now()`,
		"revoked":  `UPDATE session SET revoked_at = now(), revoked_reason = 'admin'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			tokens := h.login()
			h.exec(sql)
			_, err := h.renew(tokens.Refresh)
			h.refused(err)
			var used *time.Time
			require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT used_at FROM refresh_token`).Scan(&used))
			require.Nil(t, used, "a rejected exchange does not use up the token")
		})
	}
}

func TestSessions_Refresh_readsCurrentRole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tokens := h.login()
	h.exec(`UPDATE account SET role = 'admin', epoch = epoch + 1`)
	_, err := h.authenticate(tokens.Access)
	h.refused(err)
	fresh, err := h.renew(tokens.Refresh)
	require.NoError(t, err)
	require.Equal(t, "admin", fresh.Role)
	_, err = h.authenticate(fresh.Access)
	require.NoError(t, err)
}

func TestSessions_Logout_endsOneSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	mine, other := h.login(), h.login()
	c, err := h.authenticate(mine.Access)
	require.NoError(t, err)
	ctx := authn.NewContext(t.Context(), c)
	require.NoError(t, h.Logout(ctx, c))
	require.NoError(t, h.Logout(ctx, c), "a second logout succeeds")
	_, err = h.authenticate(mine.Access)
	h.refused(err)
	_, err = h.renew(mine.Refresh)
	h.refused(err)
	_, err = h.authenticate(other.Access)
	require.NoError(t, err)
	require.Equal(t, []string{"session.open", "session.open", "session.logout"}, h.audits())
}
