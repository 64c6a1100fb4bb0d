package cluster

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

func summaryToProto(s *Summary) *jobsv1.Cluster {
	m := &jobsv1.Cluster{
		Fleets: n32(s.Fleets), Nodes: n32(s.Nodes), NodesByState: make(map[string]int32, len(s.States)),
		GpusTotal: n32(s.GPUs), GpusFree: n32(s.GPUsFree), GpusUnhealthy: n32(s.GPUsUnhealthy),
		JobsQueued: n32(s.JobsQueued), JobsPlaced: n32(s.JobsPlace),
	}
	for state, n := range s.States {
		m.NodesByState[state] = n32(n)
	}
	for _, p := range s.Pools {
		m.Pools = append(m.Pools, &jobsv1.PoolSummary{
			Pool: p.Name, Nodes: n32(p.Nodes), NodesReady: n32(p.Ready), GpusTotal: n32(p.GPUs), GpusFree: n32(p.GPUsFree),
			JobsQueued: n32(p.JobsQueued), Isolation: p.Isolation, NodesPermitted: n32(p.Permitted), DefaultMemoryGb: n32(p.MemoryGB), OnSilence: p.OnSilence,
			Slurm: fleet.SlurmPoolToProto(p.Slurm), DefaultProcesses: n32(p.Processes),
		})
	}
	return m
}

func waitingToProto(w *Waiting) *jobsv1.QueueEntry {
	m := &jobsv1.QueueEntry{
		Position: n32(w.Position), Pools: w.Pools, Nodes: n32(w.Nodes), Gpus: n32(w.GPUs), Priority: n32(w.Priority),
		Reason: w.Reason, Since: timestamppb.New(w.Since),
	}
	if w.ID != "" {
		m.JobId, m.Name, m.ReasonDetail = &w.ID, &w.Name, &w.Detail
	}
	return m
}

func modeFromProto(mode jobsv1.DrainMode) string {
	switch mode {
	case jobsv1.DrainMode_DRAIN_MODE_KILL:
		return ModeKill
	case jobsv1.DrainMode_DRAIN_MODE_CHECKPOINT:
		return ModeCheckpoint
	case jobsv1.DrainMode_DRAIN_MODE_WAIT, jobsv1.DrainMode_DRAIN_MODE_UNSPECIFIED:
	}
	return ModeWait
}

func n32(n int) int32 { return int32(n) }
