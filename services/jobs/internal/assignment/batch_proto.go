package assignment

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Batch describes all ranks of an attempt to a Slurm cluster.
type Batch struct {
	Parts       []job.Pool
	Pools       map[string]fleet.SlurmPool // the settings of the pools of the parts
	Limit       time.Duration              // after which Slurm ends the attempt
	Priority    int
	NotIsolated bool // the attempt may run without isolation
}

// Batched returns the spec of an attempt that a Slurm cluster runs as a whole.
func Batched(raw []byte, b Batch) ([]byte, error) {
	spec := &jobsv1.AttemptSpec{}
	if err := proto.Unmarshal(raw, spec); err != nil {
		return nil, fmt.Errorf("decode the spec of an attempt: %w", err)
	}
	spec.Batch = &jobsv1.BatchSpec{
		TimeLimitS: int32(min(b.Limit/time.Second, math.MaxInt32)), Priority: int32(b.Priority), NotIsolated: b.NotIsolated,
	}
	for _, p := range b.Parts {
		spec.Batch.Parts = append(spec.Batch.Parts, &jobsv1.BatchPart{
			Role: p.Role, Nodes: int32(p.Nodes), GpusPerNode: int32(p.GPUsPerNode), Cpus: int32(p.CPU), MemoryBytes: p.Need().Memory,
			Pool: p.Pool, Slurm: fleet.SlurmPoolToProto(b.Pools[p.Pool]),
		})
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec of an attempt: %w", err)
	}
	return out, nil
}

// batchEnv returns the user's environment and the number of ranks. The agent adds the variables that describe each rank.
func batchEnv(w *Work, user map[string]string) map[string]string {
	env := make(map[string]string, len(user)+1)
	maps.Copy(env, user)
	env["SERVICE_JOB_NNODES"] = strconv.Itoa(w.NNodes)
	return env
}

// mostGPUs returns the largest number of GPUs that a rank gets.
func mostGPUs(b *jobsv1.BatchSpec) (most int32) {
	for _, p := range b.GetParts() {
		most = max(most, p.GetGpusPerNode())
	}
	return most
}

// batchPools returns the pools of all ranks of a work.
func batchPools(w *Work, spec *jobsv1.AttemptSpec) []string {
	if spec.GetBatch() == nil {
		return []string{w.Pool}
	}
	var pools []string
	for _, p := range spec.GetBatch().GetParts() {
		pools = append(pools, p.GetPool())
	}
	return pools
}

const (
	// maxBatchText bounds each short text from a batch system, in bytes.
	maxBatchText = 256
	// maxBatchNodes bounds the number of nodes in a report. A job has at most 16 parts of 4096 nodes.
	maxBatchNodes = 16 * 4096
)

func batchNodes(b *jobsv1.BatchReport) []string {
	if len(b.GetNodes()) == 0 {
		return nil
	}
	nodes := slices.Clone(b.GetNodes()[:min(len(b.GetNodes()), maxBatchNodes)])
	for i, n := range nodes {
		nodes[i] = cutTo(n, maxBatchText)
	}
	return nodes
}

func batchToProto(s Observed) *jobsv1.BatchReport {
	if s.BatchID == "" && s.BatchReason == "" && s.BatchDetail == "" && len(s.BatchNodes) == 0 {
		return nil
	}
	return &jobsv1.BatchReport{Id: s.BatchID, Reason: s.BatchReason, Detail: s.BatchDetail, Nodes: s.BatchNodes}
}

func cutTo(s string, limit int) string { return job.StorableText(s, limit) }
