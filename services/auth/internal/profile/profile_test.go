package profile

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func (d *harness) update(in *authv1.UpdateProfileRequest) error {
	_, err := d.UpdateProfile(d.ctx(), in)
	return err
}

func TestServer_UpdateProfile(t *testing.T) {
	t.Parallel()
	d := open(t)
	got, err := d.GetProfile(d.ctx(), &authv1.GetProfileRequest{})
	require.NoError(t, err)
	require.True(t, proto.Equal(&authv1.Profile{Username: "bob", Role: "operator"}, got), "%v", got)
	in := &authv1.UpdateProfileRequest{
		DisplayName: new("Bob B."), Email: new("b@example.com"), Locale: new("zh-CN"), Tz: new("Europe/Berlin"),
		Theme: authv1.Theme_THEME_DARK, DefaultProject: new("team"),
	}
	want := &authv1.Profile{
		Username: "bob", Role: "operator", DisplayName: new("Bob B."), Email: new("b@example.com"), Locale: new("zh-CN"),
		Tz: new("Europe/Berlin"), Theme: new("dark"), DefaultProject: new("team"),
	}
	got, err = d.UpdateProfile(d.ctx(), in)
	require.NoError(t, err)
	require.True(t, proto.Equal(want, got), "%v", got)
	require.NoError(t, d.update(in))
	require.NoError(t, d.update(&authv1.UpdateProfileRequest{}))
	require.Equal(t, 1, d.count(`audit`), "an update without a change is not audited")
	require.Equal(t, 1, d.count(`audit WHERE action = 'profile.update' AND target_id = $1 AND actor_id = $1 AND after->>'tz' = 'Europe/Berlin'
		AND before->>'tz' IS NULL`, bob))
	require.NoError(t, d.update(&authv1.UpdateProfileRequest{Theme: authv1.Theme_THEME_SYSTEM}))
	got, err = d.GetProfile(d.ctx(), &authv1.GetProfileRequest{})
	require.NoError(t, err)
	want.Theme = new("system")
	require.True(t, proto.Equal(want, got), "other fields stay unchanged: %v", got)
	require.Equal(t, 1, d.count(`account WHERE display_name IS NULL AND username = 'eve'`))
}

func TestServer_UpdateProfile_emptyTextRemoves(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.NoError(t, d.update(&authv1.UpdateProfileRequest{DisplayName: new("Bob B."), Email: new("b@example.com"), Tz: new("Europe/Berlin")}))
	for range 2 {
		got, err := d.UpdateProfile(d.ctx(), &authv1.UpdateProfileRequest{DisplayName: new(""), Email: new("")})
		require.NoError(t, err)
		require.True(t, proto.Equal(&authv1.Profile{Username: "bob", Role: "operator", Tz: new("Europe/Berlin")}, got), "%v", got)
	}
	require.Equal(t, 1, d.count(`account WHERE username = 'bob' AND display_name IS NULL AND email IS NULL`))
	require.Equal(t, 2, d.count(`audit`), "nothing is left to remove, so the repeated update is not audited")
	d.exec(`UPDATE account SET password_hash = ''`)
	require.NoError(t, d.update(&authv1.UpdateProfileRequest{Email: new("")}), "the provider set none")
	d.exec(`UPDATE account SET email = 'b@example.com'`)
	err := d.update(&authv1.UpdateProfileRequest{Email: new("")})
	require.True(t, fault.HasCode(err, "email_of_provider"), "%v", err)
}

func TestCheckTZ(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "GMT", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince", "EST5EDT", "Asia/Kolkata"} {
		require.NoError(t, checkTZ(name), name)
	}
	for _, name := range []string{
		"", "Local", "localtime", "posixrules", "europe/berlin", "Europe/Nowhere", "Europe", "Europe/", "/Europe/Berlin", "../Europe/Berlin",
		"Europe/../Europe/Berlin", "Europe/Berlin\x00", "Europe/Berlin ", "+01:00", "CEST", strings.Repeat("A", 64),
	} {
		err := checkTZ(name)
		require.True(t, fault.Is(err, fault.Invalid), "%q: %v", name, err)
		require.Equal(t, []any{"tz"}, fault.From(err).Fields[0].Loc)
	}
}

func TestServer_UpdateProfile_defaultProjectMustBeReadable(t *testing.T) {
	t.Parallel()
	d := open(t)
	hidden, none := d.update(&authv1.UpdateProfileRequest{DefaultProject: new("hidden")}), d.update(&authv1.UpdateProfileRequest{DefaultProject: new("nowhere")})
	require.True(t, fault.Is(hidden, fault.Refused) && fault.Is(none, fault.Refused), "%v, %v", hidden, none)
	require.Equal(t, strings.ReplaceAll(fault.From(hidden).Text(), "hidden", "nowhere"), fault.From(none).Text())
	for _, name := range []string{"open", "prj_open", "team"} {
		require.NoError(t, d.update(&authv1.UpdateProfileRequest{DefaultProject: &name}))
	}
	out := caller()
	out.Projects = nil
	got, err := d.GetProfile(d.as(out), &authv1.GetProfileRequest{})
	require.NoError(t, err)
	require.Nil(t, got.DefaultProject, "a former member does not see the project")
	cut := caller()
	cut.Projects, cut.ProjectsCut = nil, true
	_, err = d.UpdateProfile(d.as(cut), &authv1.UpdateProfileRequest{DefaultProject: new("hidden")})
	require.True(t, fault.Is(err, fault.Refused))
	d.exec(`INSERT INTO membership (project_id, account_id, role) VALUES ('prj_hidden', $1, 'viewer')`, bob)
	got, err = d.UpdateProfile(d.as(cut), &authv1.UpdateProfileRequest{DefaultProject: new("hidden")})
	require.NoError(t, err, "a membership that was cut from the caller identity counts")
	require.Equal(t, "hidden", got.GetDefaultProject())
}

func TestServer_UpdateProfile_invalid(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.True(t, fault.Is(d.update(&authv1.UpdateProfileRequest{DisplayName: new("a\u202eb")}), fault.Invalid))
	require.True(t, fault.Is(d.update(&authv1.UpdateProfileRequest{Tz: new("Mars/Base")}), fault.Invalid))
	d.exec(`UPDATE account SET password_hash = '', email = 'b@example.com'`)
	err := d.update(&authv1.UpdateProfileRequest{Email: new("c@example.com")})
	require.True(t, fault.HasCode(err, "email_of_provider"), "%v", err)
	require.NoError(t, d.update(&authv1.UpdateProfileRequest{Email: new("b@example.com"), Theme: authv1.Theme_THEME_LIGHT}))
}

func TestServer_requiresUser(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []*authn.Caller{{Kind: authn.KindNone}, {Kind: authn.KindIngest, Subject: bob}, {Kind: authn.KindService, Subject: "jobs"}} {
		for name, call := range map[string]func(context.Context) error{
			"get": func(ctx context.Context) error { _, err := d.GetProfile(ctx, &authv1.GetProfileRequest{}); return err },
			"update": func(ctx context.Context) error {
				_, err := d.UpdateProfile(ctx, &authv1.UpdateProfileRequest{})
				return err
			},
			"password": func(ctx context.Context) error {
				_, err := d.ChangePassword(ctx, &authv1.ChangePasswordRequest{})
				return err
			},
			"list": func(ctx context.Context) error {
				_, err := d.ListSessions(ctx, &authv1.ListSessionsRequest{})
				return err
			},
			"revoke": func(ctx context.Context) error {
				_, err := d.RevokeSession(ctx, &authv1.RevokeSessionRequest{SessionId: mine})
				return err
			},
			"others": func(ctx context.Context) error {
				_, err := d.RevokeOtherSessions(ctx, &authv1.RevokeOtherSessionsRequest{})
				return err
			},
		} {
			require.True(t, fault.Is(call(d.as(c)), fault.Unauthenticated), "%s must reject a caller of kind %s", name, c.Kind)
		}
	}
}
