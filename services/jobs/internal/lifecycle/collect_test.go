package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/cluster"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// gpusFree returns the free GPUs as counted for the node, for its fleet and for the cluster.
func (b *harness) gpusFree() []int {
	b.t.Helper()
	node, err := fleet.Store{}.Node(b.t.Context(), b.pool, "nod_1")
	require.NoError(b.t, err)
	fleets, err := fleet.Store{}.List(b.t.Context(), b.pool, request.Page{Limit: 10})
	require.NoError(b.t, err)
	all, err := cluster.Store{}.Sum(b.t.Context(), b.pool)
	require.NoError(b.t, err)
	return []int{node.GPUsFree, fleets[0].GPUsFree, all.GPUsFree}
}

// The processes have ended, but the node still delivers the log and the reports.
func TestDriver_Observe_collectingTakesNoGPUsNorQuota(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	b.driver.Ledger.Default = 2
	first, second := b.placed(1, 3), b.placed(1, 3)
	third := b.submit(1, 0)
	one, two := b.works(first)[0], b.works(second)[0]
	b.observe("nod_1", seen(one, gang.PhaseRunning, nil), seen(two, gang.PhaseRunning, nil))
	b.schedule()
	require.Equal(t, job.Queued, b.job(third).State)
	require.Equal(t, []int{0, 0, 0}, b.gpusFree())

	b.observe("nod_1", seen(one, gang.PhaseCollecting, &gang.Exit{}), seen(two, gang.PhaseRunning, nil))
	require.Equal(t, 1, b.held())
	require.Equal(t, []int{1, 1, 1}, b.gpusFree())
	require.False(t, b.job(first).State.Terminal(), "the job must not end before its output is complete")
	b.schedule()
	require.Equal(t, job.Scheduled, b.job(third).State)
	require.Equal(t, 2, b.held())
	require.Equal(t, []int{0, 0, 0}, b.gpusFree())

	b.observe("nod_1", seen(one, gang.PhaseExited, &gang.Exit{}), seen(two, gang.PhaseRunning, nil), seen(b.works(third)[0], gang.PhaseRunning, nil))
	require.Equal(t, job.Succeeded, b.job(first).State)
	require.Equal(t, 2, b.held(), "the quota must be released only once")
	require.Equal(t, []int{0, 0, 0}, b.gpusFree())
}

func TestDriver_Observe_gangHoldsQuotaUntilLastProcessEnds(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2)
	j := b.placed(2, 0)
	works := b.works(j)
	b.observe(works[0].NodeID, seen(works[0], gang.PhaseCollecting, &gang.Exit{}))
	b.observe(works[1].NodeID, seen(works[1], gang.PhaseRunning, nil))
	require.Equal(t, 2, b.held())
	b.observe(works[1].NodeID, seen(works[1], gang.PhaseCollecting, &gang.Exit{}))
	require.Zero(t, b.held())
}

func TestDriver_Enforce_collectingHasNoTimeLimit(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 0)
	w := b.works(j)[0]
	b.observe("nod_1", seen(w, gang.PhaseRunning, nil))
	b.report(j, job.ReportRunning)
	b.observe("nod_1", seen(w, gang.PhaseCollecting, &gang.Exit{}))
	require.NoError(t, b.driver.Enforce(pg.WithOffset(t.Context(), time.Hour), j.ID))
	require.Equal(t, job.Running, b.job(j).State)
	b.observe("nod_1", seen(w, gang.PhaseExited, &gang.Exit{}))
	require.Equal(t, job.Succeeded, b.job(j).State)
}
