package auth_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth"
)

// userClients holds clients of the user and profile services, connected as the gateway is.
type userClients struct {
	*harness

	users   authv1.UserServiceClient
	profile authv1.ProfileServiceClient
	// root is the access token of the first admin.
	root string
}

func newUserClients(t *testing.T) *userClients {
	t.Helper()
	h := open(t)
	conn, err := h.bus.As("gateway").Dial(auth.Name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	p := &userClients{harness: h, users: authv1.NewUserServiceClient(conn), profile: authv1.NewProfileServiceClient(conn)}
	p.root, _, err = h.login("admin", password)
	require.NoError(t, err)
	return p
}

const secondPassword = "second best horse"

// addAdmin creates a second admin with a fixed password and returns the admin's id.
func (p *userClients) addAdmin() string {
	p.t.Helper()
	given := secondPassword
	out, err := p.users.CreateUser(mustAs(p.harness, p.root), &authv1.CreateUserRequest{
		Username: "bob", Role: authv1.UserRole_USER_ROLE_ADMIN, Password: &given,
	})
	require.NoError(p.t, err)
	return out.GetUser().GetId()
}

func (p *userClients) update(in *authv1.UpdateUserRequest) error {
	_, err := p.users.UpdateUser(mustAs(p.harness, p.root), in)
	return err
}

// list makes a call that needs the admin role.
func (p *userClients) list(token string) error {
	_, err := p.users.ListUsers(mustAs(p.harness, token), &authv1.ListUsersRequest{})
	return err
}

func TestUpdateUser_disabledEffectiveAtNextCall(t *testing.T) {
	t.Parallel()
	p := newUserClients(t)
	bob := p.addAdmin()
	token, refresh, err := p.login("bob", secondPassword)
	require.NoError(t, err)
	disabled := true
	require.NoError(t, p.update(&authv1.UpdateUserRequest{UserId: bob, Disabled: &disabled}))
	require.False(t, p.accessWorks(token))
	_, _, err = p.refresh(refresh)
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	_, _, err = p.login("bob", secondPassword)
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	disabled = false
	require.NoError(t, p.update(&authv1.UpdateUserRequest{UserId: bob, Disabled: &disabled}))
	require.False(t, p.accessWorks(token), "ended sessions stay ended")
	_, _, err = p.refresh(refresh)
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	_, _, err = p.login("bob", secondPassword)
	require.NoError(t, err)
}

func TestUpdateUser_demotionEffectiveAtNextCall(t *testing.T) {
	t.Parallel()
	p := newUserClients(t)
	bob := p.addAdmin()
	token, _, err := p.login("bob", secondPassword)
	require.NoError(t, err)
	require.NoError(t, p.list(token))
	require.NoError(t, p.update(&authv1.UpdateUserRequest{UserId: bob, Role: authv1.UserRole_USER_ROLE_OPERATOR}))
	require.True(t, p.accessWorks(token), "the user stays signed in")
	require.True(t, fault.Is(p.list(token), fault.Forbidden))
}

func TestResetPassword_endsSessionsAndForcesChange(t *testing.T) {
	t.Parallel()
	p := newUserClients(t)
	bob := p.addAdmin()
	token, refresh, err := p.login("bob", secondPassword)
	require.NoError(t, err)
	ctx := metadata.AppendToOutgoingContext(mustAs(p.harness, p.root), "idempotency-key", "k1")
	out, err := p.users.ResetPassword(ctx, &authv1.ResetPasswordRequest{UserId: bob})
	require.NoError(t, err)
	require.False(t, p.accessWorks(token))
	_, _, err = p.refresh(refresh)
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	_, _, err = p.login("bob", secondPassword)
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	again, err := p.users.ResetPassword(ctx, &authv1.ResetPasswordRequest{UserId: bob})
	require.NoError(t, err)
	require.Nil(t, again.Password)

	token, _, err = p.login("bob", out.GetPassword())
	require.NoError(t, err, "the password of the first response is valid")
	require.True(t, fault.Is(p.list(token), fault.Forbidden), "a temporary password must be changed first")
	_, err = p.profile.ChangePassword(mustAs(p.harness, token), &authv1.ChangePasswordRequest{CurrentPassword: out.GetPassword(), NewPassword: "third best horse"})
	require.NoError(t, err)
	token, _, err = p.login("bob", "third best horse")
	require.NoError(t, err)
	require.NoError(t, p.list(token))
}

func TestChangePassword_onlyCallingSessionRefreshes(t *testing.T) {
	t.Parallel()
	p := newUserClients(t)
	p.addAdmin()
	other, otherRefresh, err := p.login("bob", secondPassword)
	require.NoError(t, err)
	token, refresh, err := p.login("bob", secondPassword)
	require.NoError(t, err)
	change := func(present, next string) error {
		_, err := p.profile.ChangePassword(mustAs(p.harness, token), &authv1.ChangePasswordRequest{CurrentPassword: present, NewPassword: next})
		return err
	}
	require.True(t, fault.Is(change(secondPassword, "short"), fault.Invalid), "a short password is rejected")
	require.True(t, fault.Is(change("not it at all", "third best horse"), fault.Refused))
	require.True(t, p.accessWorks(token))
	require.NoError(t, change(secondPassword, "third best horse"))
	require.False(t, p.accessWorks(token))
	require.False(t, p.accessWorks(other))
	_, _, err = p.refresh(otherRefresh)
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	token, _, err = p.refresh(refresh)
	require.NoError(t, err)
	require.NoError(t, p.list(token))
	sessions, err := p.profile.ListSessions(mustAs(p.harness, token), &authv1.ListSessionsRequest{})
	require.NoError(t, err)
	require.Len(t, sessions.GetSessions(), 1)
	require.True(t, sessions.GetSessions()[0].GetCurrent())
}

func TestCreateUser_invalid(t *testing.T) {
	t.Parallel()
	p := newUserClients(t)
	ctx := mustAs(p.harness, p.root)
	short, email, long := "elevenchars", "not an address", "x"
	for len(long) <= 128 {
		long += long
	}
	operator := authv1.UserRole_USER_ROLE_OPERATOR
	for name, in := range map[string]*authv1.CreateUserRequest{
		"no username":      {Role: operator},
		"space":            {Username: "bob ", Role: operator},
		"Cyrillic letter":  {Username: "аdmin", Role: operator},
		"looks like an id": {Username: "usr_01k00000000000000000000001", Role: operator},
		"zero byte":        {Username: "bob\x00", Role: operator},
		"too long":         {Username: long, Role: operator},
		"no role":          {Username: "bob"},
		"short password":   {Username: "bob", Role: operator, Password: &short},
		"invalid email":    {Username: "bob", Role: operator, Email: &email},
	} {
		_, err := p.users.CreateUser(ctx, in)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
	part := "a\x00b"
	_, err := p.users.ListUsers(ctx, &authv1.ListUsersRequest{Q: &part})
	require.True(t, fault.Is(err, fault.Invalid) || fault.Is(err, fault.Refused), "%v", err)
}

func TestUserService_adminsOnly(t *testing.T) {
	t.Parallel()
	p := newUserClients(t)
	bob := p.addAdmin()
	token, _, err := p.login("bob", secondPassword)
	require.NoError(t, err)
	require.NoError(t, p.update(&authv1.UpdateUserRequest{UserId: bob, Role: authv1.UserRole_USER_ROLE_OPERATOR}))
	ctx, anonymous := mustAs(p.harness, token), mustAs(p.harness, "")
	_, err = p.users.GetUser(ctx, &authv1.GetUserRequest{UserId: bob})
	require.True(t, fault.Is(err, fault.Forbidden), "operators must not read even their own account: %v", err)
	_, err = p.users.GetUser(anonymous, &authv1.GetUserRequest{UserId: bob})
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	_, err = p.profile.GetProfile(ctx, &authv1.GetProfileRequest{})
	require.NoError(t, err)
	_, err = p.profile.GetProfile(anonymous, &authv1.GetProfileRequest{})
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
}
