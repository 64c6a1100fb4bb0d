package scheduler

import (
	"fmt"
	"strings"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Node is a node with its total and free resources.
type Node struct {
	ID, Name            string
	Pools               []string // the pools whose work the node may run
	Refused             []string // its other pools
	GPUs, Slots         int      // total
	GPUsFree, SlotsFree int
	CPUs, CPUsFree      int
	MemoryBytes         int64 // total
	MemoryFree          int64
	Drivers             []string // engine drivers; if empty, any
	ClosesNetwork       bool     // it can run work without network access
	Runtimes            []string // the environments that it offers
	// Slurm is what is known of the cluster of a Slurm fleet, whose agent the node is. The node takes whole gangs, and one
	// slot for each. It is nil for a node that runs work itself.
	Slurm *fleet.Slurm
}

// These functions are the views of a node for plan.gang: asItIs with its free resources, bulkFree with all CPUs and
// memory free, and empty with all resources free.
func asItIs(n Node) Node { return n }

func bulkFree(n Node) Node {
	n.CPUsFree, n.MemoryFree = n.CPUs, n.MemoryBytes
	return n
}

func empty(n Node) Node {
	n.GPUsFree, n.SlotsFree = n.GPUs, n.Slots
	return bulkFree(n)
}

// closing returns a view of the nodes for a job. If the job must run without network access, the view shows no room on
// nodes that cannot ensure that.
func (w Waiting) closing(view func(Node) Node) func(Node) Node {
	return func(n Node) Node {
		if w.NoNetwork && !n.ClosesNetwork {
			return Node{}
		}
		return view(n)
	}
}

// offering returns a view of the nodes for a job. It shows no room on nodes that do not offer what the job needs.
func (w Waiting) offering(view func(Node) Node) func(Node) Node {
	return func(n Node) Node {
		if !fleet.Offers(n.Runtimes, w.Runtime) {
			return Node{}
		}
		return view(n)
	}
}

// suited returns a view of the nodes for a job that shows room only on nodes that can run it.
func (w Waiting) suited(view func(Node) Node) func(Node) Node { return w.closing(w.offering(view)) }

func (n *Node) fits(need job.Room) bool {
	return job.Room{GPUs: n.GPUsFree, Slots: n.SlotsFree, CPUs: n.CPUsFree, Memory: n.MemoryFree}.Holds(need)
}

func (n *Node) take(need job.Room) {
	n.GPUsFree, n.SlotsFree = n.GPUsFree-need.GPUs, n.SlotsFree-need.Slots
	n.CPUsFree, n.MemoryFree = n.CPUsFree-need.CPUs, n.MemoryFree-need.Memory
}

// needs describes what a part of a gang needs, as in "the job needs 1 node with 2 GPUs and 1 CPU".
func needs(p job.Pool) string {
	var each []string
	if p.GPUsPerNode > 0 {
		each = append(each, plural(p.GPUsPerNode, "GPU"))
	}
	if p.CPU > 0 {
		each = append(each, plural(p.CPU, "CPU"))
	}
	if p.MemoryGB > 0 {
		each = append(each, fmt.Sprintf("%d GB of memory", p.MemoryGB))
	}
	text := "the job needs " + plural(p.Nodes, "node")
	if len(each) == 0 {
		return text
	}
	last := len(each) - 1
	if text += " with " + strings.Join(each[:last], ", "); last > 0 {
		text += " and "
	}
	if text += each[last]; p.Nodes > 1 {
		text += " each"
	}
	return text
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
