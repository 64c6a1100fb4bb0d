package access_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestOwner_permissions(t *testing.T) {
	t.Parallel()
	user := func(subject, role string, projects ...authn.ProjectRole) *authn.Caller {
		return &authn.Caller{Kind: authn.KindUser, Subject: subject, Role: role, Projects: projects}
	}
	in := func(role string) authn.ProjectRole { return authn.ProjectRole{Project: "prj_1", Role: role} }
	cases := map[string]struct {
		caller           *authn.Caller
		team, all, edits bool
	}{
		"owner":     {user("usr_1", authn.RoleOperator), true, true, true},
		"stranger":  {user("usr_2", authn.RoleOperator), false, true, false},
		"viewer":    {user("usr_2", authn.RoleOperator, in(authn.ProjectViewer)), true, true, false},
		"editor":    {user("usr_2", authn.RoleOperator, in(authn.ProjectEditor)), true, true, true},
		"elsewhere": {user("usr_2", authn.RoleOperator, authn.ProjectRole{Project: "prj_2", Role: authn.ProjectOwner}), false, true, false},
		"admin":     {user("usr_3", authn.RoleAdmin), true, true, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := access.Owner{UserID: "usr_1", ProjectID: "prj_1", Visibility: "team"}
			require.Equal(t, c.team, row.Seen(c.caller.Reads()))
			require.Equal(t, c.edits, row.Require(edits(c.caller), "dataset", "ds_1") == nil)
			require.True(t, c.edits || fault.Is(row.Require(edits(c.caller), "dataset", "ds_1"), fault.Forbidden))
			row.Visibility = "all"
			require.Equal(t, c.all, row.Seen(c.caller.Reads()))
		})
	}
}

// edits returns the caller's scope in a method with NEED_EDIT.
func edits(c *authn.Caller) authn.Scope {
	return authn.ScopeOf(authn.WithNeed(authn.NewContext(context.Background(), c), authn.NeedEdit))
}
