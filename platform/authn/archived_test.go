package authn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestScope_Require_archivedProject(t *testing.T) {
	t.Parallel()
	broken := errors.New("auth is down")
	fetched := 0
	fetch := func(_ context.Context, project string) (bool, error) {
		fetched++
		if project == "prj_down" {
			return false, broken
		}
		return project == "prj_old", nil
	}
	admin := &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleAdmin}
	check := func(need authn.Need, c *authn.Caller, project string) error {
		ctx := authn.WithArchived(authn.WithNeed(authn.NewContext(t.Context(), c), need), fetch)
		return authn.ScopeOf(ctx).Require("usr_2", project, "dataset", "ds_1")
	}
	for _, need := range []authn.Need{authn.NeedEdit, authn.NeedManage} {
		require.NoError(t, check(need, admin, "prj_new"))
		require.NoError(t, check(need, admin, ""))
		err := check(need, admin, "prj_old")
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, authn.CodeProjectArchived), "%v", err)
		require.ErrorIs(t, check(need, admin, "prj_down"), broken)
	}
	fetched = 0
	require.NoError(t, check(authn.NeedRead, admin, "prj_old"), "reading is allowed")
	stranger := &authn.Caller{Kind: authn.KindUser, Subject: "usr_3", Role: authn.RoleOperator}
	require.True(t, fault.Is(check(authn.NeedEdit, stranger, "prj_old"), fault.Forbidden))
	require.Zero(t, fetched)
	ctx := authn.WithArchived(authn.WithNeed(authn.NewContext(t.Context(), admin), authn.NeedEdit), nil)
	require.NoError(t, authn.ScopeOf(ctx).Require("usr_2", "prj_old", "dataset", "ds_1"))
}
