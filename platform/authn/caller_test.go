package authn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func operator() *authn.Caller {
	return &authn.Caller{
		Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator,
		Projects: []authn.ProjectRole{
			{Project: "prj_w", Role: authn.ProjectViewer},
			{Project: "prj_e", Role: authn.ProjectEditor},
			{Project: "prj_a", Role: authn.ProjectOwner},
		},
	}
}

func TestProjectRights(t *testing.T) {
	t.Parallel()
	admin := &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleAdmin}
	cases := []struct {
		name               string
		caller             *authn.Caller
		project            string
		read, edit, manage bool
	}{
		{"viewer", operator(), "prj_w", true, false, false},
		{"editor", operator(), "prj_e", true, true, false},
		{"owner", operator(), "prj_a", true, true, true},
		{"stranger", operator(), "prj_x", false, false, false},
		{"no project", operator(), "", false, false, false},
		{"admin", admin, "prj_x", true, true, true},
		{"nil caller", nil, "prj_w", false, false, false},
		{"admin role on another kind", &authn.Caller{Kind: authn.KindIngest, Subject: "x", Role: authn.RoleAdmin}, "prj_w", false, false, false},
	}
	for _, c := range cases {
		require.Equal(t, c.read, c.caller.CanReadProject(c.project), c.name)
		require.Equal(t, c.edit, c.caller.CanEditProject(c.project), c.name)
		require.Equal(t, c.manage, c.caller.CanManageProject(c.project), c.name)
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	c := operator()
	require.True(t, c.CanEdit("usr_1", "prj_x"), "users may edit their own rows in someone else's project")
	require.True(t, c.CanRead("usr_9", "prj_w"))
	require.False(t, c.CanEdit("usr_9", "prj_w"))
	require.False(t, c.CanRead("usr_9", ""))
	none := &authn.Caller{Kind: authn.KindNone}
	require.False(t, none.CanRead("", ""), "an empty owner matches no caller")
	require.False(t, (&authn.Caller{Kind: authn.KindUser}).CanRead("", ""))
}

func TestScope(t *testing.T) {
	t.Parallel()
	require.Equal(t, authn.Scope{
		UserID: "usr_1", Projects: []string{"prj_a", "prj_e", "prj_w"}, Granted: []string{"prj_a", "prj_e", "prj_w"},
		TeamsRead: []string{}, TeamsLed: []string{},
	}.WithNeed(authn.NeedRead), operator().Reads())
	admin := &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleAdmin}
	require.True(t, admin.Reads().Admin)

	nothing := authn.Scope{Projects: []string{}, Granted: []string{}, TeamsRead: []string{}, TeamsLed: []string{}}.WithNeed(authn.NeedRead)
	for _, c := range []*authn.Caller{
		nil,
		{Kind: authn.KindNone},
		{Kind: authn.KindIngest, Subject: "run_1", RunID: "run_1"},
		{Kind: authn.KindService, Subject: "jobs", Role: authn.RoleAdmin},
	} {
		require.Equal(t, nothing, c.Reads())
	}
}

func TestCaller_Require(t *testing.T) {
	t.Parallel()
	admin := &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleAdmin}
	require.NoError(t, admin.RequireAdmin())
	require.True(t, fault.Is(operator().RequireAdmin(), fault.Forbidden))
	require.True(t, fault.Is((*authn.Caller)(nil).RequireAdmin(), fault.Unauthenticated))
	require.True(t, fault.Is((&authn.Caller{Kind: authn.KindAgent, Subject: "nod_1"}).RequireAdmin(), fault.Unauthenticated))

	got, err := operator().RequireUser()
	require.NoError(t, err)
	require.Equal(t, "usr_1", got.Subject)
	_, err = (&authn.Caller{Kind: authn.KindNone}).RequireUser()
	require.True(t, fault.Is(err, fault.Unauthenticated))
}
