package session

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const userID = "usr_1"

// hashes is a fake hasher that records the checked hashes. The hash of a password is the password itself.
type hashes struct {
	checked  []string
	outdated bool
	err      error
	// before is called at the start of each check. It can change what the login has already read.
	before func()
}

func (h *hashes) Check(_ context.Context, stored string, pass secret.String) (bool, error) {
	if h.before != nil {
		h.before()
	}
	h.checked = append(h.checked, stored)
	return stored != "" && stored == pass.Reveal(), h.err
}

func (h *hashes) Outdated(string) bool { return h.outdated }

func (h *hashes) Hash(_ context.Context, pass secret.String) (string, error) {
	return "renewed " + pass.Reveal(), h.err
}

// fixedLimiter is a limiter that returns a fixed error. If the error is nil, every attempt is allowed.
type fixedLimiter struct{ err error }

func (o fixedLimiter) Take(context.Context, string) error { return o.err }

type harness struct {
	*Sessions

	t      *testing.T
	db     *pgtest.DB
	clock  *clock.Fake
	hashes *hashes
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	d := pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files})
	m := newTokenForger(t)
	ids := id.NewSource(m.clock, rand.Reader)
	h := &harness{t: t, db: d, clock: m.clock, hashes: &hashes{}}
	h.Sessions = &Sessions{
		Pool: d.Pool("auth"), Access: m.Access, Limit: fixedLimiter{}, Password: h.hashes,
		Audit: audit.NewLog(m.clock, ids, "auth"), Clock: m.clock, IDs: ids, Rand: rand.Reader,
	}
	h.exec(`INSERT INTO signing_key (kid, purpose, generation, sealed, public_key, created_at, signs_at) VALUES ($1, 'access', 1, '', $2, now(), now())`,
		m.key.ID, []byte(m.key.Public().Key))
	h.exec(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES ('usr_1', 'ann', 'operator', 'right', now())`)
	return h
}

func (h *harness) exec(sql string, args ...any) {
	h.t.Helper()
	_, err := h.Pool.Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

func (h *harness) count(table string) (n int) {
	h.t.Helper()
	require.NoError(h.t, h.Pool.QueryRow(h.t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
	return n
}

// login signs in with the correct password.
func (h *harness) login() Tokens {
	h.t.Helper()
	tokens, err := h.Login(h.t.Context(), "ann", secret.New("right"), "192.0.2.7")
	require.NoError(h.t, err)
	return tokens
}

func (h *harness) authenticate(token secret.String) (*authn.Caller, error) {
	return h.Authenticate(h.t.Context(), token.Reveal(), "192.0.2.7")
}

func (h *harness) refused(err error) {
	h.t.Helper()
	require.True(h.t, fault.Is(err, fault.Unauthenticated), "%v", err)
}

// audits lists the actions in the audit, in order.
func (h *harness) audits() (actions []string) {
	h.t.Helper()
	rows, err := h.Pool.Query(h.t.Context(), `SELECT action FROM audit ORDER BY seq`)
	require.NoError(h.t, err)
	defer rows.Close()
	for rows.Next() {
		var a string
		require.NoError(h.t, rows.Scan(&a))
		actions = append(actions, a)
	}
	return actions
}

func TestSessions_Login_failuresAreIndistinguishable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`INSERT INTO account (id, username, role, password_hash, created_at, disabled_at) VALUES ('usr_2', 'bob', 'operator', 'right', now(), now())`)
	var first error
	for name, user := range map[string]string{"wrong password": "ann", "unknown": "nobody", "disabled": "bob", "zero byte": "ann\x00"} {
		pass := "wrong"
		if user == "bob" {
			pass = "right"
		}
		h.hashes.checked = nil
		tokens, err := h.Login(t.Context(), user, secret.New(pass), "192.0.2.7")
		h.refused(err)
		require.Zero(t, tokens, name)
		require.Len(t, h.hashes.checked, 1, "%s: exactly one hash must be computed", name)
		if first == nil {
			first = err
		}
		require.Equal(t, fault.From(first), fault.From(err), name)
	}
	require.Zero(t, h.count("session"))
	require.Zero(t, h.count("refresh_token"))
	require.Empty(t, h.audits())
}

func TestSessions_Login_audited(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tokens := h.login()
	require.Equal(t, "ann", tokens.Username)
	require.Equal(t, "operator", tokens.Role)
	var action, kind, actor, session, address, target string
	row := h.Pool.QueryRow(t.Context(), `SELECT action, actor_kind, actor_id, session_id, client_addr, target_id FROM audit`)
	require.NoError(t, row.Scan(&action, &kind, &actor, &session, &address, &target))
	require.Equal(t, []string{"session.open", "user", userID, "192.0.2.7"}, []string{action, kind, actor, address})
	require.Equal(t, session, target)
	c, err := h.authenticate(tokens.Access)
	require.NoError(t, err)
	require.Equal(t, session, c.SessionID)
}

func TestSessions_Login_storesTokenHashOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tokens := h.login()
	var hash []byte
	require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT hash FROM refresh_token`).Scan(&hash))
	require.Equal(t, secret.Hash(tokens.Refresh.Reveal()), hash)
}

func TestSessions_Login_limitedBeforeHashing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.Limit = fixedLimiter{fault.New(fault.Limited, "login_rate", "x")}
	_, err := h.Login(t.Context(), "ann", secret.New("right"), "192.0.2.7")
	require.True(t, fault.Is(err, fault.Limited))
	require.Empty(t, h.hashes.checked)
}

func TestSessions_Login_hasherBusy(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.hashes.err = password.ErrBusy
	_, err := h.Login(t.Context(), "ann", secret.New("right"), "192.0.2.7")
	require.True(t, fault.Is(err, fault.Unavailable))
	require.Equal(t, time.Second, fault.From(err).RetryAfter)
	h.hashes.err = errors.New("broken")
	_, err = h.Login(t.Context(), "ann", secret.New("right"), "192.0.2.7")
	require.ErrorContains(t, err, "broken")
	require.Zero(t, h.count("session"))
}

func TestSessions_Login_accountChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"disabled":     `UPDATE account SET disabled_at = now()`,
		"new password": `UPDATE account SET password_hash = 'other', epoch = epoch + 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.hashes.before = func() { h.exec(sql) }
			_, err := h.Login(t.Context(), "ann", secret.New("right"), "192.0.2.7")
			h.refused(err)
			require.Equal(t, badLogin().Error(), err.Error())
			require.Zero(t, h.count("session"))
			require.Zero(t, h.count("refresh_token"))
			require.Empty(t, h.audits())
		})
	}
}

func TestSessions_Login_rehashesOutdated(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.login()
	stored := func() (s string) {
		require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT password_hash FROM account`).Scan(&s))
		return s
	}
	require.Equal(t, "right", stored(), "a hash with the current cost stays")
	h.hashes.outdated = true
	tokens := h.login()
	require.Equal(t, "renewed right", stored())
	_, err := h.authenticate(tokens.Access)
	require.NoError(t, err, "the session is valid")
}

func TestSessions_Authenticate_readsCurrentAccount(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tokens := h.login()
	h.exec(`INSERT INTO project (id, key, name, visibility, created_at) VALUES ('prj_1', 'one', 'One', 'team', now())`)
	h.exec(`INSERT INTO membership (project_id, account_id, role) VALUES ('prj_1', 'usr_1', 'editor')`)
	h.exec(`UPDATE account SET role = 'admin'`)
	c, err := h.authenticate(tokens.Access)
	require.NoError(t, err)
	require.Equal(t, authn.KindUser, c.Kind)
	require.Equal(t, "admin", c.Role, "the role must come from the database, not from the token")
	require.Equal(t, []authn.ProjectRole{{Project: "prj_1", Role: "editor"}}, c.Projects)
	require.Equal(t, "192.0.2.7", c.ClientAddr)
	h.exec(`UPDATE account SET role = 'operator'`)
	c, err = h.authenticate(tokens.Access)
	require.NoError(t, err)
	require.Equal(t, "operator", c.Role)
}

func TestSessions_Authenticate_anonymous(t *testing.T) {
	t.Parallel()
	c, err := newHarness(t).authenticate(secret.String{})
	require.NoError(t, err)
	require.Equal(t, &authn.Caller{Kind: authn.KindNone, ClientAddr: "192.0.2.7"}, c)
}

func TestSessions_Authenticate_mismatchedClaims(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.login()
	var session string
	require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT id FROM session`).Scan(&session))
	for name, l := range map[string]live{
		"account":     {sessionID: session, accountID: "usr_2", role: "admin", epoch: 1},
		"session":     {sessionID: "ses_unknown", accountID: userID, role: "operator", epoch: 1},
		"older epoch": {sessionID: session, accountID: userID, role: "operator", epoch: 0},
		"later epoch": {sessionID: session, accountID: userID, role: "operator", epoch: 2},
	} {
		token, err := h.Access.issue(t.Context(), nil, l, nil, "tok_1")
		require.NoError(t, err)
		_, err = h.authenticate(token)
		require.True(t, fault.Is(err, fault.Unauthenticated), name)
	}
}
