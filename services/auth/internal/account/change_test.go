package account

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestServer_UpdateUser(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	bob := d.add("bob", operator)
	before := d.account(bob)
	out, err := d.UpdateUser(d.ctx(), &authv1.UpdateUserRequest{UserId: bob, Role: admin, Email: new("b@example.com"), DisplayName: new("Bob")})
	require.NoError(t, err)
	require.Equal(t, []string{"admin", "b@example.com", "Bob"}, []string{out.GetRole(), out.GetEmail(), out.GetDisplayName()})
	require.Equal(t, before.Epoch, d.account(bob).Epoch, "tokens stay valid")
	require.Empty(t, d.ends.calls)
	require.Equal(t, 1, d.count(`audit WHERE action = 'account.update' AND target_id = $1 AND before->>'role' = 'operator'
		AND after->>'role' = 'admin' AND after->>'email' = 'b@example.com' AND NOT after::jsonb ? 'disabled'`, bob))
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: bob, Role: admin, Email: new("b@example.com")}))
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: bob}))
	require.Equal(t, 1, d.count(`audit WHERE action = 'account.update'`), "an update without a change writes no audit row")
	require.True(t, fault.Is(d.update(&authv1.UpdateUserRequest{UserId: bob, DisplayName: new("a\u202eb")}), fault.Invalid))
}

func TestServer_UpdateUser_emptyTextRemoves(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	bob := d.add("bob", operator)
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: bob, Email: new("b@example.com"), DisplayName: new("Bob")}))
	for range 2 {
		out, err := d.UpdateUser(d.ctx(), &authv1.UpdateUserRequest{UserId: bob, Email: new(""), DisplayName: new("")})
		require.NoError(t, err)
		require.Nil(t, out.Email)
		require.Nil(t, out.DisplayName)
	}
	require.Equal(t, 2, d.count(`audit WHERE action = 'account.update'`))
	d.exec(`UPDATE account SET password_hash = '', email = 'b@example.com'`)
	require.True(t, fault.HasCode(d.update(&authv1.UpdateUserRequest{UserId: bob, Email: new("")}), "email_of_provider"))
}

func TestServer_UpdateUser_disablingEndsTokensDemotionDoesNot(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	d.add("root", admin)
	bob := d.add("bob", admin)
	before := d.account(bob)
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: bob, Role: operator}))
	require.Equal(t, before.Epoch, d.account(bob).Epoch)
	require.Empty(t, d.ends.calls)
	d.disable(bob)
	require.Equal(t, before.Epoch+1, d.account(bob).Epoch)
	require.Equal(t, []string{bob + " disabled"}, d.ends.calls)
	require.True(t, d.clock.Now().Equal(*d.account(bob).DisabledAt))
	d.disable(bob)
	require.Equal(t, before.Epoch+1, d.account(bob).Epoch, "disabling a disabled account does not increase its epoch again")
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: bob, Disabled: new(false)}))
	require.Nil(t, d.account(bob).DisabledAt)
	require.Equal(t, before.Epoch+1, d.account(bob).Epoch, "enabling the account does not revive its tokens")
}

func TestServer_UpdateUser_keepsLastAdmin(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	root, bob := d.add("root", admin), d.add("bob", admin)
	take := map[string]*authv1.UpdateUserRequest{
		"demote": {UserId: root, Role: operator}, "disable": {UserId: root, Disabled: new(true)},
		"both": {UserId: root, Role: operator, Disabled: new(true)},
	}
	d.disable(bob)
	for name, in := range take {
		err := d.update(in)
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "last_admin"), "%s must fail while the other admin is disabled: %v", name, err)
	}
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: bob, Role: operator, Disabled: new(false)}))
	for name, in := range take {
		require.True(t, fault.HasCode(d.update(in), "last_admin"), "%s must fail without another admin", name)
	}
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: root, DisplayName: new("Root")}), "other fields may change")
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: bob, Role: admin}))
	require.NoError(t, d.update(take["both"]), "the change succeeds if another admin exists")
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: root, Role: admin}), "a disabled user may get the role")
	require.True(t, fault.HasCode(d.update(&authv1.UpdateUserRequest{UserId: bob, Role: operator}), "last_admin"), "a disabled admin does not count as another admin")
}

const issuer = "https://id.example.org"

// With an OpenID provider, an admin cannot sign in with a password or with an identity of another provider. Without a
// provider, an admin who has no password cannot sign in.
func TestServer_UpdateUser_ignoresAdminsWhoCannotSignIn(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	root, bob, eve, old := d.add("root", admin), d.add("bob", admin), d.add("eve", admin), d.add("old", admin)
	d.exec(`UPDATE account SET password_hash = '' WHERE username <> 'root'`)
	for subject, iss := range map[string]string{bob: issuer, eve: issuer, old: "https://old.example.org"} {
		d.exec(`INSERT INTO oidc_identity (issuer, subject, account_id, created_at, last_sign_in_at) VALUES ($1, $2, $2, now(), now())`, iss, subject)
	}
	require.True(t, fault.HasCode(d.update(&authv1.UpdateUserRequest{UserId: root, Role: operator}), "last_admin"))
	d.Users.Issuer = issuer
	d.disable(eve)
	require.True(t, fault.HasCode(d.update(&authv1.UpdateUserRequest{UserId: bob, Disabled: new(true)}), "last_admin"))
	d.Users.Issuer = ""
	d.disable(bob)
}

func TestUsers_Update_concurrentDemotionsKeepOneAdmin(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	for range 10 {
		one, two, three := d.Users.IDs.New(id.User), d.Users.IDs.New(id.User), d.Users.IDs.New(id.User)
		d.exec(`DELETE FROM account`)
		d.exec(`INSERT INTO account (id, username, role, password_hash, created_at) SELECT u, 'u' || u, 'admin', 'x', now() FROM unnest($1::text[]) u`,
			[]string{one, two, three})
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i, in := range []*authv1.UpdateUserRequest{
			{UserId: one, Role: operator}, {UserId: two, Disabled: new(true)}, {UserId: three, Role: operator},
		} {
			wg.Go(func() { _, errs[i] = d.Users.Update(t.Context(), in.GetUserId(), changeOf(in)) })
		}
		wg.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				require.True(t, fault.HasCode(err, "last_admin"), "%v", err)
				refused++
			}
		}
		require.Equal(t, 1, refused)
		require.Equal(t, 1, d.count(`account WHERE role = 'admin' AND disabled_at IS NULL`))
	}
}

func changeOf(in *authv1.UpdateUserRequest) Change {
	c := Change{Disabled: in.Disabled}
	if role, ok := roles()[in.GetRole()]; ok {
		c.Role = &role
	}
	return c
}

// If admins could reset their own password, a lost response could lock out the only admin, and a stolen token would be
// enough to replace the password.
func TestServer_ResetPassword_rejectsOwnPassword(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	bob := d.add("bob", admin)
	before := d.account(bob)
	c := &authn.Caller{Kind: authn.KindUser, Subject: bob, Username: "bob", Role: authn.RoleAdmin}
	_, err := d.ResetPassword(authn.NewContext(d.ctx(), c), &authv1.ResetPasswordRequest{UserId: bob})
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "own_password"), "%v", err)
	require.Equal(t, before, d.account(bob))
	require.Empty(t, d.ends.calls)
}

func TestServer_ResetPassword(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	bob := d.add("bob", operator)
	before := d.account(bob)
	ctx, _ := d.as("k1")
	out, err := d.ResetPassword(ctx, &authv1.ResetPasswordRequest{UserId: bob})
	require.NoError(t, err)
	after := d.account(bob)
	require.Equal(t, "hash of "+out.GetPassword(), after.PasswordHash)
	require.NotEqual(t, before.PasswordHash, after.PasswordHash)
	require.Equal(t, before.Epoch+1, after.Epoch)
	require.Equal(t, []string{bob + " admin"}, d.ends.calls)
	require.Equal(t, 1, d.count(`account WHERE must_change_password AND id = $1`, bob))
	again, err := d.ResetPassword(ctx, &authv1.ResetPasswordRequest{UserId: bob})
	require.NoError(t, err)
	require.Nil(t, again.Password, "a repeat returns no password")
	require.Equal(t, after, d.account(bob), "a repeat resets nothing")
	require.Equal(t, 1, d.count(`audit WHERE action = 'account.reset_password' AND target_id = $1`, bob))
	d.Users.Issuer = issuer
	_, err = d.ResetPassword(d.ctx(), &authv1.ResetPasswordRequest{UserId: bob})
	require.True(t, fault.HasCode(err, "password_login_off"), "%v", err)
}

func TestServer_UpdateUser_rejectsEmailOfOIDCUser(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	bob := d.add("bob", operator)
	d.exec(`UPDATE account SET password_hash = '', email = 'b@example.com'`)
	u, err := d.GetUser(d.ctx(), &authv1.GetUserRequest{UserId: bob})
	require.NoError(t, err)
	require.Equal(t, "oidc", u.GetLogin())
	err = d.update(&authv1.UpdateUserRequest{UserId: bob, Email: new("other@example.com")})
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "email_of_provider"), "%v", err)
	require.NoError(t, d.update(&authv1.UpdateUserRequest{UserId: bob, Email: new("b@example.com"), DisplayName: new("B")}))
}

func TestServer_GetUser_lastLogin(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	bob := d.add("bob", operator)
	at := d.clock.Now()
	d.exec(`INSERT INTO session (id, account_id, client_address, created_at, revoked_at, revoked_reason) VALUES
		('ses_1', $1, '', $2, NULL, NULL), ('ses_2', $1, '', $2 + interval '1 hour', now(), 'logout')`, bob, at)
	u, err := d.GetUser(d.ctx(), &authv1.GetUserRequest{UserId: bob})
	require.NoError(t, err)
	require.EqualValues(t, 3600, u.GetLastLoginAt().AsTime().Sub(at).Seconds())

	d.exec(`UPDATE account SET last_login_at = $2 WHERE id = $1`, bob, at.Add(time.Minute))
	u, err = d.GetUser(d.ctx(), &authv1.GetUserRequest{UserId: bob})
	require.NoError(t, err)
	require.EqualValues(t, 3600, u.GetLastLoginAt().AsTime().Sub(at).Seconds(), "a stored session is newer")
	d.exec(`DELETE FROM session`)
	u, err = d.GetUser(d.ctx(), &authv1.GetUserRequest{UserId: bob})
	require.NoError(t, err)
	require.EqualValues(t, 60, u.GetLastLoginAt().AsTime().Sub(at).Seconds(), "the last login outlives the sessions")
}

// barrierHasher is a hasher whose Hash returns only when all callers have called it.
type barrierHasher struct{ all *sync.WaitGroup }

func (m barrierHasher) Hash(ctx context.Context, pass secret.String) (string, error) {
	m.all.Done()
	m.all.Wait()
	return plainHasher{}.Hash(ctx, pass)
}

// A call that arrives while an earlier call with the same key is still running is also a repeat.
func TestServer_concurrentRepeatsShowPasswordOnce(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	bob := d.add("bob", operator)
	for name, call := range map[string]func(ctx context.Context) (userID string, shown *string, err error){
		"reset": func(ctx context.Context) (string, *string, error) {
			out, err := d.ResetPassword(ctx, &authv1.ResetPasswordRequest{UserId: bob})
			if err != nil {
				return "", nil, err
			}
			return bob, out.Password, nil
		},
		"create": func(ctx context.Context) (string, *string, error) {
			out, err := d.CreateUser(ctx, &authv1.CreateUserRequest{Username: "eve", Role: operator})
			if err != nil {
				return "", nil, err
			}
			return out.GetUser().GetId(), out.Password, nil
		},
	} {
		var wg, all sync.WaitGroup
		var mu sync.Mutex
		shown := map[string]string{}
		const callers = 6
		all.Add(callers)
		d.Users.Hasher = barrierHasher{&all}
		for range callers {
			wg.Go(func() {
				ctx, _ := d.as("key-of-" + name)
				userID, text, err := call(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if text != nil {
					shown[*text] = userID
				}
			})
		}
		wg.Wait()
		require.Len(t, shown, 1, name)
		for text, userID := range shown {
			require.Equal(t, "hash of "+text, d.account(userID).PasswordHash, name)
		}
	}
}
