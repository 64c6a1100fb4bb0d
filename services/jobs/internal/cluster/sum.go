package cluster

import (
	"slices"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// nodeRow is a node as Sum counts it.
type nodeRow struct {
	pools, permitted []string
	state            string
	ready, away      bool // it can get work; it is lost
	gpus, held       int
	isSlurm          bool // it is the agent of a Slurm fleet
	slurm            fleet.Slurm
}

// count is a number of GPUs and how many of them are held.
type count struct{ gpus, held int }

// addNode adds a node to the counts of the cluster and of its pools. The agent of a Slurm fleet has the GPUs of the
// partitions of its pools. A partition is counted once, even if several pools use it.
func (s *Summary) addNode(n *nodeRow, pools map[string]*Pool) {
	all, each := count{n.gpus, n.held}, func(string) count { return count{n.gpus, n.held} }
	if n.isSlurm {
		n.permitted = n.slurm.Permitted(n.pools)
		all, each = partitions(&n.slurm, n.pools), func(pool string) count { return partitions(&n.slurm, []string{pool}) }
	}
	s.add(n.state, n.away, all)
	for _, name := range n.pools {
		p := pools[name]
		if p == nil {
			continue
		}
		p.add(n.ready, n.away, each(name))
		if slices.Contains(n.permitted, name) {
			p.Permitted++
		}
	}
}

func partitions(s *fleet.Slurm, pools []string) count {
	total, free := s.GPUs(pools)
	return count{total, total - free}
}

func (s *Summary) add(state string, away bool, c count) {
	s.Nodes++
	s.States[state]++
	if away {
		s.GPUsUnhealthy += c.gpus
		return
	}
	s.GPUs, s.GPUsFree = s.GPUs+c.gpus, s.GPUsFree+c.gpus-c.held
}

func (p *Pool) add(ready, away bool, c count) {
	p.Nodes++
	if ready {
		p.Ready++
	}
	if !away {
		p.GPUs, p.GPUsFree = p.GPUs+c.gpus, p.GPUsFree+c.gpus-c.held
	}
}
