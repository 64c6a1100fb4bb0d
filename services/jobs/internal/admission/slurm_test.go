package admission

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// slurmPools adds the pools of two Slurm fleets to the others. The pool gpu is one of hosts and of a Slurm fleet.
type slurmPools struct {
	fixed

	clusters map[string]ClusterFacts // by pool
}

func (p slurmPools) Pool(ctx context.Context, name string) (PoolFacts, error) {
	facts, err := p.fixed.Pool(ctx, name)
	if c, ok := p.clusters[name]; ok {
		facts.OnlySlurm = !facts.Known
		facts.Known, facts.Clusters = true, []ClusterFacts{c}
	}
	return facts, err
}

// newSlurmInputs returns lookups with the pools hpc and wide of one Slurm fleet, whose partitions are small and large, and
// the pool far of another one, whose agent has not connected.
func newSlurmInputs(change ...func(c *ClusterFacts)) *Inputs {
	small, large := fleet.SlurmPool{Partition: "small", Folder: "/s"}, fleet.SlurmPool{Partition: "large", Folder: "/s"}
	c := ClusterFacts{FleetID: "flt_1", Runtimes: []string{"node:cuda"}, Slurm: &fleet.Slurm{
		Pools: map[string]fleet.SlurmSettings{"hpc": {Slurm: small, Isolation: "required"}, "wide": {Slurm: large, Isolation: "required"}, "gpu": {Slurm: large}},
		Report: &fleet.SlurmReport{
			Partitions: []fleet.SlurmPartition{
				{Name: "small", Nodes: 2, GPUsPerNode: 4, CPUsPerNode: 16, MemoryPerNode: 64 << 30, MaxTimeS: 3600},
				{Name: "large", Nodes: 8, GPUsPerNode: 8, CPUsPerNode: 64, MemoryPerNode: 512 << 30},
			},
			Pools: []fleet.SlurmTest{
				{Pool: "hpc", Slurm: small, Isolation: "own_user"}, {Pool: "wide", Slurm: large, Isolation: "user_namespace", ClosesNetwork: true},
			},
		},
	}}
	for _, f := range change {
		f(&c)
	}
	far := ClusterFacts{FleetID: "flt_2", Slurm: &fleet.Slurm{Pools: map[string]fleet.SlurmSettings{"far": {Slurm: small}}}}
	in := newInputs()
	in.Pools = slurmPools{clusters: map[string]ClusterFacts{"hpc": c, "wide": c, "unset": c, "gpu": c, "far": far}}
	return in
}

func part(pool string, nodes, gpus, cpu, gb int) job.Pool {
	return job.Pool{Pool: pool, Nodes: nodes, GPUsPerNode: gpus, CPU: cpu, MemoryGB: gb}
}

func TestRun_slurm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pools  []job.Pool
		change func(c *ClusterFacts)
		draft  func(d *Draft)
		kind   fault.Kind
		want   string
	}{
		"fits":                          {pools: []job.Pool{part("hpc", 2, 4, 16, 64)}},
		"two parts":                     {pools: []job.Pool{part("hpc", 1, 1, 0, 0), part("wide", 2, 0, 0, 0)}},
		"agent never connected":         {pools: []job.Pool{part("far", 9, 0, 0, 0)}},
		"partitions unknown":            {pools: []job.Pool{part("hpc", 9, 0, 0, 0)}, change: func(c *ClusterFacts) { c.Slurm.Report.Partitions = nil }},
		"hosts too small, Slurm is not": {pools: []job.Pool{part("gpu", 1, 8, 64, 500)}},
		"no settings": {
			pools: []job.Pool{part("unset", 1, 0, 0, 0)}, kind: fault.Refused,
			want: "hardware: pool unset has no Slurm settings yet; an admin sets them with PATCH /api/cluster/pools/unset",
		},
		"too many nodes": {
			pools: []job.Pool{part("hpc", 3, 0, 0, 0)}, kind: fault.Refused,
			want: "hardware: pool hpc has 2 of the 3 requested nodes: its Slurm partition small has no more",
		},
		"too many nodes in two parts": {
			pools: []job.Pool{part("hpc", 2, 0, 0, 0), part("hpc", 1, 1, 0, 0)}, kind: fault.Refused,
			want: "hardware: pool hpc has 2 of the 3 requested nodes: its Slurm partition small has no more",
		},
		"too many GPUs": {
			pools: []job.Pool{part("hpc", 1, 5, 0, 0)}, kind: fault.Refused,
			want: "hardware: pool hpc has no node with 5 GPUs, 0 CPUs and 0 GB of memory: the largest of its Slurm partition small has 4 GPUs, 16 CPUs and 64 GB",
		},
		"too many CPUs": {
			pools: []job.Pool{part("hpc", 1, 0, 17, 0)}, kind: fault.Refused, want: "hardware: pool hpc has no node with 0 GPUs, 17 CPUs",
		},
		"too much memory": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 65)}, kind: fault.Refused, want: "hardware: pool hpc has no node with 0 GPUs, 0 CPUs and 65 GB",
		},
		"too long": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0)}, draft: func(d *Draft) { d.Spec.Limits.RunningS = 3000 }, kind: fault.Refused,
			want: "hardware: the Slurm partition small of pool hpc lets a job run for at most 3600 seconds, but the limits of the job need 3630; lower limits.running_s by 30",
		},
		"no such partition": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0)}, change: func(c *ClusterFacts) { c.Slurm.Report.Partitions = c.Slurm.Report.Partitions[1:] }, kind: fault.Refused,
			want: "hardware: the Slurm cluster has no partition small, which pool hpc uses; an admin corrects that with PATCH /api/cluster/pools/hpc",
		},
		"hosts and Slurm": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0), part("cpu", 1, 0, 0, 0)}, kind: fault.Refused,
			want: "hardware: the pools hpc and cpu cannot run one job together: hpc runs on Slurm; use pools of one Slurm fleet, or only pools that do not run on Slurm",
		},
		"unknown pool": {pools: []job.Pool{part("hpc", 1, 0, 0, 0), part("nowhere", 1, 0, 0, 0)}, kind: fault.Refused, want: "hardware: pool nowhere does not exist"},
		"first refusal": {
			pools: []job.Pool{part("cpu", 3, 0, 0, 0), part("nowhere", 1, 0, 0, 0)}, kind: fault.Refused, want: "hardware: pool cpu has 2 of the 3 requested nodes",
		},
		"two Slurm fleets": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0), part("far", 1, 0, 0, 0)}, kind: fault.Refused,
			want: "hardware: the pools hpc and far cannot run one job together: hpc and far run on Slurm; use pools of one Slurm fleet, or only pools that do not run on Slurm",
		},
		"unknown interpreter": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0)}, draft: func(d *Draft) { custom(d); d.Spec.Runtime = &jobspec.Runtime{Node: "jax"} }, kind: fault.Refused,
			want: "hardware: the agent of the Slurm fleet of pool hpc does not offer the interpreter jax; it offers cuda",
		},
		"lock": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0)}, draft: func(d *Draft) { custom(d); d.Spec.Runtime = &jobspec.Runtime{Requirements: "uv.lock"} }, kind: fault.Refused,
			want: "hardware: the agent of the Slurm fleet of pool hpc does not build the environments of locks; upgrade or configure the agent, or choose another pool",
		},
		"not isolated": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0)}, change: func(c *ClusterFacts) { c.Slurm.Report.Pools[0].Isolation = "none" }, kind: fault.Forbidden,
			want: "isolation: the nodes of pool hpc do not isolate the work they run: its test ended without a result; repair that, or have an admin permit work without isolation in the pool",
		},
		"not tested": {pools: []job.Pool{part("hpc", 1, 0, 0, 0)}, change: func(c *ClusterFacts) { c.Slurm.Report.Pools = nil }},
		"cannot be used": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0)}, change: func(c *ClusterFacts) { c.Slurm.Report.Pools[0].Problem = "/s is not shared" }, kind: fault.Forbidden,
			want: "isolation: pool hpc cannot be used: /s is not shared; repair the Slurm cluster, or have an admin correct the settings of the pool",
		},
		"closed": {pools: []job.Pool{part("wide", 1, 0, 0, 0)}, draft: func(d *Draft) { d.Spec.Network = jobspec.NetworkNone }},
		"network stays open": {
			pools: []job.Pool{part("hpc", 1, 0, 0, 0)}, draft: func(d *Draft) { d.Spec.Network = jobspec.NetworkNone }, kind: fault.Forbidden,
			want: "isolation: the Slurm fleet of pool hpc has no nodes that can run a job without network access; use another pool, or submit the job without spec.network",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := draft()
			if d.Spec.Resources.Pools = c.pools; c.draft != nil {
				c.draft(d)
			}
			in := newSlurmInputs()
			if c.change != nil {
				in = newSlurmInputs(c.change)
			}
			err := Run(submitting(t, d), in.Gates(), d)
			if c.kind == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.kind, fault.From(err).Kind, "%v", err)
			require.Contains(t, fault.From(err).Text(), c.want)
		})
	}
}
