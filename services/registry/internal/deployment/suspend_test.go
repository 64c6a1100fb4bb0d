package deployment

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestSuspensionIsAnsweredWhenEveryReplicaHasIt(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	r := d.serves()
	ctx, sent := as(t, owner(), "")
	before := d.epoch()
	out, err := d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	require.Equal(t, []string{"suspended", "drain"}, []string{out.GetState(), out.GetSuspendMode()})
	require.True(t, out.GetSuspendedAt().AsTime().Equal(d.clock.Now()))
	require.Equal(t, r.Number, out.GetPromotedRevision(), "what is promoted stays so")
	require.Equal(t, []int64{before + 1}, d.replicas.awaited)
	require.Equal(t, []string{`"3"`}, sent.sent.Get("etag"), "promoted, then suspended")

	_, err = d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	require.Equal(t, before+1, d.epoch(), "again is no change")
	require.Len(t, d.replicas.awaited, 2, "but waits as the first does: that one may still be under way")

	out, err = d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID, Mode: ModeCut})
	require.NoError(t, err)
	require.Equal(t, ModeCut, out.GetSuspendMode())
	require.Equal(t, before+2, d.epoch(), "a drain can be cut short")
	out, err = d.SuspendDeployment(ctx, &registryv1.SuspendDeploymentRequest{DeploymentId: d.d.ID, Mode: ModeDrain})
	require.NoError(t, err)
	require.Equal(t, ModeCut, out.GetSuspendMode(), "what was cut does not come back")

	d.replicas.err = fault.New(fault.Dependency, "replica_unreached", "one is away")
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
	require.Equal(t, before, d.epoch(), "what serves is answered as it is")
	require.Equal(t, 2, d.count("suspended"))
	require.Equal(t, 1, d.count("resumed"))
}

func TestSuspendedIsNoStateOfRevisions(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	one, two := d.serves(), d.serve()
	_, _, err := d.Suspend(d.ctx, d.d.ID, ModeDrain)
	require.NoError(t, err)
	now, err := d.Promote(d.ctx, d.d.ID, two.Number)
	require.NoError(t, err)
	require.Equal(t, StateSuspended, now.State, "promoted while suspended, it stays suspended")
	now, err = d.Rollback(d.ctx, d.d.ID, nil, false)
	require.NoError(t, err)
	require.Equal(t, []any{one.Number, StateSuspended}, []any{*now.PromotedNumber, now.State})
	before := d.epoch()
	stopped, err := d.Stop(d.ctx, d.d.ID, one.Number)
	require.NoError(t, err, "its engine need not run meanwhile")
	require.Equal(t, revision.Stopped, stopped.State)
	require.Equal(t, before+1, d.epoch(), "inference hears that it is not ready")
	_, err = d.Resume(d.ctx, d.d.ID)
	require.NoError(t, err)
	require.True(t, d.now().promoted(one.ID), "the pointer stays; calls are told that it is not ready")
	_, err = d.Start(d.ctx, d.d.ID, one.Number)
	require.NoError(t, err)
	got, _ := d.see(d.revision(one.Number), 2, 1, serving())
	require.Equal(t, revision.Ready, got.State, "a new order begins with a fence of its own")
	_, err = d.Stop(d.ctx, d.d.ID, one.Number)
	require.True(t, fault.HasCode(err, "revision_promoted"), "%v", err)
}

func TestAChangeOfAnOlderVersionIsRefused(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	said := "what it is for"
	with := func(tag string) error {
		ctx, _ := as(t, owner(), "")
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("if-match", tag))
		_, err := d.UpdateDeployment(ctx, &registryv1.UpdateDeploymentRequest{DeploymentId: d.d.ID, Description: &said})
		return err
	}
	for _, tag := range []string{`"0"`, `"2"`, `1`, `W/"1"`, `"1`, ``, `x`, `"2", "3"`} {
		err := with(tag)
		require.True(t, fault.HasCode(err, "stale") && fault.Is(err, fault.Conflict), "%q: %v", tag, err)
		require.Empty(t, d.now().Description)
	}
	require.NoError(t, with(`"7", "1"`))
	require.Equal(t, said, d.now().Description)
	require.NoError(t, with(`*`))
	require.True(t, fault.HasCode(with(`"1"`), "stale"))
	ctx, sent := as(t, viewer(), "")
	out, err := d.GetDeployment(ctx, &registryv1.GetDeploymentRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	require.Equal(t, said, out.GetDescription())
	require.Equal(t, []string{`"2"`}, sent.sent.Get("etag"))
	for name, call := range map[string]func() error{
		"suspend": func() error { _, _, err := d.Suspend(stale(d), d.d.ID, ModeDrain); return err },
		"resume":  func() error { _, err := d.Resume(stale(d), d.d.ID); return err },
		"delete":  func() error { _, err := d.Delete(stale(d), d.d.ID); return err },
		"promote": func() error { _, err := d.Promote(stale(d), d.d.ID, 1); return err },
		"back":    func() error { _, err := d.Rollback(stale(d), d.d.ID, nil, false); return err },
	} {
		require.True(t, fault.HasCode(call(), "stale"), name)
	}
}

// stale is the context of a caller who read an older version.
func stale(d *desk) context.Context {
	return metadata.NewIncomingContext(d.ctx, metadata.Pairs("if-match", `"1"`))
}

func TestADeploymentEndsWithAllThatIsItsOwn(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	one, two := d.serves(), d.serve()
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
	require.ElementsMatch(t, []string{one.ID, two.ID}, d.orders.of[ordered:], "its engines go")
	for _, r := range []*revision.Revision{one, two} {
		now, err := d.Revisions.ByID(d.ctx, d.bench.Pool, r.ID)
		require.NoError(t, err)
		require.Equal(t, []any{revision.Stopped, false}, []any{now.State, now.Wanted})
	}
	live, err := d.bench.Tokens.Live(d.ctx, d.bench.Pool)
	require.NoError(t, err)
	require.Empty(t, live, "its tokens die: %s", token.ID)
	_, err = d.GetDeployment(ctx, &registryv1.GetDeploymentRequest{DeploymentId: d.d.ID})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = d.DeleteDeployment(ctx, ask)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	all, err := d.bench.Store.All(d.ctx, d.bench.Pool)
	require.NoError(t, err)
	require.Empty(t, all, "inference does not know it")
	again, err := d.CreateDeployment(ctx, &registryv1.CreateDeploymentRequest{Name: d.d.Name, Project: d.d.Project})
	require.NoError(t, err, "its name is free")
	require.NotEqual(t, d.d.ID, again.GetId())
	_, err = d.DeleteDeployment(ctx, &registryv1.DeleteDeploymentRequest{DeploymentId: again.GetId()})
	require.NoError(t, err, "what never served needs no suspension")
	third, err := d.CreateDeployment(ctx, &registryv1.CreateDeploymentRequest{Name: "third", Project: d.d.Project})
	require.NoError(t, err)
	d.replicas.err = fault.New(fault.Dependency, "replica_unreached", "one is away")
	_, err = d.DeleteDeployment(ctx, &registryv1.DeleteDeploymentRequest{DeploymentId: third.GetId()})
	require.True(t, fault.HasCode(err, "replica_unreached") && fault.Is(err, fault.Dependency), "never 2xx early: %v", err)
	// A late word of an engine that was its own changes nothing.
	o := serving()
	o.WorkID, o.Generation, o.Fence = one.WorkID, 1, 1
	wanted, err := d.Observe(d.ctx, o)
	require.NoError(t, err)
	require.False(t, wanted)
	_, err = d.bench.Store.Get(d.ctx, d.bench.Pool, own.Everything(), d.d.ID)
	require.True(t, fault.Is(err, fault.Absent))
}
