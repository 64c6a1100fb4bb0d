package deployment

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// method is a service method that acts on a deployment. On every call, the function call first creates what the method
// needs.
type method struct {
	writes bool
	call   func(d *serverHarness, ctx context.Context, deploymentID string) error
}

func methods() map[string]method {
	return map[string]method{
		"GetDeployment": {false, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.GetDeployment(ctx, &registryv1.GetDeploymentRequest{DeploymentId: at})
			return err
		}},
		"ListDeploymentEvents": {false, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.ListDeploymentEvents(ctx, &registryv1.ListDeploymentEventsRequest{DeploymentId: at})
			return err
		}},
		"ListRevisions": {false, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.ListRevisions(ctx, &registryv1.ListRevisionsRequest{DeploymentId: at})
			return err
		}},
		"GetRevision": {false, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.GetRevision(ctx, &registryv1.GetRevisionRequest{DeploymentId: at, Number: d.candidate().Number})
			return err
		}},
		"ListDeploymentTokens": {false, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.ListDeploymentTokens(ctx, &registryv1.ListDeploymentTokensRequest{DeploymentId: at})
			return err
		}},
		"CreateRevision": {true, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.CreateRevision(ctx, &registryv1.CreateRevisionRequest{DeploymentId: at, Source: d.create().GetSource()})
			return err
		}},
		"PromoteRevision": {true, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.PromoteRevision(ctx, &registryv1.PromoteRevisionRequest{DeploymentId: at, Number: d.readyRevision().Number})
			return err
		}},
		"StopRevision": {true, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.StopRevision(ctx, &registryv1.StopRevisionRequest{DeploymentId: at, Number: d.candidate().Number})
			return err
		}},
		"UpdateDeployment": {true, func(d *serverHarness, ctx context.Context, at string) error {
			text := "what it is for"
			_, err := d.UpdateDeployment(ctx, &registryv1.UpdateDeploymentRequest{DeploymentId: at, Description: &text})
			return err
		}},
		"SuspendDeployment": {true, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: at})
			return err
		}},
		"ResumeDeployment": {true, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.ResumeDeployment(ctx, &registryv1.ResumeDeploymentRequest{DeploymentId: at})
			return err
		}},
		"RollbackDeployment": {true, func(d *serverHarness, ctx context.Context, at string) error {
			to := d.promotedRevision().Number
			_, err := d.RollbackDeployment(ctx, &registryv1.RollbackDeploymentRequest{DeploymentId: at, ToRevision: &to})
			return err
		}},
		"StartRevision": {true, func(d *serverHarness, ctx context.Context, at string) error {
			r := d.candidate()
			_, err := d.harness.Stop(d.ctx, d.d.ID, r.Number)
			require.NoError(d.t, err)
			_, err = d.StartRevision(ctx, &registryv1.StartRevisionRequest{DeploymentId: at, Number: r.Number})
			return err
		}},
		"CreateDeploymentToken": {true, func(d *serverHarness, ctx context.Context, at string) error {
			_, err := d.CreateDeploymentToken(ctx, &registryv1.CreateDeploymentTokenRequest{DeploymentId: at, Name: "ci"})
			return err
		}},
		"RevokeDeploymentToken": {true, func(d *serverHarness, ctx context.Context, at string) error {
			token, _ := d.mint("ci")
			_, err := d.RevokeDeploymentToken(ctx, &registryv1.RevokeDeploymentTokenRequest{DeploymentId: at, TokenId: token.ID})
			return err
		}},
	}
}

func TestServer_rightsPerMethod(t *testing.T) {
	t.Parallel()
	people := map[string]struct {
		who          *authn.Caller
		sees, writes bool
	}{
		"owner":                      {owner(), true, true},
		"owner without project role": {person("usr_1", authn.RoleOperator), true, true},
		"editor":                     {editor(), true, true},
		"viewer":                     {viewer(), true, false},
		"no role":                    {stranger(), false, false},
		"owner of another project":   {person("usr_4", authn.RoleOperator, authn.ProjectRole{Project: "prj_2", Role: authn.ProjectOwner}), false, false},
		"admin":                      {admin(), true, true},
		"anonymous":                  {&authn.Caller{}, false, false},
		"deployment token":           {&authn.Caller{Kind: authn.KindDeployment, Subject: "usr_1", Role: authn.RoleAdmin}, false, false},
	}
	d := newServerHarness(t)
	const unknown = "dep_01k00000000000000000000077"
	for who, p := range people {
		for name, m := range methods() {
			ctx, _ := as(t, p.who, "")
			err := m.call(d, ctx, d.d.ID)
			switch {
			case !p.sees:
				absent := m.call(d, ctx, unknown)
				require.True(t, fault.Is(err, fault.Absent), "%s of %s: %v", name, who, err)
				hidden := strings.ReplaceAll(fault.From(err).Text(), d.d.ID, unknown)
				require.Equal(t, fault.From(absent).Text(), hidden, "a hidden and a missing deployment give the same error")
				require.Equal(t, fault.From(absent).Code, fault.From(err).Code)
			case m.writes && !p.writes:
				require.True(t, fault.HasCode(err, "not_owner") && fault.Is(err, fault.Forbidden), "%s of %s: %v", name, who, err)
			case name == "CreateRevision" && who == "owner without project role":
				require.NoError(t, err, "the caller owns the model too")
			default:
				require.NoError(t, err, "%s of %s", name, who)
			}
		}
	}
}

func TestServer_rejectedCallWritesNothing(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	for _, who := range []*authn.Caller{viewer(), stranger()} {
		for name, m := range methods() {
			if !m.writes || slices.Contains([]string{"PromoteRevision", "StopRevision", "StartRevision", "RollbackDeployment", "RevokeDeploymentToken"}, name) {
				continue // the calls of these methods first create what the methods act on
			}
			before := d.everything()
			ctx, _ := as(t, who, "k")
			require.Error(t, m.call(d, ctx, d.d.ID))
			require.Equal(t, before, d.everything(), name)
			var claims int
			require.NoError(t, d.harness.Pool.QueryRow(t.Context(), `SELECT count(*) FROM idempotency`).Scan(&claims))
			require.Zero(t, claims, "%s: a rejected call does not use up its key", name)
		}
	}
}

func TestServer_malformedIDsNameTheField(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	ctx, _ := as(t, owner(), "")
	for _, bad := range []string{"", "dep_", "dep_1", "mdl_01k00000000000000000000001", strings.ToUpper(d.d.ID), d.d.ID + "x", d.d.ID + "\x00"} {
		for name, m := range methods() {
			err := m.call(d, ctx, bad)
			require.True(t, fault.Is(err, fault.Invalid), "%s %q: %v", name, bad, err)
			require.Equal(t, []any{"deployment_id"}, fault.From(err).Fields[0].Loc)
		}
	}
	_, err := d.RevokeDeploymentToken(ctx, &registryv1.RevokeDeploymentTokenRequest{DeploymentId: d.d.ID, TokenId: "dtk_secret"})
	require.Equal(t, []any{"token_id"}, fault.From(err).Fields[0].Loc)
	require.NotContains(t, err.Error(), "dtk_secret", "a secret passed as the ID is not echoed")
	in := d.create()
	in.Source.ModelId = "adder"
	_, err = d.CreateRevision(ctx, in)
	require.Equal(t, []any{"source", "model_id"}, fault.From(err).Fields[0].Loc)
}

func TestServer_CreateRevision_hiddenModelLooksUnknown(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	hidden, shown := d.addModel("prj_2", "team"), d.addModel("prj_3", "all")
	ask := func(who *authn.Caller, modelID string, version int32) error {
		ctx, _ := as(t, who, "")
		in := d.create()
		in.Source = &registryv1.RevisionSource{ModelId: modelID, Version: version}
		_, err := d.CreateRevision(ctx, in)
		return err
	}
	const unknown = "mdl_01k00000000000000000000077"
	err, none := ask(editor(), hidden, 1), ask(editor(), unknown, 1)
	require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "source"), "%v", err)
	require.Equal(t, fault.From(none).Text(), strings.ReplaceAll(fault.From(err).Text(), hidden, unknown))
	require.True(t, fault.HasCode(ask(editor(), shown, 2), "source"), "no such version")
	require.NoError(t, ask(editor(), shown, 1))
	require.NoError(t, ask(admin(), hidden, 1))
}
