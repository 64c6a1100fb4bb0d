package deployment

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestServer_GetDeployment_ready(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	ctx, _ := as(t, owner(), "")
	state := func() string {
		out, err := d.GetDeployment(ctx, &registryv1.GetDeploymentRequest{DeploymentId: d.d.ID})
		require.NoError(t, err)
		return fmt.Sprintf("%s %t %s/%s", out.GetState(), out.GetReady(), out.GetReason().GetPhase(), out.GetReason().GetCode())
	}
	require.Equal(t, "serving false deployment/no_ready_revision", state(), "nothing is promoted")
	r := d.promotedRevision()
	require.Equal(t, "serving true /", state())
	_, _, err := d.Suspend(d.ctx, d.d.ID, ModeDrain)
	require.NoError(t, err)
	require.Equal(t, "suspended false deployment/deployment_suspended", state())
	_, err = d.Resume(d.ctx, d.d.ID)
	require.NoError(t, err)
	d.see(d.revision(r.Number), 1, 1, placed(revision.PhaseRunning, nil))
	require.Equal(t, "serving false starting/starting", state())
}

// The specification defines one response to the promotion of a revision that is not ready: a conflict, even if the
// revision is the promoted one.
func TestServer_PromoteRevision_promotedButNotReady(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	ctx, _ := as(t, owner(), "")
	r := d.promotedRevision()
	before := d.epoch()
	ask := &registryv1.PromoteRevisionRequest{DeploymentId: d.d.ID, Number: r.Number}
	out, err := d.PromoteRevision(ctx, ask)
	require.NoError(t, err)
	require.True(t, out.GetReady())
	require.Equal(t, before, d.epoch(), "promoting the promoted revision changes nothing")
	d.see(d.revision(r.Number), 1, 1, placed(revision.PhaseRunning, nil))
	_, err = d.PromoteRevision(ctx, ask)
	require.True(t, fault.HasCode(err, "revision_not_ready") && fault.Is(err, fault.Conflict), "%v", err)
}

func TestServer_PromoteRevision_rightAfterCreation(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	ctx, _ := as(t, editor(), "")
	r, err := d.CreateRevision(ctx, d.create())
	require.NoError(t, err)
	_, err = d.PromoteRevision(ctx, &registryv1.PromoteRevisionRequest{DeploymentId: d.d.ID, Number: r.GetNumber()})
	require.ErrorContains(t, err, "is not ready: pending/starting: the engine is starting")
}

func TestDeployment_historyAfter(t *testing.T) {
	t.Parallel()
	two, three, other := "2", "3", "9"
	d := &Deployment{PromotedID: &three, PreviousID: &two, FormerIDs: []string{"1", "2"}}
	require.Equal(t, []string{"1", "2", "3"}, d.historyAfter("4", false))
	require.Equal(t, []string{"1"}, d.historyAfter("2", true))
	require.Empty(t, d.historyAfter("1", true))
	require.Equal(t, []string{"1", "2", "3"}, d.historyAfter("8", true), "a revision outside of the history leaves the history complete")
	d.PreviousID = &other
	require.Equal(t, []string{"9", "3"}, d.historyAfter("4", false), "an older version of the registry promoted revision 3 after revision 9")
	for n := range 3 * maxFormer {
		id := fmt.Sprint(n)
		d.FormerIDs = d.historyAfter(id, false)
		d.PreviousID, d.PromotedID = last(d.FormerIDs), &id
	}
	require.Len(t, d.FormerIDs, maxFormer)
}
