package access_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// projects holds the existing projects by key.
type projects map[string]access.Project

func (p projects) Project(_ context.Context, key string) (*access.Project, error) {
	if key == "down" {
		return nil, errors.New("down")
	}
	found, ok := p[key]
	if !ok {
		return nil, nil //nolint:nilnil // an unknown project is not an error
	}
	return &found, nil
}

func TestOwnerFor(t *testing.T) {
	t.Parallel()
	known := projects{
		"default": {ID: "prj_0", Key: "default", Visibility: "all", VisibilityVersion: 4},
		"team":    {ID: "prj_1", Key: "team", Visibility: "team", VisibilityVersion: 4},
		"shown":   {ID: "prj_2", Key: "shown", Visibility: "all"},
		"old":     {ID: "prj_1", Key: "old", Visibility: "team", Archived: true},
	}
	user := func(role string, in ...authn.ProjectRole) *authn.Caller {
		return &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Username: "ann", Role: role, Projects: in}
	}
	team := func(role string) authn.ProjectRole { return authn.ProjectRole{Project: "prj_1", Role: role} }
	operator := user(authn.RoleOperator)
	cases := map[string]struct {
		caller *authn.Caller
		key    string
		want   string
		kind   fault.Kind
	}{
		"no project":       {operator, "", "prj_0", ""},
		"default project":  {operator, "default", "prj_0", ""},
		"editor":           {user(authn.RoleOperator, team(authn.ProjectEditor)), "team", "prj_1", ""},
		"admin":            {user(authn.RoleAdmin), "team", "prj_1", ""},
		"viewer":           {user(authn.RoleOperator, team(authn.ProjectViewer)), "team", "", fault.Forbidden},
		"stranger":         {operator, "team", "", fault.Refused},
		"visible to all":   {operator, "shown", "", fault.Forbidden},
		"archived project": {user(authn.RoleOperator, team(authn.ProjectOwner)), "old", "", fault.Conflict},
		"hidden, archived": {operator, "old", "", fault.Refused},
		"unknown project":  {user(authn.RoleAdmin), "none", "", fault.Refused},
		"anonymous":        {&authn.Caller{}, "default", "", fault.Unauthenticated},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := access.OwnerFor(adding(t, c.caller), known, c.key)
			if c.kind != "" {
				require.True(t, fault.Is(err, c.kind), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{c.want, "usr_1", "ann"}, []string{got.ProjectID, got.UserID, got.UserName})
			require.EqualValues(t, 4, got.VisibilityVersion, "the owner carries the version of the visibility")
		})
	}
	_, err := access.OwnerFor(adding(t, operator), known, "down")
	require.ErrorContains(t, err, "look up project down")
	hidden, absent := fault.From(mustFail(t, operator, known, "team")), fault.From(mustFail(t, operator, known, "none"))
	require.Equal(t, hidden.Code, absent.Code, "a hidden project looks like a missing one")
}

// adding returns the context in which the given caller calls a method that requires the right to edit.
func adding(t *testing.T, caller *authn.Caller) context.Context {
	t.Helper()
	return authn.WithNeed(authn.NewContext(t.Context(), caller), authn.NeedEdit)
}

// A viewer may add rows through a method that requires only the right to read. No caller may add rows through a
// method with NeedNone.
func TestOwnerFor_usesNeedOfMethod(t *testing.T) {
	t.Parallel()
	known := projects{"team": {ID: "prj_1", Key: "team", Visibility: "team"}}
	viewer := &authn.Caller{
		Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator,
		Projects: []authn.ProjectRole{{Project: "prj_1", Role: authn.ProjectViewer}},
	}
	ctx := authn.NewContext(t.Context(), viewer)
	_, err := access.OwnerFor(authn.WithNeed(ctx, authn.NeedRead), known, "team")
	require.NoError(t, err)
	_, err = access.OwnerFor(authn.WithNeed(ctx, authn.NeedEdit), known, "team")
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = access.OwnerFor(authn.WithNeed(ctx, authn.NeedNone), known, "team")
	require.True(t, fault.Is(err, fault.Refused), "%v", err)
}

func mustFail(t *testing.T, caller *authn.Caller, known projects, key string) error {
	t.Helper()
	_, err := access.OwnerFor(adding(t, caller), known, key)
	require.Error(t, err)
	return err
}

func TestArgs(t *testing.T) {
	t.Parallel()
	scope := authn.Scope{UserID: "usr_1", Projects: []string{"prj_1"}}
	require.Empty(t, cmp.Diff([]any{false, "usr_1", []string{"prj_1"}, "x", 7}, access.Args(scope, "x", 7)))
	require.True(t, access.ServiceScope().Admin)
	require.NotNil(t, access.ServiceScope().Projects, "a null array would make the comparison in Postgres null")
}
