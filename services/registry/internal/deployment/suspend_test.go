package deployment

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestServer_SuspendDeployment_waitsForReplicas(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	r := d.promotedRevision()
	ctx, sent := as(t, owner(), "")
	before := d.epoch()
	out, err := d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	require.Equal(t, []string{"suspended", "drain"}, []string{out.GetState(), out.GetSuspendMode()})
	require.True(t, out.GetSuspendedAt().AsTime().Equal(d.clock.Now()))
	require.Equal(t, r.Number, out.GetPromotedRevision(), "suspension keeps the promoted revision")
	require.Equal(t, []int64{before + 1}, d.replicas.awaited)
	require.Equal(t, []string{`"3"`}, sent.sent.Get("etag"), "version 3: created, promoted, suspended")

	_, err = d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	require.Equal(t, before+1, d.epoch(), "a repeat changes nothing")
	require.Len(t, d.replicas.awaited, 2, "a repeat waits too, because the first call may still be waiting")

	out, err = d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID, Mode: ModeCut})
	require.NoError(t, err)
	require.Equal(t, ModeCut, out.GetSuspendMode())
	require.Equal(t, before+2, d.epoch(), "a drain can be turned into a cut")
	out, err = d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID, Mode: ModeDrain})
	require.NoError(t, err)
	require.Equal(t, ModeCut, out.GetSuspendMode(), "a cut cannot be turned back into a drain")

	d.replicas.err = fault.New(fault.Dependency, "replica_unreached", "a replica is unreachable")
	_, err = d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID})
	require.True(t, fault.HasCode(err, "replica_unreached"), "%v", err)
	d.replicas.err = nil

	out, err = d.ResumeDeployment(ctx, &registryv1.ResumeDeploymentRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	require.Equal(t, "serving", out.GetState())
	require.Nil(t, out.SuspendMode)
	require.Nil(t, out.GetSuspendedAt())
	before = d.epoch()
	_, err = d.ResumeDeployment(ctx, &registryv1.ResumeDeploymentRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	require.Equal(t, before, d.epoch(), "resuming a serving deployment changes nothing")
	require.Equal(t, 2, d.count("suspended"))
	require.Equal(t, 1, d.count("resumed"))
}

func TestChanger_Suspend_leavesRevisionsUnchanged(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	one, two := d.promotedRevision(), d.readyRevision()
	_, _, err := d.Suspend(d.ctx, d.d.ID, ModeDrain)
	require.NoError(t, err)
	now, err := d.Promote(d.ctx, d.d.ID, two.Number)
	require.NoError(t, err)
	require.Equal(t, StateSuspended, now.State, "promotion keeps the deployment suspended")
	now, err = d.Rollback(d.ctx, d.d.ID, nil, false)
	require.NoError(t, err)
	require.Equal(t, []any{one.Number, StateSuspended}, []any{*now.PromotedNumber, now.State})
	before := d.epoch()
	stopped, err := d.Stop(d.ctx, d.d.ID, one.Number)
	require.NoError(t, err, "a promoted revision may be stopped while its deployment is suspended")
	require.Equal(t, revision.Stopped, stopped.State)
	require.Equal(t, before+1, d.epoch(), "the epoch is raised because the promoted revision is no longer ready")
	_, err = d.Resume(d.ctx, d.d.ID)
	require.NoError(t, err)
	require.True(t, d.now().promoted(one.ID), "the stopped revision stays promoted")
	_, err = d.Start(d.ctx, d.d.ID, one.Number)
	require.NoError(t, err)
	got, _ := d.see(d.revision(one.Number), 2, 1, serving())
	require.Equal(t, revision.Ready, got.State, "a fence of the earlier generation must not prevent an observation of the new generation")
	_, err = d.Stop(d.ctx, d.d.ID, one.Number)
	require.True(t, fault.HasCode(err, "revision_promoted"), "%v", err)
}

func TestServer_ifMatchStaleVersion(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	text := "what it is for"
	with := func(tag string) error {
		ctx, _ := as(t, owner(), "")
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("if-match", tag))
		_, err := d.UpdateDeployment(ctx, &registryv1.UpdateDeploymentRequest{DeploymentId: d.d.ID, Description: &text})
		return err
	}
	for _, tag := range []string{`"0"`, `"2"`, `1`, `W/"1"`, `"1`, ``, `x`, `"2", "3"`} {
		err := with(tag)
		require.True(t, fault.HasCode(err, "stale") && fault.Is(err, fault.Conflict), "%q: %v", tag, err)
		require.Empty(t, d.now().Description)
	}
	require.NoError(t, with(`"7", "1"`))
	require.Equal(t, text, d.now().Description)
	require.NoError(t, with(`*`))
	require.True(t, fault.HasCode(with(`"1"`), "stale"))
	ctx, sent := as(t, viewer(), "")
	out, err := d.GetDeployment(ctx, &registryv1.GetDeploymentRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	require.Equal(t, text, out.GetDescription())
	require.Equal(t, []string{`"2"`}, sent.sent.Get("etag"))
	for name, call := range map[string]func() error{
		"suspend":  func() error { _, _, err := d.Suspend(stale(d), d.d.ID, ModeDrain); return err },
		"resume":   func() error { _, err := d.Resume(stale(d), d.d.ID); return err },
		"delete":   func() error { _, err := d.Delete(stale(d), d.d.ID); return err },
		"promote":  func() error { _, err := d.Promote(stale(d), d.d.ID, 1); return err },
		"rollback": func() error { _, err := d.Rollback(stale(d), d.d.ID, nil, false); return err },
	} {
		require.True(t, fault.HasCode(call(), "stale"), name)
	}
}

// stale returns the context of a caller who has read an older version.
func stale(d *serverHarness) context.Context {
	return metadata.NewIncomingContext(d.ctx, metadata.Pairs("if-match", `"1"`))
}

func TestServer_DeleteDeployment(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	one, two := d.promotedRevision(), d.readyRevision()
	token, _ := d.mint("ci")
	ctx, _ := as(t, owner(), "")
	ask := &registryv1.DeleteDeploymentRequest{DeploymentId: d.d.ID}
	_, err := d.DeleteDeployment(ctx, ask)
	require.True(t, fault.HasCode(err, "deployment_serving") && fault.Is(err, fault.Conflict), "%v", err)
	require.Contains(t, fault.From(err).Text(), "suspend it before")
	_, _, err = d.Suspend(d.ctx, d.d.ID, ModeDrain)
	require.NoError(t, err)
	ordered := len(d.orders.of)
	_, err = d.DeleteDeployment(ctx, ask)
	require.NoError(t, err)
	require.Equal(t, d.epoch(), d.replicas.awaited[len(d.replicas.awaited)-1])
	require.ElementsMatch(t, []string{one.ID, two.ID}, d.orders.of[ordered:], "its engines are ended")
	for _, r := range []*revision.Revision{one, two} {
		now, err := d.Revisions.ByID(d.ctx, d.harness.Pool, r.ID)
		require.NoError(t, err)
		require.Equal(t, []any{revision.Stopped, false}, []any{now.State, now.Wanted})
	}
	live, err := d.harness.Tokens.Live(d.ctx, d.harness.Pool, "", 10)
	require.NoError(t, err)
	require.Empty(t, live, "token %s still works", token.ID)
	_, err = d.GetDeployment(ctx, &registryv1.GetDeploymentRequest{DeploymentId: d.d.ID})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = d.DeleteDeployment(ctx, ask)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	all, err := d.harness.Store.After(d.ctx, d.harness.Pool, "", 10)
	require.NoError(t, err)
	require.Empty(t, all, "a deleted deployment is not in the snapshot")
	again, err := d.CreateDeployment(ctx, &registryv1.CreateDeploymentRequest{Name: d.d.Name, Project: d.d.Project})
	require.NoError(t, err, "the name is free again")
	require.NotEqual(t, d.d.ID, again.GetId())
	_, err = d.DeleteDeployment(ctx, &registryv1.DeleteDeploymentRequest{DeploymentId: again.GetId()})
	require.NoError(t, err, "a deployment without a promoted revision can be deleted directly")
	third, err := d.CreateDeployment(ctx, &registryv1.CreateDeploymentRequest{Name: "third", Project: d.d.Project})
	require.NoError(t, err)
	d.replicas.err = fault.New(fault.Dependency, "replica_unreached", "a replica is unreachable")
	_, err = d.DeleteDeployment(ctx, &registryv1.DeleteDeploymentRequest{DeploymentId: third.GetId()})
	require.True(t, fault.HasCode(err, "replica_unreached") && fault.Is(err, fault.Dependency), "the call must fail until all replicas acknowledge: %v", err)
	// A late observation of an engine of the deleted deployment changes nothing.
	o := serving()
	o.WorkID, o.Generation, o.Fence = one.WorkID, 1, 1
	wanted, err := d.Observe(d.ctx, o)
	require.NoError(t, err)
	require.False(t, wanted)
	_, err = d.harness.Store.Get(d.ctx, d.harness.Pool, access.ServiceScope(), d.d.ID)
	require.True(t, fault.Is(err, fault.Absent))
}
