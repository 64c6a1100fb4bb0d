package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// slurmGauges reads the gauges of the only Slurm fleet: the held jobs by the class of the reason, without classes that
// have none, and the pools by whether they can be used.
func slurmGauges(t *testing.T, reader sdkmetric.Reader, fleet string) (held, usable map[string]int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	held, usable = map[string]int64{}, map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			into, label := held, "reason"
			switch m.Name {
			case "jobs_slurm_held":
			case "jobs_slurm_pool_usable":
				into, label = usable, "pool"
			default:
				continue
			}
			gauge, ok := m.Data.(metricdata.Gauge[int64])
			require.True(t, ok, m.Name)
			for _, p := range gauge.DataPoints {
				name, _ := p.Attributes.Value("fleet")
				require.Equal(t, fleet, name.AsString())
				key, _ := p.Attributes.Value("reason")
				if label == "pool" {
					key, _ = p.Attributes.Value("pool")
				}
				if label == "pool" || p.Value > 0 {
					into[key.AsString()] = p.Value
				}
			}
		}
	}
	return held, usable
}

func TestSlurmGauges(t *testing.T) {
	t.Parallel()
	w := newHarness(t, patient)
	reader := sdkmetric.NewManualReader()
	w.stop()
	w.deps.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	w.start()
	held, usable := slurmGauges(t, reader, "")
	require.Empty(t, held)
	require.Empty(t, usable, "there is no Slurm fleet")

	fleet := w.slurmFleet("slurm", "also")
	w.setSlurm("slurm", onPartition("gpu"))
	w.setSlurm("also", onPartition("gpu"))
	_, usable = slurmGauges(t, reader, fleet.GetName())
	require.Equal(t, map[string]int64{"slurm": 0, "also": 0}, usable, "no agent has connected")
	a := w.join(fleet, gpuNode(4), slurmAgent)
	report := slurmReport("slurm", "also")
	report.Pools[1].Isolation, report.Pools[1].Problem = "", new("sbatch: error: Invalid account")
	a.reportSlurm(report)
	awaitUsable := func(why string, want map[string]int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, usable := slurmGauges(t, reader, fleet.GetName())
			return usable["slurm"] == want["slurm"] && usable["also"] == want["also"]
		}, patience, 10*time.Millisecond, why)
	}
	awaitUsable("the test of one pool has failed", map[string]int64{"slurm": 1})

	j := w.submit(gang(2, 1))
	work := a.attempt()
	held, _ = slurmGauges(t, reader, fleet.GetName())
	require.Equal(t, map[string]int64{"capacity": 1}, held, "Slurm has stated no reason yet")
	for reason, class := range map[string]string{
		"Priority": "capacity", "Resources": "capacity", "Submission": "submission", "QOSMaxGRESPerUser": "limits", "AssocGrpGRES": "limits",
		"PartitionTimeLimit": "limits", "PartitionDown": "nodes", "ReqNodeNotAvail, UnavailableNodes:n1": "nodes", "Licenses": "other",
	} {
		a.hold(work, "4711", reason, "")
		w.awaitReason(j.GetId(), reason)
		held, _ = slurmGauges(t, reader, fleet.GetName())
		require.Equal(t, map[string]int64{class: 1}, held, reason)
	}
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	held, _ = slurmGauges(t, reader, fleet.GetName())
	require.Empty(t, held, "the job has started")

	broken := slurmReport("slurm", "also")
	broken.Problem = new("sinfo: error: Unable to contact slurm controller")
	a.reportSlurm(broken)
	awaitUsable("the agent cannot reach Slurm", nil)
	a.reportSlurm(slurmReport("slurm", "also"))
	awaitUsable("all is well again", map[string]int64{"slurm": 1, "also": 1})
	_, err := w.pool.Exec(t.Context(), `UPDATE node SET state = 'lost', lost_at = now() WHERE id = $1`, a.nodeID)
	require.NoError(t, err)
	_, usable = slurmGauges(t, reader, fleet.GetName())
	require.Equal(t, map[string]int64{"slurm": 0, "also": 0}, usable, "the agent is lost")
}
