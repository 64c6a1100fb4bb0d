package oidc

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	annsName = `SELECT username FROM account JOIN oidc_identity ON account_id = id WHERE subject = 'sub-ann'`
	annsRole = `SELECT role FROM account JOIN oidc_identity ON account_id = id WHERE subject = 'sub-ann'`
	audits   = `SELECT action FROM audit WHERE action <> 'session.open' ORDER BY seq`
)

func bob(more ...object) object {
	return ann(append([]object{{"sub": "sub-bob", "preferred_username": "bob", "email": "bob@example.com"}}, more...)...)
}

func TestSignIn_createsAndFindsAccount(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	first := w.mustSignIn(ann())
	require.Equal(t, "ann", first.Username)
	require.Equal(t, "operator", first.Role)
	require.Equal(t, "ann@example.com", w.text(`SELECT email FROM account WHERE id = $1`, first.AccountID))
	require.Empty(t, w.text(`SELECT password_hash FROM account WHERE id = $1`, first.AccountID), "the account has no password")
	require.Equal(t, "oidc", w.text(`SELECT method FROM session WHERE id = $1`, first.SessionID))
	require.Equal(t, []string{"account.create"}, w.texts(audits))
	require.Equal(t, "192.0.2.7", w.text(`SELECT client_addr FROM audit WHERE action = 'account.create'`))
	second := w.mustSignIn(ann(object{"preferred_username": "renamed", "email": "new@example.com"}))
	require.Equal(t, first.AccountID, second.AccountID, "the subject identifies the user")
	require.Equal(t, "ann", second.Username, "a username does not change")
	require.Equal(t, "new@example.com", w.text(`SELECT email FROM account WHERE id = $1`, first.AccountID))
	require.Equal(t, []string{"account.create", "account.email"}, w.texts(audits))
	w.mustSignIn(ann(object{"email": "new@example.com"}))
	require.Len(t, w.texts(audits), 2, "an unchanged address writes no audit row")
}

func TestSignIn_neverMatchesNameOrEmail(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.exec(`INSERT INTO account (id, username, role, email, password_hash, created_at) VALUES ('usr_ann', 'Ann', 'admin', 'ann@example.com', 'x', now())`)
	tokens := w.mustSignIn(ann())
	require.NotEqual(t, "usr_ann", tokens.AccountID)
	require.Regexp(t, `^ann-[0-9a-f]{6}$`, tokens.Username, "a username that differs only in case is also taken")
	require.Equal(t, "operator", tokens.Role)
	other := w.mustSignIn(bob(object{"preferred_username": "ann", "email": "ann@example.com"}))
	require.NotEqual(t, tokens.AccountID, other.AccountID)
	require.NotEqual(t, tokens.Username, other.Username)
	admin := w.mustSignIn(ann(object{"sub": "sub-eve", "preferred_username": "admin"}))
	require.NotEqual(t, "usr_first", admin.AccountID)
	require.Equal(t, "operator", admin.Role)
	w.idp.metadata = nil
	w.exec(`UPDATE oidc_identity SET issuer = 'https://before.example.com' WHERE subject = 'sub-ann'`)
	moved := w.mustSignIn(ann())
	require.NotEqual(t, tokens.AccountID, moved.AccountID, "the same subject of another issuer is another user")
}

func TestIdentity_usernames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		name, email, want string
	}{
		"plain": {"ann", "", "ann"}, "upper case": {"Ann.Lee", "", "ann.lee"}, "spaces": {"Ann Lee", "", "ann-lee"},
		"an address": {"ann@example.com", "", "ann@example.com"}, "verified address": {"", "Ann@example.com", "ann@example.com"},
		"look-alike letter": {"аdmin", "", "dmin"}, "none": {"", "", "user-"}, "only punctuation": {"...", "", "user-"}, "script": {"<b>ann</b>", "", "b-ann--b"},
		"long": {strings.Repeat("a", 300), "", strings.Repeat("a", maxName)}, "path": {"../../etc", "", "etc"},
	} {
		got := Identity{Issuer: "i", Subject: "s", Name: tc.name, Email: tc.email}.usernames()
		if tc.want == "user-" {
			require.Regexp(t, `^user-[0-9a-f]{8}$`, got[0], name)
			continue
		}
		require.Equal(t, tc.want, got[0], name)
		require.True(t, strings.HasPrefix(got[1], tc.want+"-"), name)
	}
}

func TestSignIn_ignoresUnverifiedEmail(t *testing.T) {
	t.Parallel()
	for name, verified := range map[string]any{"false": false, "absent": nil, "text": "true", "a number": 1, "null": []byte(nil)} {
		w := newHarness(t)
		tokens := w.mustSignIn(ann(object{"preferred_username": nil, "email": "boss@example.com", "email_verified": verified}))
		require.Regexp(t, `^user-`, tokens.Username, name)
		require.Zero(t, w.count(`account WHERE email IS NOT NULL`), name)
	}
}

func TestSignIn_refusals(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.mustSignIn(ann())
	w.exec(`UPDATE account SET disabled_at = now() WHERE username = 'ann'`)
	_, err := w.signIn(ann(in("admins")))
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	require.ErrorContains(t, err, "disabled")
	require.Equal(t, "operator", w.text(annsRole), "the role does not change either")
	require.Equal(t, 1, w.count("session"))
	require.Equal(t, []string{"account.create", "oidc.refuse"}, w.texts(audits), "the refusal is in the audit log")
	w.Settings.OperatorGroups = []string{"staff", ""}
	_, err = w.signIn(bob(in("guests", "")))
	require.Error(t, err, "an empty name is not a group")
	_, err = w.signIn(bob(in("guests")))
	require.True(t, fault.HasCode(err, "oidc_not_admitted"))
	require.Equal(t, 1, w.count("oidc_identity"), "no account is made")
	require.Len(t, w.texts(audits), 2, "an unknown identity writes no audit row")
	require.Equal(t, "operator", w.mustSignIn(bob(in("staff"))).Role)
	_, err = w.signIn(bob(in("guests")))
	require.True(t, fault.Is(err, fault.Forbidden))
	require.Equal(t, "admin", w.mustSignIn(bob(in("admins"))).Role, "members of an admin group need not be in an operator group")
}

func TestSignIn_roleFollowsGroups(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	require.Equal(t, "admin", w.mustSignIn(ann(in("admins"))).Role)
	require.Equal(t, "operator", w.mustSignIn(bob(in("admin", "Admins"))).Role)
	require.Equal(t, "admin", w.mustSignIn(bob(in("x", "admins"))).Role)
	require.Equal(t, "operator", w.mustSignIn(bob(in())).Role)
	require.Equal(t, "admin", w.mustSignIn(bob(object{"groups": "admins"})).Role, "a single group may be a plain string")
	require.Equal(t, "operator", w.mustSignIn(bob(object{"groups": nil})).Role)
	require.Equal(t, []string{"account.create", "account.create", "account.role", "account.role", "account.role", "account.role"}, w.texts(audits))
	require.Equal(t, `{"role":"operator"}`, w.text(`SELECT after::text FROM audit WHERE action = 'account.role' ORDER BY seq DESC LIMIT 1`))
}

func TestSignIn_keepsLastAdmin(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.mustSignIn(ann(in("admins")))
	require.Equal(t, "admin", w.mustSignIn(ann(in())).Role, "the first admin has only a password and does not count")
	require.Contains(t, w.texts(audits), "account.demotion_withheld")
	w.mustSignIn(bob(in("admins")))
	w.exec(`UPDATE account SET disabled_at = now() WHERE username = 'bob'`)
	require.Equal(t, "admin", w.mustSignIn(ann(in())).Role, "a disabled admin does not count")
	w.exec(`UPDATE account SET disabled_at = NULL WHERE username = 'bob'`)
	require.Equal(t, "operator", w.mustSignIn(ann(in())).Role)
	require.Equal(t, "admin", w.mustSignIn(bob(in())).Role)
}

// signInTogether runs the sign-ins of these users at the same time.
func (w *harness) signInTogether(people ...object) []error {
	w.t.Helper()
	callbacks, errs := make([]Callback, len(people)), make([]error, len(people))
	for i, p := range people {
		var err error
		callbacks[i], err = w.callback(p)
		require.NoError(w.t, err)
	}
	var all sync.WaitGroup
	for i, a := range callbacks {
		all.Go(func() { _, _, errs[i] = w.Finish(w.t.Context(), a) })
	}
	all.Wait()
	return errs
}

func TestSignIn_concurrentDemotionsKeepOneAdmin(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	for range 10 {
		w.mustSignIn(ann(in("admins")))
		w.mustSignIn(bob(in("admins")))
		require.NoError(t, errors.Join(w.signInTogether(ann(), bob())...))
		require.Equal(t, 1, w.count(`account JOIN oidc_identity ON account_id = id WHERE role = 'admin'`))
	}
}

func TestSignIn_concurrentFirstSignIns(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	people := make([]object, 20)
	for i := range people {
		people[i] = ann()
	}
	require.NoError(t, errors.Join(w.signInTogether(people...)...))
	require.Equal(t, 1, w.count("oidc_identity"))
	require.Equal(t, 2, w.count("account"))
	require.Equal(t, 20, w.count("session"))
	for i := range people {
		people[i] = ann(object{"sub": "sub-" + strings.Repeat("x", i+1), "preferred_username": "namesake"})
	}
	require.NoError(t, errors.Join(w.signInTogether(people...)...))
	require.Equal(t, 21, w.count("oidc_identity"), "users with the same name get separate accounts")
	require.Equal(t, 1, w.count("account WHERE username = 'namesake'"))
}

func TestSignIn_teamsFollowGroups(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.exec(`INSERT INTO team (id, key, name, created_at) VALUES ('team_1', 'vision', 'Vision', now()), ('team_2', 'robots', 'Robots', now())`)
	teams := func() []string {
		return w.texts(`SELECT team_id || ' ' || source FROM team_member JOIN oidc_identity i ON i.account_id = team_member.account_id
			WHERE subject = 'sub-ann' ORDER BY 1`)
	}
	tokens := w.mustSignIn(ann(in("cn=vision,dc=example", "nlp")))
	require.Equal(t, []string{"team_1 oidc"}, teams(), "a missing team does not prevent the sign-in")
	w.exec(`INSERT INTO team_member (team_id, account_id, role) VALUES ('team_2', $1, 'lead')`, tokens.AccountID)
	w.mustSignIn(ann(in()))
	require.Equal(t, []string{"team_2 hand"}, teams())
	w.exec(`INSERT INTO team (id, key, name, created_at) VALUES ('team_3', 'language', 'Language', now())`)
	w.mustSignIn(ann(in("nlp")))
	require.Equal(t, []string{"team_2 hand", "team_3 oidc"}, teams())
	require.Equal(t, []string{"account.create", "account.teams", "account.teams", "account.teams"}, w.texts(audits))
}
