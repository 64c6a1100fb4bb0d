package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// errElsewhere skips a place that the hardware gate does not accept.
var errElsewhere = errors.New("the hardware gate does not accept this place")

// either checks a draft for the nodes of its pools, if nodes serve all of them, and for each Slurm cluster that serves all
// of them. One place that accepts the draft suffices; otherwise either returns the first refusal.
func either(d *Draft, hosts func(d *Draft) error, cluster func(c *ClusterFacts) error) error {
	var first error
	refused := func(err error) bool {
		if first == nil && !errors.Is(err, errElsewhere) {
			first = err
		}
		return err != nil
	}
	hosted := !slices.ContainsFunc(d.Spec.Resources.Pools, func(p job.Pool) bool { return d.Pools[p.Pool].OnlySlurm })
	if hosted && !refused(hosts(d)) {
		return nil
	}
	clusters := d.clusters()
	for i := range clusters {
		if !refused(cluster(&clusters[i])) {
			return nil
		}
	}
	if first == nil && !hosted && len(clusters) == 0 {
		return refuseMixed(d)
	}
	return first
}

// clusters returns the Slurm clusters that serve all pools of the job.
func (d *Draft) clusters() (all []ClusterFacts) {
	pools := d.Spec.Resources.Pools
	for _, c := range d.Pools[pools[0].Pool].Clusters {
		missing := func(p job.Pool) bool {
			return !slices.ContainsFunc(d.Pools[p.Pool].Clusters, func(o ClusterFacts) bool { return o.FleetID == c.FleetID })
		}
		if !slices.ContainsFunc(pools, missing) {
			all = append(all, c)
		}
	}
	return all
}

// poolNames returns the names of the job's pools.
func (d *Draft) poolNames() (names []string) {
	for _, p := range d.Spec.Resources.Pools {
		if !slices.Contains(names, p.Pool) {
			names = append(names, p.Pool)
		}
	}
	return names
}

// refuseMixed refuses a job whose pools cannot work together: neither nodes nor one Slurm cluster serve all of them.
func refuseMixed(d *Draft) error {
	names := d.poolNames()
	if i := slices.IndexFunc(names, func(name string) bool { return !d.Pools[name].Known }); i >= 0 {
		return refuseUnknown(names[i])
	}
	slurm := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(d.Pools[name].Clusters) == 0 })
	return Refuse(Hardware, "the pools %s cannot run one job together: %s on Slurm; use pools of one Slurm fleet, or only pools that do not run on Slurm",
		strings.Join(names, " and "), runs(slurm))
}

func runs(pools []string) string {
	if len(pools) == 1 {
		return pools[0] + " runs"
	}
	return strings.Join(pools, " and ") + " run"
}

// checkCluster refuses a job that a Slurm cluster could never run: a pool has no settings, or its partition is unknown or
// too small. Sizes that the agent has not reported are not checked.
func checkCluster(d *Draft, c *ClusterFacts) error {
	nodes := map[string]int{} // by partition
	for _, p := range d.Spec.Resources.Pools {
		if why := c.Slurm.NoSettings(p.Pool); why != "" {
			return Refuse(Hardware, "%s", why)
		}
		part := c.Slurm.Partition(p.Pool)
		if part == nil {
			if err := checkPartitionKnown(p, c.Slurm); err != nil {
				return err
			}
			continue
		}
		nodes[part.Name] += p.Nodes
		if err := checkPartition(d, p, part, nodes[part.Name]); err != nil {
			return err
		}
	}
	if c.Runtimes != nil && !fleet.Offers(c.Runtimes, Runtime(d)) {
		return refuseClusterRuntime(d, c)
	}
	return nil
}

// checkPartitionKnown refuses a pool whose partition the agent does not report, although it reports others.
func checkPartitionKnown(p job.Pool, s *fleet.Slurm) error {
	if s.Report == nil || s.Report.Problem != "" || len(s.Report.Partitions) == 0 {
		return nil
	}
	return Refuse(Hardware, "the Slurm cluster has no partition %s, which pool %s uses; an admin corrects that with PATCH /api/cluster/pools/%s",
		s.Pools[p.Pool].Slurm.Partition, p.Pool, p.Pool)
}

// checkPartition refuses a part of a gang that does not fit a partition. The parts up to this one need the given number of
// its nodes.
func checkPartition(d *Draft, p job.Pool, part *fleet.SlurmPartition, nodes int) error {
	const gigabyte = 1 << 30
	switch {
	case nodes > part.Nodes:
		return Refuse(Hardware, "pool %s has %d of the %d requested nodes: its Slurm partition %s has no more", p.Pool, part.Nodes, nodes, part.Name)
	case p.GPUsPerNode > part.GPUsPerNode || p.CPU > part.CPUsPerNode || p.Need().Memory > part.MemoryPerNode:
		return Refuse(Hardware, "pool %s has no node with %d GPUs, %d CPUs and %d GB of memory: the largest of its Slurm partition %s has %d GPUs, %d CPUs and %d GB",
			p.Pool, p.GPUsPerNode, p.CPU, p.MemoryGB, part.Name, part.GPUsPerNode, part.CPUsPerNode, part.MemoryPerNode/gigabyte)
	}
	limits := d.Spec.Limits
	needed := int64(job.BatchLimit(limits.RunningS, limits.StartingS, d.Spec.Checkpoint.GraceS) / time.Second)
	if part.MaxTimeS > 0 && needed > part.MaxTimeS {
		return Refuse(Hardware, "the Slurm partition %s of pool %s lets a job run for at most %d seconds, but the limits of the job need %d; lower limits.running_s by %d",
			part.Name, p.Pool, part.MaxTimeS, needed, needed-part.MaxTimeS)
	}
	return nil
}

// refuseClusterRuntime refuses a job whose environment the agent of a Slurm fleet does not offer.
func refuseClusterRuntime(d *Draft, c *ClusterFacts) error {
	have := fmt.Sprintf("the agent of the Slurm fleet of pool %s does not %s", d.Spec.Resources.Pools[0].Pool, fleet.DescribeRuntime(Runtime(d)))
	if offered := fleet.Pythons(c.Runtimes); Runtime(d) != fleet.RuntimeRequirements && len(offered) > 0 {
		return Refuse(Hardware, "%s; it offers %s", have, strings.Join(offered[:min(len(offered), mostOffered)], ", "))
	}
	return Refuse(Hardware, "%s; upgrade or configure the agent, or choose another pool", have)
}

// checkClusterIsolation refuses a job that a Slurm cluster must not run, because its nodes do not isolate work as the pools
// require, or cannot run it without network access.
func checkClusterIsolation(d *Draft, c *ClusterFacts) error {
	names := d.poolNames()
	if why := c.Slurm.Refusal(names); why != "" {
		return fleet.RefuseSlurm(why)
	}
	if d.Spec.Network == jobspec.NetworkNone && !c.Slurm.ClosesNetwork(names, true) {
		return fleet.RefuseSlurm(fmt.Sprintf("the Slurm fleet of pool %s has no nodes that can run a job without network access; use another pool, or submit the job without spec.network", names[0]))
	}
	return nil
}
