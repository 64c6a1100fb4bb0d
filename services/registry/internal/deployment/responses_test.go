package deployment

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestServer_CreateDeployment_projectRights(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	make := func(who *authn.Caller, name, project string) (*registryv1.Deployment, error) {
		ctx, _ := as(t, who, "")
		return d.CreateDeployment(ctx, &registryv1.CreateDeploymentRequest{Name: name, Project: project})
	}
	got, err := make(stranger(), "adder", "")
	require.NoError(t, err)
	require.NoError(t, id.Check(id.Deployment, got.GetId()))
	require.True(t, proto.Equal(&registryv1.Deployment{
		Id: got.GetId(), Name: "adder", Project: "default", Owner: "usr_4", State: StateServing,
		Url: "https://box.example/inference/" + got.GetId() + "/v1", CreatedAt: got.GetCreatedAt(),
		Reason: &registryv1.RevisionReason{
			Phase: "deployment", Code: "no_ready_revision", Message: "no revision is promoted; promote one that is ready",
		},
	}, got), "%v", got)
	require.True(t, d.clock.Now().Equal(got.GetCreatedAt().AsTime()))
	_, err = make(editor(), "adder", "")
	require.True(t, fault.HasCode(err, "deployment_exists") && fault.Is(err, fault.Conflict), "%v", err)
	_, err = make(editor(), "adder", "team")
	require.NoError(t, err, "names are unique per project, not globally")
	for who, want := range map[*authn.Caller]fault.Kind{
		viewer(): fault.Forbidden, stranger(): fault.Refused, {}: fault.Unauthenticated,
		{Kind: authn.KindService, Subject: "jobs"}: fault.Unauthenticated,
	} {
		_, err = make(who, "other", "team")
		require.True(t, fault.Is(err, want), "%s: %v", who.Subject, err)
	}
}

func TestServer_repeatWithIdempotencyKey(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	cases := map[string]struct {
		make  func(ctx context.Context, other bool) (proto.Message, error)
		table string
	}{
		"deployment": {func(ctx context.Context, other bool) (proto.Message, error) {
			return d.CreateDeployment(ctx, &registryv1.CreateDeploymentRequest{Name: map[bool]string{false: "x", true: "y"}[other], Project: "team"})
		}, "deployment"},
		"revision": {func(ctx context.Context, other bool) (proto.Message, error) {
			in := d.create()
			if other {
				in.Serving = &registryv1.Serving{Gpus: 1}
			}
			return d.CreateRevision(ctx, in)
		}, "revision"},
		"token": {func(ctx context.Context, other bool) (proto.Message, error) {
			return d.CreateDeploymentToken(ctx, &registryv1.CreateDeploymentTokenRequest{DeploymentId: d.d.ID, Name: map[bool]string{false: "x", true: "y"}[other]})
		}, "deployment_token"},
	}
	rows := func(table string) (n int) {
		require.NoError(t, d.harness.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}
	for name, c := range cases {
		before := rows(c.table)
		ctx, _ := as(t, owner(), "key-1")
		first, err := c.make(ctx, false)
		require.NoError(t, err, name)
		if made, ok := first.(*registryv1.DeploymentToken); ok {
			made.Token = nil // A repeat does not return the secret.
		}
		ordered, epoch := len(d.orders.of), d.epoch()
		for range 2 {
			again, err := c.make(ctx, false)
			require.NoError(t, err, name)
			require.True(t, proto.Equal(first, again), "%s: %v", name, again)
		}
		_, err = c.make(ctx, true)
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "idempotency_key"), "%s: %v", name, err)
		require.Equal(t, before+1, rows(c.table), name)
		require.Len(t, d.orders.of, ordered, "%s: a repeat orders no engine", name)
		require.Equal(t, epoch, d.epoch(), "%s: a repeat does not raise the epoch", name)
		if name == "deployment" {
			continue // The name is taken for other callers too.
		}
		other, _ := as(t, editor(), "key-1")
		second, err := c.make(other, false)
		require.NoError(t, err, name)
		require.False(t, proto.Equal(first, second), "%s: keys are scoped to the caller", name)
	}
}

func TestServer_CreateRevision_keepsRequest(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	ctx, _ := as(t, editor(), "")
	in := d.create()
	in.Serving = &registryv1.Serving{
		Engine: "command", Command: []string{"serve", "--all"}, Requirements: "vllm==1\n", Args: []string{"-v"}, Pool: "gpu", Gpus: 2,
		Timeouts: &registryv1.ServingTimeouts{FirstByteS: proto.Int32(1800)},
	}
	got, err := d.CreateRevision(ctx, in)
	require.NoError(t, err)
	require.True(t, proto.Equal(in.GetServing(), got.GetServing()), "%v", got.GetServing())
	require.True(t, proto.Equal(in.GetSource(), got.GetSource()))
	require.Equal(t, []any{int32(1), "pending", false, d.d.ID}, []any{got.GetNumber(), got.GetState(), got.GetReady(), got.GetDeploymentId()})
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, got.GetServingDigest())
	require.Equal(t, "pending", got.GetReason().GetPhase())
	require.Contains(t, got.GetReason().GetMessage(), "pool gpu")
	read, err := d.GetRevision(ctx, &registryv1.GetRevisionRequest{DeploymentId: d.d.ID, Number: 1})
	require.NoError(t, err)
	require.True(t, proto.Equal(got, read), "GetRevision returns what CreateRevision returned")
	plan := d.revision(1).Plan
	require.Equal(t, revision.Plan{
		Model: revision.File{Path: "m.gguf", URI: "u", Size: 9, SHA256: "ab"}, ModelDigest: "sha256:ab", ServedNames: []string{"default", "chat"},
		Task: "chat", ProbeS: 120, OwnerID: "usr_1", ProjectID: "prj_1",
	}, plan, "the plan names the deployment's owner, not the caller")
	_, err = d.GetRevision(ctx, &registryv1.GetRevisionRequest{DeploymentId: d.d.ID, Number: 2})
	require.True(t, fault.Is(err, fault.Absent))
	require.Equal(t, "no such revision: 2", fault.From(err).Text())
}

func TestServer_RevokeDeploymentToken_waitsForReplicas(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	token, text := d.mint("ci")
	other, _ := d.mint("other")
	ctx, _ := as(t, editor(), "")
	ask := &registryv1.RevokeDeploymentTokenRequest{DeploymentId: d.d.ID, TokenId: token.ID}
	d.replicas.err = fault.New(fault.Dependency, "replica_unreached", "not every replica has acknowledged yet")
	_, err := d.RevokeDeploymentToken(ctx, ask)
	require.True(t, fault.HasCode(err, "replica_unreached") && fault.Is(err, fault.Dependency), "the call must fail until all replicas acknowledge: %v", err)
	dead := d.epoch()
	live, err := d.Server.Tokens.Live(t.Context(), d.harness.Pool, "", 10)
	require.NoError(t, err)
	require.Len(t, live, 1, "the token is revoked nevertheless")
	require.Equal(t, other.ID, live[0].ID)
	d.mint("later")
	d.replicas.err = nil
	_, err = d.RevokeDeploymentToken(ctx, ask)
	require.NoError(t, err)
	require.Equal(t, []int64{dead, dead}, d.replicas.awaited, "a repeat waits for the same epoch")
	require.Zero(t, d.replicas.settled)
	list, err := d.ListDeploymentTokens(ctx, &registryv1.ListDeploymentTokensRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	for _, shown := range list.GetTokens() {
		require.Nil(t, shown.Token)
		require.Equal(t, shown.GetId() == token.ID, shown.GetRevokedAt() != nil, "only the revoked token must be listed with a revocation time")
		require.NotContains(t, shown.String(), text.Reveal())
	}
	_, err = d.RevokeDeploymentToken(ctx, &registryv1.RevokeDeploymentTokenRequest{DeploymentId: d.d.ID, TokenId: "tok_01k00000000000000000000077"})
	require.True(t, fault.Is(err, fault.Absent))
	require.Len(t, d.replicas.awaited, 2, "the revocation of an unknown token must not wait")
}

func TestServer_grantsSettleBeforeResponse(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	r := d.readyRevision()
	ctx, _ := as(t, owner(), "")
	_, err := d.PromoteRevision(ctx, &registryv1.PromoteRevisionRequest{DeploymentId: d.d.ID, Number: r.Number})
	require.NoError(t, err)
	require.Equal(t, 1, d.replicas.settled)
	made, err := d.CreateDeploymentToken(ctx, &registryv1.CreateDeploymentTokenRequest{DeploymentId: d.d.ID, Name: "ci"})
	require.NoError(t, err)
	require.Equal(t, 2, d.replicas.settled)
	hash, ok := secret.Parse(secret.KindDeployment, made.GetToken())
	require.True(t, ok)
	live, err := d.Server.Tokens.Live(t.Context(), d.harness.Pool, "", 10)
	require.NoError(t, err)
	require.Equal(t, hash, live[0].Hash, "the returned secret matches the stored hash")
	_, err = d.PromoteRevision(ctx, &registryv1.PromoteRevisionRequest{DeploymentId: d.d.ID, Number: 9})
	require.True(t, fault.Is(err, fault.Absent))
	d.replicas.err = errors.New("no database")
	_, err = d.PromoteRevision(ctx, &registryv1.PromoteRevisionRequest{DeploymentId: d.d.ID, Number: r.Number})
	require.ErrorContains(t, err, "no database", "the call fails if settling fails")
}

func TestServer_toProto_publicURLTrailingSlash(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"https://box.example", "https://box.example/"} {
		s := &Server{PublicURL: func() string { return public }}
		require.Equal(t, "https://box.example/inference/dep_1/v1", s.toProto(&Deployment{ID: "dep_1", CreatedAt: time.Unix(0, 0)}).GetUrl())
	}
}
