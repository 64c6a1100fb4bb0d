package assignment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func batch(phase string) *Work {
	w := attempt(phase)
	w.Batch, w.NNodes = true, 2
	return w
}

func inBatch(id, reason string, nodes ...string) func(*Observed) {
	return func(s *Observed) { s.BatchID, s.BatchReason, s.BatchDetail, s.BatchNodes = id, reason, "d", nodes }
}

func TestWork_Apply_batch(t *testing.T) {
	t.Parallel()
	w := batch("")
	require.True(t, w.Held())
	require.True(t, w.Apply(seen(gang.PhasePending, inBatch("7", "Priority"))))
	require.True(t, w.Held())
	require.False(t, w.Apply(seen(gang.PhasePending, inBatch("7", "Priority"))), "a repeated report")
	require.True(t, w.Apply(seen(gang.PhasePending, inBatch("", "Resources"))))
	require.Equal(t, []string{"7", "Resources", "d"}, []string{w.BatchID, w.BatchReason, w.BatchDetail})
	require.True(t, w.Apply(seen(gang.PhaseRunning, inBatch("7", "Resources", "n1", "n2", "n3"))))
	require.Equal(t, []string{"7", "", ""}, []string{w.BatchID, w.BatchReason, w.BatchDetail}, "a work that has started waits for nothing")
	require.Equal(t, []string{"n1", "n2"}, w.BatchNodes)
	require.False(t, w.Held())
	require.False(t, w.Apply(seen(gang.PhasePending, inBatch("8", "Priority"))), "a work that has started cannot be held again")
	require.True(t, w.Apply(seen(gang.PhaseExited, exits(0, ""))))
	require.Equal(t, []string{"n1", "n2"}, w.BatchNodes, "a report need not repeat the nodes")

	host := attempt(gang.PhasePending)
	require.False(t, host.Held())
	require.False(t, host.Apply(seen(gang.PhasePending, inBatch("7", "Priority", "n1"))), "a work on a host is in no batch system")
	require.Empty(t, host.BatchID+host.BatchReason)
}

// The agent of a Slurm fleet may restart without its memory of a held work. It then gets the work again.
func TestWork_Miss_held(t *testing.T) {
	t.Parallel()
	w := batch(gang.PhasePending)
	require.False(t, w.Miss(w.DesiredAt.Add(time.Hour)))
	w.Desired = WantStopped
	require.True(t, w.Miss(w.DesiredAt.Add(time.Hour)))
	require.Equal(t, gang.ExitLost, w.Exit.Reason)
}

func TestWorkToProto_batch(t *testing.T) {
	t.Parallel()
	template, err := proto.Marshal(&jobsv1.AttemptSpec{JobId: "job_1", Env: map[string]string{"A": "1"}})
	require.NoError(t, err)
	raw, err := Batched(template, Batch{
		Parts: []job.Pool{{Pool: "gpu", Role: "trainer", Nodes: 2, GPUsPerNode: 4, CPU: 8, MemoryGB: 2}, {Pool: "cpu", Role: "eval", Nodes: 1}},
		Pools: map[string]fleet.SlurmPool{"gpu": {Partition: "p", Folder: "/s"}, "cpu": {Partition: "q", Folder: "/s"}},
		Limit: 90 * time.Second, Priority: 60, NotIsolated: true,
	})
	require.NoError(t, err)
	w := &Work{Observed: Observed{Key: Key{ID: "wrk_1"}}, Kind: Attempt, Spec: raw, GPUs: 8, NNodes: 3, Number: 1, Batch: true, Pool: "gpu", Role: "trainer"}
	m, err := toProto(w, "http://x")
	require.NoError(t, err)
	want := &jobsv1.AttemptSpec{
		JobId: "job_1", Attempt: 1, IngestEndpoint: "http://x", Limits: &jobsv1.ResourceLimits{Gpus: 4},
		Env: map[string]string{"A": "1", "SERVICE_JOB_NNODES": "3"},
		Batch: &jobsv1.BatchSpec{TimeLimitS: 90, Priority: 60, NotIsolated: true, Parts: []*jobsv1.BatchPart{
			{Role: "trainer", Nodes: 2, GpusPerNode: 4, Cpus: 8, MemoryBytes: 2 << 30, Pool: "gpu", Slurm: &jobsv1.SlurmPool{Partition: "p", Folder: "/s"}},
			{Role: "eval", Nodes: 1, Pool: "cpu", Slurm: &jobsv1.SlurmPool{Partition: "q", Folder: "/s"}},
		}},
	}
	require.Empty(t, cmp.Diff(want, m.GetAttempt(), protocmp.Transform()), "the agent sets what differs between the ranks")
	require.Equal(t, []string{"gpu", "cpu"}, batchPools(w, m.GetAttempt()))
	_, err = Batched([]byte{0xff}, Batch{})
	require.Error(t, err)
}
