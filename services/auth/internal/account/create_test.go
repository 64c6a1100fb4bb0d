package account

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
)

func TestServer_CreateUser_generatedPassword(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	in := &authv1.CreateUserRequest{Username: "Bob", Role: operator, Email: new("bob@example.com"), DisplayName: new("Bob B.")}
	out, err := d.CreateUser(d.ctx(), in)
	require.NoError(t, err)
	require.Len(t, out.GetPassword(), 24)
	u := out.GetUser()
	require.Equal(t, []string{"Bob", "operator", "bob@example.com", "Bob B.", "password"},
		[]string{u.GetUsername(), u.GetRole(), u.GetEmail(), u.GetDisplayName(), u.GetLogin()})
	require.True(t, d.clock.Now().Equal(u.GetCreatedAt().AsTime()))
	require.Nil(t, u.GetDisabledAt())
	require.Nil(t, u.GetLastLoginAt())
	require.Equal(t, "hash of "+out.GetPassword(), d.account(u.GetId()).PasswordHash)
	require.Equal(t, 1, d.count(`account WHERE must_change_password`), "the user must change the password, which the admin has seen")
	got, err := d.GetUser(d.ctx(), &authv1.GetUserRequest{UserId: u.GetId()})
	require.NoError(t, err)
	require.True(t, proto.Equal(u, got))
	require.Equal(t, 1, d.count(`audit WHERE action = 'account.create' AND target_id = $1 AND actor_id = 'usr_root'`, u.GetId()))
	require.Zero(t, d.count(`audit WHERE after::text LIKE '%' || $1 || '%'`, out.GetPassword()))
}

func TestServer_CreateUser_givenPassword(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	out, err := d.CreateUser(d.ctx(), &authv1.CreateUserRequest{Username: "bob", Role: admin, Password: new("correct horse")})
	require.NoError(t, err)
	require.Nil(t, out.Password)
	require.Equal(t, "hash of correct horse", d.account(out.GetUser().GetId()).PasswordHash)
	require.Zero(t, d.count(`account WHERE must_change_password`))
}

func TestServer_CreateUser_usernameIgnoresCase(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	d.add("admin", admin)
	for _, name := range []string{"admin", "Admin", "ADMIN", "aDmin"} {
		_, err := d.CreateUser(d.ctx(), &authv1.CreateUserRequest{Username: name, Role: operator})
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "user_exists"), "%s: %v", name, err)
	}
	d.add("administrator", operator)
	require.Equal(t, 2, d.count(`audit`))
	_, err := d.pool.Exec(t.Context(), `INSERT INTO account (id, username, role, password_hash, created_at) VALUES ('usr_x', 'AdMiN', 'operator', '', now())`)
	require.ErrorContains(t, err, "account_username_lower_key", "the index also rejects a direct insert")
}

func TestServer_CreateUser_concurrentSameUsername(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	var wg sync.WaitGroup
	var made atomic.Int32
	for i := range 12 {
		name := []string{"bob", "Bob", "BOB"}[i%3]
		wg.Go(func() {
			_, err := d.CreateUser(d.ctx(), &authv1.CreateUserRequest{Username: name, Role: operator})
			switch {
			case err == nil:
				made.Add(1)
			case !fault.Is(err, fault.Conflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, made.Load())
}

func TestServer_CreateUser_repeatOmitsPassword(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	ctx, _ := d.as("k1")
	in := &authv1.CreateUserRequest{Username: "bob", Role: operator}
	first, err := d.CreateUser(ctx, in)
	require.NoError(t, err)
	require.NotNil(t, first.Password)
	again, err := d.CreateUser(ctx, in)
	require.NoError(t, err)
	require.Nil(t, again.Password)
	require.True(t, proto.Equal(first.GetUser(), again.GetUser()))
	_, err = d.CreateUser(ctx, &authv1.CreateUserRequest{Username: "eve", Role: operator})
	require.True(t, fault.Is(err, fault.Conflict), "same key, another body: %v", err)
	require.Equal(t, 1, d.count(`account`))
	require.Zero(t, d.count(`idempotency WHERE position($1::bytea in idempotency.answer) > 0`, []byte(first.GetPassword())))
}

func TestCreateUserRequest_withoutPassword(t *testing.T) {
	t.Parallel()
	one := &authv1.CreateUserRequest{Username: "bob", Role: operator, Password: new("correct horse")}
	two := &authv1.CreateUserRequest{Username: "bob", Role: operator, Password: new("battery staple")}
	none := &authv1.CreateUserRequest{Username: "bob", Role: operator}
	require.True(t, proto.Equal(withoutPassword(one), withoutPassword(two)))
	require.False(t, proto.Equal(withoutPassword(one), withoutPassword(none)), "a request with a password differs from one without")
	require.Equal(t, "correct horse", one.GetPassword(), "the request itself is unchanged")
}

func TestServer_CreateUser_rejectsNames(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	for _, name := range []string{"a\u202eb", "a\u200bb", "a\nb", "\x00", " a", "a ", "a\u0007", "a\u00a0b", "a\u3164", "\u2800", "a\ufe0fb", "a\u034fb", ""} {
		_, err := d.CreateUser(d.ctx(), &authv1.CreateUserRequest{Username: "bob", Role: operator, DisplayName: &name})
		require.True(t, fault.Is(err, fault.Invalid), "%q: %v", name, err)
		require.Equal(t, []any{"display_name"}, fault.From(err).Fields[0].Loc)
	}
	for _, name := range []string{nobody, strings.ToUpper(nobody)} {
		_, err := d.CreateUser(d.ctx(), &authv1.CreateUserRequest{Username: name, Role: operator})
		require.True(t, fault.Is(err, fault.Invalid), "%q: %v", name, err)
		require.Equal(t, []any{"username"}, fault.From(err).Fields[0].Loc)
	}
	require.Zero(t, d.count(`account`))
	// In UTF-8, some of these letters end with a byte that is a space in Latin-1.
	for _, name := range []string{"Zoë 李", "O'Brien", "x", "Nicolà", "Å", "à la"} {
		require.NoError(t, CheckName("display_name", name))
	}
}

func TestServer_CreateUser_busyHasherOrProvider(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	in := &authv1.CreateUserRequest{Username: "bob", Role: operator}
	d.Users.Hasher = plainHasher{err: password.ErrBusy}
	_, err := d.CreateUser(d.ctx(), in)
	require.True(t, fault.Is(err, fault.Unavailable) && fault.From(err).RetryAfter > 0, "%v", err)
	d.Users.Hasher, d.Users.Issuer = plainHasher{}, issuer
	_, err = d.CreateUser(d.ctx(), in)
	require.True(t, fault.HasCode(err, "password_login_off"), "%v", err)
	require.Zero(t, d.count(`account`))
}

func TestServer_ListUsers(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	for _, name := range []string{"carol", "Bob", "alice", "Dave"} {
		d.add(name, operator)
	}
	d.exec(`UPDATE account SET email = 'Team-X@example.com', display_name = 'A_%b' WHERE username = 'carol'`)
	for _, c := range []struct {
		q             string
		limit, offset int32
		want, total   string
		more          bool
	}{
		{"", 50, 0, "alice Bob carol Dave", "4", false},
		{"", 2, 1, "Bob carol", "4", true},
		{"", 2, 2, "carol Dave", "4", false},
		{"", 2, 9, "", "4", false},
		{"A", 50, 0, "alice carol Dave", "3", false},
		{"team-x", 50, 0, "carol", "1", false},
		{"_%", 50, 0, "carol", "1", false},
		{"zzz", 50, 0, "", "0", false},
	} {
		ctx, h := d.as("")
		out, err := d.ListUsers(ctx, &authv1.ListUsersRequest{Q: &c.q, Limit: &c.limit, Offset: &c.offset})
		require.NoError(t, err)
		var names []string
		for _, u := range out.GetUsers() {
			names = append(names, u.GetUsername())
		}
		require.Equal(t, c.want, strings.Join(names, " "), c.q)
		require.Equal(t, []string{c.total}, h.Get("x-service-total"), c.q)
		require.Equal(t, c.more, len(h.Get("x-service-more")) > 0, c.q)
	}
	for _, limit := range []int32{0, 501} {
		_, err := d.ListUsers(d.ctx(), &authv1.ListUsersRequest{Limit: &limit})
		require.True(t, fault.Is(err, fault.Invalid))
	}
}

func TestServer_unknownUser(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	for name, call := range map[string]func(userID string) error{
		"get":    func(u string) error { _, err := d.GetUser(d.ctx(), &authv1.GetUserRequest{UserId: u}); return err },
		"update": func(u string) error { return d.update(&authv1.UpdateUserRequest{UserId: u, Role: admin}) },
		"reset": func(u string) error {
			_, err := d.ResetPassword(d.ctx(), &authv1.ResetPasswordRequest{UserId: u})
			return err
		},
		"owned": func(u string) error { _, err := d.ListOwned(d.ctx(), &authv1.ListOwnedRequest{UserId: u}); return err },
		"transfer": func(u string) error {
			_, err := d.TransferOwned(d.ctx(), &authv1.TransferOwnedRequest{UserId: u, ToUserId: "usr_01k00000000000000000000098"})
			return err
		},
	} {
		require.True(t, fault.Is(call(nobody), fault.Absent), name)
		for _, bad := range []string{"", "bob", "usr_", "job_01k00000000000000000000099", "usr_01K00000000000000000000099"} {
			err := call(bad)
			require.True(t, fault.Is(err, fault.Invalid), "%s %q: %v", name, bad, err)
			require.Equal(t, []any{"user_id"}, fault.From(err).Fields[0].Loc)
		}
	}
}
