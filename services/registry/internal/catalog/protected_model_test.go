package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
)

// A model from a protected run protects the runs that use it. To use such a model, a user must be allowed to change
// every dataset that protects it; seeing the model is not enough.
func TestResolveBindings_protectedModel(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.dataset("one", "all", true, dataset.StateReady)
	d.dataset("two", "all", true, dataset.StateReady)
	d.model("kept", model.StatusReady)
	d.model("unknown", model.StatusReady)
	_, err := d.Pool.Exec(t.Context(), `UPDATE model SET visibility = 'all'`)
	require.NoError(t, err)
	_, err = d.Pool.Exec(t.Context(), `UPDATE model_version SET protected = true,
		protected_datasets = CASE model_id WHEN 'mdl_kept' THEN '{ds_one,ds_two}'::text[] ELSE '{}' END`)
	require.NoError(t, err)
	_, err = d.Pool.Exec(t.Context(), `UPDATE dataset SET project_id = 'prj_2', owner_id = 'usr_2' WHERE id = 'ds_two'`)
	require.NoError(t, err)
	both := authn.ProjectRole{Project: "prj_2", Role: authn.ProjectEditor}
	resolve := func(c *authn.Caller, ref string) *registrypeerv1.ResolveBindingsResponse {
		out, err := d.ResolveBindings(authn.NewContext(t.Context(), c), &registrypeerv1.ResolveBindingsRequest{Model: ref})
		require.NoError(t, err)
		return out
	}
	for name, c := range map[string]struct {
		caller *authn.Caller
		ref    string
		may    bool
	}{
		"editor of one":         {&authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator, Projects: []authn.ProjectRole{inTeam(authn.ProjectEditor)}}, "mdl/team/kept@1", false},
		"editor of both":        {&authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator, Projects: []authn.ProjectRole{both}}, "mdl/team/kept@1", true},
		"stranger":              {&authn.Caller{Kind: authn.KindUser, Subject: "usr_9", Role: authn.RoleOperator}, "mdl/team/kept@1", false},
		"datasets not recorded": {&authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator}, "mdl/team/unknown@1", false},
		"admin, not recorded":   {&authn.Caller{Kind: authn.KindUser, Subject: "usr_0", Role: authn.RoleAdmin}, "mdl/team/unknown@1", true},
	} {
		out := resolve(c.caller, c.ref)
		require.Equal(t, c.may, out.GetModel() != nil, name)
		require.Equal(t, c.may, out.GetProtected(), name)
		if !c.may {
			require.Equal(t, []string{c.ref}, out.GetUnreadable(), name)
		}
	}
	require.Equal(t, []string{"ds_one", "ds_two"}, resolve(&authn.Caller{
		Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator, Projects: []authn.ProjectRole{both},
	}, "mdl/team/kept@1").GetProtectedDatasets())

	// A run that reads a dataset and a model that was made from it names the dataset once.
	out, err := d.ResolveBindings(authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_0", Role: authn.RoleAdmin}),
		&registrypeerv1.ResolveBindingsRequest{Datasets: map[string]string{"train": "ds/team/two@v1", "eval": "ds/team/two@v1"}, Model: "mdl/team/kept@1"})
	require.NoError(t, err)
	require.Equal(t, []string{"ds_one", "ds_two"}, out.GetProtectedDatasets())
}
