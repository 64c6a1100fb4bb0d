package admission

import (
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// checkHardware refuses a job that could never be placed: its pool does not exist, or the known nodes of its pools are
// too few or too small even if idle. A pool without nodes accepts any request, because nodes may still join.
func checkHardware(d *Draft) error {
	taken := map[string]bool{}
	for _, p := range d.Spec.Resources.Pools {
		facts := d.Pools[p.Pool]
		if !facts.Known {
			return Refuse(Hardware, "pool %s does not exist", p.Pool)
		}
		if len(facts.Nodes) == 0 {
			continue
		}
		fit, need := 0, p.Need()
		need.Slots = 0 // the number of slots is a setting that can be raised, not a size of the node
		for _, n := range facts.Nodes {
			if fit < p.Nodes && !taken[n.ID] && n.Size.Holds(need) {
				taken[n.ID] = true
				fit++
			}
		}
		if fit < p.Nodes {
			return Refuse(Hardware, "pool %s has %d of the %d requested nodes with %d GPUs, %d CPUs and %d GB of memory each",
				p.Pool, fit, p.Nodes, p.GPUsPerNode, p.CPU, p.MemoryGB)
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
