package queue

import (
	"fmt"
	"strings"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Node is a place with what is free on it.
type Node struct {
	ID, Name            string
	Pools               []string
	GPUs, Slots         int // as a whole
	GPUsFree, SlotsFree int
	CPUs, CPUsFree      int
	MemoryBytes         int64 // as a whole
	MemoryFree          int64
	Drivers             []string // of engines; none known means any
}

// The ways to look at a node: with what is free, with all CPUs and memory free, and with everything free.
func asItIs(n Node) Node { return n }

func bulkFree(n Node) Node {
	n.CPUsFree, n.MemoryFree = n.CPUs, n.MemoryBytes
	return n
}

func empty(n Node) Node {
	n.GPUsFree, n.SlotsFree = n.GPUs, n.Slots
	return bulkFree(n)
}

const gigabyte = 1 << 30

func fits(n *Node, want job.Pool, slots int) bool {
	return n.GPUsFree >= want.GPUsPerNode && n.SlotsFree >= slots && n.CPUsFree >= want.CPU &&
		n.MemoryFree >= int64(want.MemoryGB)*gigabyte
}

func (n *Node) take(want job.Pool, slots int) {
	n.GPUsFree, n.SlotsFree = n.GPUsFree-want.GPUsPerNode, n.SlotsFree-slots
	n.CPUsFree, n.MemoryFree = n.CPUsFree-want.CPU, n.MemoryFree-int64(want.MemoryGB)*gigabyte
}

// asks tells in words what a part of a gang asks for.
func asks(p job.Pool) string {
	var each []string
	for _, part := range []struct {
		n    int
		unit string
	}{{p.GPUsPerNode, "GPUs"}, {p.CPU, "CPUs"}, {p.MemoryGB, "GB of memory"}} {
		if part.n > 0 {
			each = append(each, fmt.Sprintf("%d %s", part.n, part.unit))
		}
	}
	with := ""
	switch last := len(each) - 1; {
	case last == 0:
		with = " with " + each[0]
	case last > 0:
		with = " with " + strings.Join(each[:last], ", ") + " and " + each[last]
	}
	return fmt.Sprintf("%d nodes%s are asked for", p.Nodes, with)
}
