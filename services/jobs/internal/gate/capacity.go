package gate

import (
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// checkHardware refuses what could never be placed: an unknown pool, or a gang that the known nodes
// of its pools could not take even if nothing ran on them. A pool without nodes yet is given the
// benefit of the doubt.
func checkHardware(d *Draft) error {
	taken := map[string]bool{}
	for _, p := range d.Spec.Resources.Pools {
		facts := d.Pools[p.Pool]
		if !facts.Known {
			return Refuse(Hardware, "there is no pool %s", p.Pool)
		}
		if len(facts.Nodes) == 0 {
			continue
		}
		fit := 0
		for _, n := range facts.Nodes {
			if fit < p.Nodes && !taken[n.ID] && large(n, p) {
				taken[n.ID] = true
				fit++
			}
		}
		if fit < p.Nodes {
			return Refuse(Hardware, "pool %s has %d of the %d nodes that are asked for with %d GPUs, %d CPUs and %d GB of memory each",
				p.Pool, fit, p.Nodes, p.GPUsPerNode, p.CPU, p.MemoryGB)
		}
	}
	return nil
}

func large(n NodeFacts, p job.Pool) bool {
	return n.GPUs >= p.GPUsPerNode && n.CPUs >= p.CPU && n.MemoryGB >= p.MemoryGB
}

// checkQuota refuses only what the account, or the team of its project, could never hold. What they could
// hold once others end is admitted and waits.
func checkQuota(d *Draft) error {
	asked, least := job.Demand(d.Spec.Resources.Pools), d.Account
	if d.Team != nil && d.Team.Limit < least.Limit {
		least = *d.Team
	}
	if !least.Admits(asked) {
		return refuseAs(fault.Forbidden, Quota, "requested %d GPUs, %d available", asked, least.Limit)
	}
	return nil
}
