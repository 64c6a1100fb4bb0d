package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// checkHardware refuses a job that could never be placed: one of its pools does not exist, or neither the nodes of its
// pools nor a Slurm cluster that serves all of them could run it.
func checkHardware(d *Draft) error {
	return either(d, checkHosts, func(c *ClusterFacts) error { return checkCluster(d, c) })
}

// checkHosts refuses a job if one of its pools does not exist, or has too few known nodes that would be large enough when
// idle. A pool without nodes accepts any request, because nodes may still join.
func checkHosts(d *Draft) error {
	taken, offering := map[string]bool{}, map[string]bool{}
	for _, p := range d.Spec.Resources.Pools {
		facts := d.Pools[p.Pool]
		if !facts.Known {
			return refuseUnknown(p.Pool)
		}
		if fit := facts.fit(p, taken, func(NodeFacts) bool { return true }); fit < p.Nodes && len(facts.Nodes) > 0 {
			return Refuse(Hardware, "pool %s has %d of the %d requested nodes with %d GPUs, %d CPUs and %d GB of memory each",
				p.Pool, fit, p.Nodes, p.GPUsPerNode, p.CPU, p.MemoryGB)
		}
		if fit := facts.fit(p, offering, d.offered); fit < p.Nodes && len(facts.Nodes) > 0 {
			return refuseRuntime(p, fit, facts, Runtime(d))
		}
	}
	return nil
}

func refuseUnknown(pool string) error { return Refuse(Hardware, "pool %s does not exist", pool) }

// Runtime returns what the job needs from its nodes, see fleet.Offers.
func Runtime(d *Draft) string {
	switch r := d.Spec.Runtime; {
	case r == nil && d.Recipe != nil && d.Recipe.Environment != nil && d.Recipe.Environment.Lock != "":
		return fleet.RuntimeRequirements
	case r == nil || r.Image != nil:
		return ""
	case r.Node != "":
		return fleet.NodeRuntime(r.Node)
	default:
		return fleet.RuntimeRequirements
	}
}

// offered reports whether the node offers the environment that the job needs. It is true for a node that has never
// connected, because such a node may still turn out to offer it.
func (d *Draft) offered(n NodeFacts) bool {
	return n.Runtimes == nil || fleet.Offers(n.Runtimes, Runtime(d))
}

// mostOffered is the number of interpreters that a refusal names.
const mostOffered = 20

// refuseRuntime refuses a job for which a pool has too few nodes that offer its environment.
func refuseRuntime(p job.Pool, fit int, facts PoolFacts, runtime string) error {
	have := fmt.Sprintf("pool %s has %d of the %d requested nodes that %s", p.Pool, fit, p.Nodes, fleet.DescribeRuntime(runtime))
	if runtime == fleet.RuntimeRequirements {
		return Refuse(Hardware, "%s; upgrade the agents of its nodes, or choose another pool", have)
	}
	var offered []string
	for _, n := range facts.Nodes {
		offered = append(offered, fleet.Pythons(n.Runtimes)...)
	}
	slices.Sort(offered)
	if offered = slices.Compact(offered); len(offered) == 0 {
		return Refuse(Hardware, "%s; no node of the pool offers an interpreter, an admin can add one with SERVICE_AGENT_PYTHONS", have)
	}
	list := strings.Join(offered[:min(len(offered), mostOffered)], ", ")
	return Refuse(Hardware, "%s; nodes of the pool offer %s", have, list)
}

// fillMemory gives each part of a gang that requests no memory the default memory of its pool.
func fillMemory(d *Draft) {
	for i := range d.Spec.Resources.Pools {
		if p := &d.Spec.Resources.Pools[i]; p.MemoryGB == 0 {
			p.MemoryGB = d.Pools[p.Pool].MemoryGB
		}
	}
}

// fit looks for the nodes that a part of a gang requests. It chooses nodes of the pool that are not in the set taken
// and that the function ok accepts. It adds them to the set and returns how many it found.
func (f PoolFacts) fit(p job.Pool, taken map[string]bool, ok func(NodeFacts) bool) (fit int) {
	need := p.Need()
	need.Slots = 0 // the number of slots is a setting that can be raised, not a size of the node
	for _, n := range f.Nodes {
		if fit < p.Nodes && !taken[n.ID] && n.Size.Holds(need) && ok(n) {
			taken[n.ID] = true
			fit++
		}
	}
	return fit
}

// checkIsolation refuses a job that passed checkHardware but would never be placed: too few nodes isolate work in the
// way that the pool requires, or the job must run without network access and too few nodes support this; and the same is
// true of each Slurm cluster that could run the job.
func checkIsolation(d *Draft) error {
	hosts := func(d *Draft) error {
		if checkHosts(d) != nil {
			return errElsewhere
		}
		return checkHostIsolation(d)
	}
	return either(d, hosts, func(c *ClusterFacts) error {
		if checkCluster(d, c) != nil {
			return errElsewhere
		}
		return checkClusterIsolation(d, c)
	})
}

func checkHostIsolation(d *Draft) error {
	if err := checkPermitted(d); err != nil || d.Spec.Network != jobspec.NetworkNone {
		return err
	}
	taken := map[string]bool{}
	for _, p := range d.Spec.Resources.Pools {
		facts := d.Pools[p.Pool]
		if fit := facts.fit(p, taken, func(n NodeFacts) bool { return n.Permitted && n.ClosesNetwork && d.offered(n) }); fit < p.Nodes && len(facts.Nodes) > 0 {
			return fleet.RefuseOpenNetwork(p.Pool)
		}
	}
	return nil
}

func checkPermitted(d *Draft) error {
	taken := map[string]bool{}
	for _, p := range d.Spec.Resources.Pools {
		facts := d.Pools[p.Pool]
		if fit := facts.fit(p, taken, func(n NodeFacts) bool { return n.Permitted && d.offered(n) }); fit < p.Nodes && len(facts.Nodes) > 0 {
			return fleet.RefuseIsolation(p.Pool, fit, p.Nodes)
		}
	}
	return nil
}

// checkQuota refuses only a request above the limit of the account or of the project's team. A request within the limit
// is admitted and waits until other jobs have released enough GPUs.
func checkQuota(d *Draft) error {
	requested, least := job.Demand(d.Spec.Resources.Pools), d.Account
	if d.Team != nil && d.Team.Limit < least.Limit {
		least = *d.Team
	}
	if !least.Admits(requested) {
		return refuseAs(fault.Forbidden, Quota, "requested %d GPUs, %d available", requested, least.Limit)
	}
	return nil
}
