package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestServer_RollbackDeployment_previousRevision(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	ctx, _ := as(t, owner(), "")
	back := func(to *int32) (*registryv1.Deployment, error) {
		return d.RollbackDeployment(ctx, &registryv1.RollbackDeploymentRequest{DeploymentId: d.d.ID, ToRevision: to})
	}
	_, err := back(nil)
	require.True(t, fault.HasCode(err, "no_previous_revision") && fault.Is(err, fault.Conflict), "%v", err)
	one, two, bad, never := d.promotedRevision(), d.promotedRevision(), d.promotedRevision(), d.readyRevision()
	out, err := back(nil)
	require.NoError(t, err)
	require.Equal(t, []string{two.ID, one.ID}, []string{out.GetPromotedRevisionId(), out.GetPreviousRevisionId()})
	require.Equal(t, "https://box.example/inference/"+d.d.ID+"/v1", out.GetUrl(), "the address never changes")
	out, err = back(nil)
	require.NoError(t, err)
	require.Equal(t, one.Number, out.GetPromotedRevision(), "a second rollback goes further back, not to the bad revision %d", bad.Number)
	require.Nil(t, out.PreviousRevisionId)
	_, err = back(nil)
	require.True(t, fault.HasCode(err, "no_previous_revision"), "%v", err)
	out, err = back(&bad.Number)
	require.NoError(t, err)
	require.Equal(t, []string{bad.ID, one.ID}, []string{out.GetPromotedRevisionId(), out.GetPreviousRevisionId()}, "a rollback to a revision by its number")
	out, err = back(&one.Number)
	require.NoError(t, err)
	require.Equal(t, one.Number, out.GetPromotedRevision())
	before := d.epoch()
	out, err = back(&one.Number)
	require.NoError(t, err)
	require.Equal(t, []any{one.Number, before}, []any{out.GetPromotedRevision(), d.epoch()}, "rolling back to the promoted revision changes nothing")
	_, err = back(&never.Number)
	require.True(t, fault.HasCode(err, "never_promoted"), "%v", err)
	missing := int32(99)
	_, err = back(&missing)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.Len(t, d.revision(one.Number).PromotedAt, 3)
}

func TestServer_RollbackDeployment_startsStoppedRevision(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	one, two := d.promotedRevision(), d.promotedRevision()
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
	require.Equal(t, []string{one.ID}, d.orders.of[ordered:], "a repeated rollback must not start the revision again")
	require.Equal(t, before, d.epoch(), "the promoted revision keeps serving")
	r := d.revision(one.Number)
	require.Equal(t, []any{revision.Pending, int64(2), true}, []any{r.State, r.Generation, r.Wanted})
	r, _ = d.see(r, 2, 1, placed(revision.PhaseRunning, nil))
	require.Equal(t, revision.Starting, r.State, "the pending revision starts like any other revision")
	d.see(r, 2, 1, serving())
	now := d.now()
	require.True(t, now.promoted(one.ID), "the pending revision is promoted when it is ready")
	require.Nil(t, now.PendingID)
	require.Nil(t, now.PreviousID, "no revision was promoted before revision 1")
	require.Equal(t, before+1, d.epoch())
}

func TestChanger_Rollback_pendingEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		by    func(d *serverHarness, r *revision.Revision)
		event string
	}{
		"pending revision fails": {func(d *serverHarness, r *revision.Revision) { d.see(r, 2, 1, died()) }, "rollback_failed"},
		"pending revision is stopped": {func(d *serverHarness, r *revision.Revision) {
			_, err := d.Stop(d.ctx, d.d.ID, r.Number)
			require.NoError(d.t, err)
		}, "rollback_failed"},
		"another revision is promoted": {func(d *serverHarness, r *revision.Revision) {
			_, err := d.Promote(d.ctx, d.d.ID, d.readyRevision().Number)
			require.NoError(d.t, err)
			d.see(r, 2, 1, serving())
		}, "promoted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newServerHarness(t)
			one, two := d.promotedRevision(), d.promotedRevision()
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

// After a crash between readiness and promotion, the next observation of the engine promotes the pending revision.
func TestChanger_Observe_settlesMissedRollback(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	one, _ := d.promotedRevision(), d.promotedRevision()
	d.exec(`UPDATE deployment SET pending_revision_id = $1`, one.ID)
	d.see(one, 1, 1, serving())
	require.True(t, d.now().promoted(one.ID))
}

func TestServer_StartRevision_once(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
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
	require.Equal(t, "pending/starting", d.revision(r.Number).Reason.Short())
	require.EqualValues(t, 2, d.revision(r.Number).Generation)
	d.exec(`UPDATE model_version SET lifecycle = 'archived' WHERE model_id = 'mdl_1'`)
	_, err = d.Stop(d.ctx, d.d.ID, r.Number)
	require.NoError(t, err)
	_, err = start(r.Number)
	require.True(t, fault.HasCode(err, "version_archived") && fault.Is(err, fault.Conflict), "%v", err)
}

// The pool of a stopped revision may have moved to a Slurm cluster.
func TestServer_StartRevision_poolOnSlurm(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	ctx, _ := as(t, owner(), "")
	r, err := d.CreateRevision(ctx, d.create())
	require.NoError(t, err)
	_, err = d.StopRevision(ctx, &registryv1.StopRevisionRequest{DeploymentId: d.d.ID, Number: r.GetNumber()})
	require.NoError(t, err)
	d.exec(`UPDATE revision SET serving = jsonb_set(serving::jsonb, '{pool}', '"slurm"')::json`)
	_, err = d.StartRevision(ctx, &registryv1.StartRevisionRequest{DeploymentId: d.d.ID, Number: r.GetNumber()})
	require.True(t, fault.Is(err, fault.Unconfigured) && fault.HasCode(err, "slurm_engine"), "%v", err)
}

// The fake pools refuse the pool whose name is "open".
func TestServer_poolWithoutIsolation(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	in := d.create()
	in.Serving = &registryv1.Serving{Pool: "open"}
	ctx, _ := as(t, owner(), "")
	_, err := d.CreateRevision(ctx, in)
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "isolation"), "%v", err)
	var rows int
	require.NoError(t, d.harness.Pool.QueryRow(t.Context(), `SELECT count(*) FROM revision`).Scan(&rows))
	require.Zero(t, rows, "a refused revision leaves nothing")

	r, err := d.CreateRevision(ctx, d.create())
	require.NoError(t, err)
	start := &registryv1.StartRevisionRequest{DeploymentId: d.d.ID, Number: r.GetNumber()}
	d.exec(`UPDATE revision SET serving = jsonb_set(serving::jsonb, '{pool}', '"open"')::json`)
	_, err = d.StartRevision(ctx, start)
	require.True(t, fault.Is(err, fault.Conflict), "a revision that runs is not checked: %v", err)
	_, err = d.StopRevision(ctx, &registryv1.StopRevisionRequest{DeploymentId: d.d.ID, Number: r.GetNumber()})
	require.NoError(t, err)
	_, err = d.StartRevision(ctx, start)
	require.True(t, fault.HasCode(err, "isolation"), "%v", err)
}
