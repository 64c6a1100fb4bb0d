package scheduler

import (
	"fmt"
	"slices"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// A Slurm cluster decides itself on which of its nodes a gang runs, and when. The scheduler only limits how many gangs it
// has at once, so that most of a long queue stays here, in the order of the scheduler.

// slurmNeed returns the room that a gang takes on the agent of a Slurm fleet.
func slurmNeed() job.Room { return job.Room{Slots: 1} }

// slurm returns the place of a gang on a Slurm cluster that can take it now, or nil.
func (p *plan) slurm(w Waiting) []Place {
	for _, n := range p.nodes {
		if n.fits(slurmNeed()) && n.suitsGang(w.Pools, w.NoNetwork, w.Runtime) {
			return []Place{{NodeID: n.ID, Pool: w.Pools[0], Parts: w.Pools}}
		}
	}
	return nil
}

// suitsGang reports whether the node is the agent of a Slurm fleet that may run a gang with the given requirements.
func (n *Node) suitsGang(pools []job.Pool, noNetwork bool, runtime string) bool {
	names := poolNames(pools)
	return n.serves(names) && n.Slurm.Permits(names) && fleet.Offers(n.Runtimes, runtime) &&
		(!noNetwork || n.Slurm.ClosesNetwork(names, false))
}

// serves reports whether the node is the agent of a Slurm fleet that serves all the pools.
func (n *Node) serves(pools []string) bool {
	return n.Slurm != nil && !slices.ContainsFunc(pools, func(pool string) bool {
		return !slices.Contains(n.Pools, pool) && !slices.Contains(n.Refused, pool)
	})
}

func poolNames(pools []job.Pool) []string {
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.Pool
	}
	return names
}

// shortOfSlurm returns why no Slurm cluster takes a gang now. The reason is empty if no Slurm fleet serves all its pools,
// or if nodes that run work themselves are in one of them. If a cluster only has too many gangs, shortOfSlurm reserves the
// job's pools.
func (p *plan) shortOfSlurm(w Waiting) (d Decision) {
	names := poolNames(w.Pools)
	if slices.ContainsFunc(p.nodes, func(n *Node) bool { return n.Slurm == nil && n.inAny(names) }) {
		return d
	}
	for _, n := range p.nodes {
		if !n.serves(names) {
			continue
		}
		if n.suitsGang(w.Pools, w.NoNetwork, w.Runtime) {
			for _, pool := range names {
				p.reserved[pool] = reservation{jobID: w.JobID}
			}
			return Decision{
				Reason: job.WaitPoolCapacity,
				Detail: fmt.Sprintf("pool %s is full: its Slurm fleet already has %s; the job waits here until one of them ends", names[0], plural(n.Slots, "job")),
			}
		}
		if d.Reason == "" {
			d = n.refusesGang(names, w)
		}
	}
	return d
}

// inAny reports whether the node is in one of the pools.
func (n *Node) inAny(pools []string) bool {
	return slices.ContainsFunc(pools, func(pool string) bool { return slices.Contains(n.Pools, pool) || slices.Contains(n.Refused, pool) })
}

// refusesGang returns why a Slurm cluster whose fleet serves the pools cannot run a gang.
func (n *Node) refusesGang(pools []string, w Waiting) Decision {
	if why := n.Slurm.Refusal(pools); why != "" {
		return Decision{Reason: job.WaitIsolation, Detail: why}
	}
	if why := n.Slurm.Waits(pools); why != "" {
		return Decision{Reason: job.WaitPoolCapacity, Detail: why}
	}
	if !fleet.Offers(n.Runtimes, w.Runtime) {
		return Decision{
			Reason: job.WaitPoolCapacity,
			Detail: fmt.Sprintf("the agent of the Slurm fleet of pool %s does not %s", pools[0], fleet.DescribeRuntime(w.Runtime)),
		}
	}
	return Decision{Reason: job.WaitIsolation, Detail: fmt.Sprintf("the Slurm fleet of pool %s cannot run a job without network access", pools[0])}
}
