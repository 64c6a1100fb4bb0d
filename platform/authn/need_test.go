package authn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func scope(c *authn.Caller, n authn.Need) authn.Scope {
	return authn.ScopeOf(authn.WithNeed(authn.NewContext(context.Background(), c), n))
}

func TestScopeOf_methodNeed(t *testing.T) {
	t.Parallel()
	admin := &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleAdmin}
	ingest := &authn.Caller{Kind: authn.KindIngest, Subject: "run_1", RunID: "run_1"}
	cases := map[string]struct {
		who                   *authn.Caller
		owner, project        string
		reads, edits, manages bool
	}{
		"own":                {operator(), "usr_1", "prj_x", true, true, true},
		"viewer's":           {operator(), "usr_9", "prj_w", true, false, false},
		"editor's":           {operator(), "usr_9", "prj_e", true, true, false},
		"owner's":            {operator(), "usr_9", "prj_a", true, true, true},
		"stranger's":         {operator(), "usr_9", "prj_x", false, false, false},
		"without owner":      {operator(), "", "", false, false, false},
		"admin":              {admin, "usr_9", "prj_x", true, true, true},
		"not a user":         {ingest, "", "", false, false, false},
		"not a user, own id": {ingest, "run_1", "prj_w", false, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.reads, scope(c.who, authn.NeedRead).Sees(c.owner, c.project, "team"))
			for need, met := range map[authn.Need]bool{authn.NeedEdit: c.edits, authn.NeedManage: c.manages} {
				s := scope(c.who, need)
				require.Equal(t, c.reads, s.Sees(c.owner, c.project, "team"), "a higher need does not restrict reading")
				require.Equal(t, met, s.Grants(c.owner, c.project))
				err := s.Require(c.owner, c.project, "job", "job_1")
				require.Equal(t, !met, fault.Is(err, fault.Forbidden), "%v", err)
			}
			none := scope(c.who, authn.NeedNone)
			require.False(t, none.Sees(c.owner, c.project, "all") || none.Grants(c.owner, c.project) || none.Admin,
				"a method that declares no need has no access")
		})
	}
}

func TestScope_Sees_visibleToAll(t *testing.T) {
	t.Parallel()
	require.True(t, scope(operator(), authn.NeedRead).Sees("usr_9", "prj_x", "all"))
	require.True(t, scope(operator(), authn.NeedEdit).Sees("usr_9", "prj_x", "all"))
	require.Error(t, scope(operator(), authn.NeedEdit).Require("usr_9", "prj_x", "job", "job_1"))
	require.False(t, scope(&authn.Caller{Kind: authn.KindNone}, authn.NeedRead).Sees("usr_9", "prj_x", "all"))
}

func TestScopeOf_withoutNeed(t *testing.T) {
	t.Parallel()
	s := authn.ScopeOf(authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleAdmin}))
	require.False(t, s.Admin)
	require.Empty(t, s.UserID)
	require.NotNil(t, s.Projects, "comparing with a NULL array yields NULL")
}
