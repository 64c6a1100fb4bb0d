package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestARollbackGoesToWhatAnsweredBefore(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	ctx, _ := as(t, owner(), "")
	back := func(to *int32) (*registryv1.Deployment, error) {
		return d.RollbackDeployment(ctx, &registryv1.RollbackDeploymentRequest{DeploymentId: d.d.ID, ToRevision: to})
	}
	_, err := back(nil)
	require.True(t, fault.HasCode(err, "no_previous_revision") && fault.Is(err, fault.Conflict), "%v", err)
	one, two, never := d.serves(), d.serves(), d.serve()
	out, err := back(nil)
	require.NoError(t, err)
	require.Equal(t, []string{one.ID, two.ID}, []string{out.GetPromotedRevisionId(), out.GetPreviousRevisionId()})
	require.Equal(t, "https://box.example/inference/"+d.d.ID+"/v1", out.GetUrl(), "its address is the same for ever")
	out, err = back(nil)
	require.NoError(t, err)
	require.Equal(t, two.ID, out.GetPromotedRevisionId(), "and back again")
	out, err = back(&one.Number)
	require.NoError(t, err)
	require.Equal(t, one.Number, out.GetPromotedRevision())
	before := d.epoch()
	out, err = back(&one.Number)
	require.NoError(t, err)
	require.Equal(t, []any{one.Number, before}, []any{out.GetPromotedRevision(), d.epoch()}, "what answers already is no change")
	_, err = back(&never.Number)
	require.True(t, fault.HasCode(err, "never_promoted"), "%v", err)
	missing := int32(99)
	_, err = back(&missing)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.Len(t, d.revision(one.Number).PromotedAt, 3)
}

func TestARollbackToWhatIsStoppedStartsItFirst(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	one, two := d.serves(), d.serves()
	_, err := d.Stop(d.ctx, d.d.ID, one.Number)
	require.NoError(t, err)
	ctx, sent := as(t, owner(), "")
	ask := &registryv1.RollbackDeploymentRequest{DeploymentId: d.d.ID}
	_, err = d.RollbackDeployment(ctx, ask)
	require.True(t, fault.HasCode(err, "revision_not_ready"), "%v", err)
	require.Contains(t, fault.From(err).Text(), "revision 1 is not ready: stopped/stopped")
	ask.Start = true
	before, ordered := d.epoch(), len(d.orders.of)
	for range 2 {
		out, err := d.RollbackDeployment(ctx, ask)
		require.NoError(t, err)
		require.Equal(t, []int32{two.Number, one.Number}, []int32{out.GetPromotedRevision(), out.GetPendingRevision()})
	}
	require.Equal(t, []string{"202", "202"}, sent.sent.Get("x-service-status"))
	require.Equal(t, []string{one.ID}, d.orders.of[ordered:], "asked again it is started once")
	require.Equal(t, before, d.epoch(), "what serves goes on serving")
	r := d.revision(one.Number)
	require.Equal(t, []any{revision.Pending, int64(2), true}, []any{r.State, r.Generation, r.Wanted})
	r, _ = d.see(r, 2, 1, placed(revision.PhaseRunning, nil))
	require.Equal(t, revision.Starting, r.State, "as any other that starts")
	d.see(r, 2, 1, serving())
	now := d.now()
	require.True(t, now.promoted(one.ID), "it takes over when it is ready")
	require.Nil(t, now.PendingID)
	require.Equal(t, two.ID, *now.PreviousID)
	require.Equal(t, before+1, d.epoch())
}

func TestAWaitForARollbackEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		by    func(d *desk, r *revision.Revision)
		event string
	}{
		"it fails": {func(d *desk, r *revision.Revision) { d.see(r, 2, 1, died()) }, "rollback_failed"},
		"it is stopped": {func(d *desk, r *revision.Revision) {
			_, err := d.Stop(d.ctx, d.d.ID, r.Number)
			require.NoError(d.t, err)
		}, "rollback_failed"},
		"another is promoted": {func(d *desk, r *revision.Revision) {
			_, err := d.Promote(d.ctx, d.d.ID, d.serve().Number)
			require.NoError(d.t, err)
			d.see(r, 2, 1, serving())
		}, "promoted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDesk(t)
			one, two := d.serves(), d.serves()
			_, err := d.Stop(d.ctx, d.d.ID, one.Number)
			require.NoError(t, err)
			_, err = d.Rollback(d.ctx, d.d.ID, &one.Number, true)
			require.NoError(t, err)
			had := d.count(end.event)
			end.by(d, d.revision(one.Number))
			now := d.now()
			require.Nil(t, now.PendingID)
			require.False(t, now.promoted(one.ID))
			require.Equal(t, had+1, d.count(end.event))
			require.Equal(t, end.event == "rollback_failed", now.promoted(two.ID))
		})
	}
}

// A crash between the readiness and the switch is made good by the next word of the engine.
func TestAForgottenSwitchIsMade(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	one, _ := d.serves(), d.serves()
	d.exec(`UPDATE deployment SET pending_revision_id = $1`, one.ID)
	d.see(one, 1, 1, serving())
	require.True(t, d.now().promoted(one.ID))
}

func TestWhatIsStartedIsStartedOnce(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	ctx, _ := as(t, owner(), "")
	start := func(number int32) (*registryv1.Revision, error) {
		return d.StartRevision(ctx, &registryv1.StartRevisionRequest{DeploymentId: d.d.ID, Number: number})
	}
	r := d.candidate()
	_, err := start(r.Number)
	require.True(t, fault.HasCode(err, "revision_running") && fault.Is(err, fault.Conflict), "%v", err)
	d.see(r, 1, 1, died())
	require.Equal(t, revision.Failed, d.revision(r.Number).State)
	var errs []error
	for _, err := range atOnce(
		func() error { _, err := start(r.Number); return err }, func() error { _, err := start(r.Number); return err },
	) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	require.Len(t, errs, 1)
	require.True(t, fault.HasCode(errs[0], "revision_running"), "%v", errs[0])
	out, err := d.GetRevision(ctx, &registryv1.GetRevisionRequest{DeploymentId: d.d.ID, Number: r.Number})
	require.NoError(t, err)
	require.Equal(t, "pending", out.GetState())
	require.Equal(t, "pending/waiting", d.revision(r.Number).Reason.Short())
	require.EqualValues(t, 2, d.revision(r.Number).Generation)
	d.exec(`UPDATE model_version SET lifecycle = 'archived' WHERE model_id = 'mdl_1'`)
	_, err = d.Stop(d.ctx, d.d.ID, r.Number)
	require.NoError(t, err)
	_, err = start(r.Number)
	require.True(t, fault.HasCode(err, "version_archived") && fault.Is(err, fault.Conflict), "%v", err)
}
