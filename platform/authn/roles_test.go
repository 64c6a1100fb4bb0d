package authn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
)

func TestCaller_WithAllRoles_fetchesOnlyTruncatedRoles(t *testing.T) {
	t.Parallel()
	fetched := []string{}
	fetch := func(_ context.Context, userID string) ([]authn.ProjectRole, error) {
		fetched = append(fetched, userID)
		if userID == "usr_down" {
			return nil, errors.New("auth is down")
		}
		return []authn.ProjectRole{{Project: "prj_far", Role: authn.ProjectOwner}}, nil
	}
	one := []authn.ProjectRole{{Project: "prj_1", Role: authn.ProjectViewer}}
	for name, c := range map[string]*authn.Caller{
		"complete":   {Kind: authn.KindUser, Subject: "usr_1", Projects: one},
		"not a user": {Kind: authn.KindIngest, Subject: "usr_1", RunID: "run_1", ProjectsCut: true, Projects: one},
		"nil caller": nil,
	} {
		got, err := c.WithAllRoles(t.Context(), fetch)
		require.NoError(t, err, name)
		require.Same(t, c, got, name)
	}
	require.Empty(t, fetched)

	cut := &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator, ProjectsCut: true, Projects: one}
	got, err := cut.WithAllRoles(t.Context(), fetch)
	require.NoError(t, err)
	require.True(t, got.CanManageProject("prj_far"))
	require.False(t, got.CanReadProject("prj_1"), "fetched roles replace those of the token")
	require.False(t, got.ProjectsCut)
	require.True(t, cut.CanReadProject("prj_1"), "the original caller is not modified")
	same, err := cut.WithAllRoles(t.Context(), nil)
	require.NoError(t, err)
	require.Same(t, cut, same)
	cut.Subject = "usr_down"
	_, err = cut.WithAllRoles(t.Context(), fetch)
	require.ErrorContains(t, err, "auth is down")
	require.Equal(t, []string{"usr_1", "usr_down"}, fetched)
}
