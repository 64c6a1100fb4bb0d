// Package cluster owns the view of the whole cluster: its capacity, its queue, and the orders that admins give
// for its nodes (cordon and drain).
//
// It promises:
//   - An order stays in force until an admin withdraws it, whatever the state of the node. Until then, nothing is
//     placed on the node.
//   - A node is drained once no work item holds capacity on it.
//   - The queue hides the names of jobs from callers who may not see them.
//
// cluster.go and sum.go are pure; only store*.go use SQL; only server.go and cluster_proto.go use proto types.
package cluster

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// The ways to drain a node.
const (
	ModeWait       = "wait"
	ModeCheckpoint = "checkpoint"
	ModeKill       = "kill"
)

// Order is an admin's order for a node: the hold, its reason and, for a drain, the mode and the deadline.
type Order struct {
	Hold     string
	Reason   string
	Mode     string
	Deadline *time.Time
}

// of returns the order that is in force for a node.
func of(n *fleet.Node) Order {
	return Order{Hold: n.Hold, Reason: n.HoldReason, Mode: n.DrainMode, Deadline: n.DrainDeadline}
}

// Cordon returns an order that excludes the node from new work, or a conflict if the node is draining or drained.
func (o Order) Cordon(reason string) (Order, error) {
	if o.Hold == fleet.HoldDraining || o.Hold == fleet.HoldDrained {
		return o, fault.New(fault.Conflict, "node_drain", "the node is %s; uncordon it first", o.Hold)
	}
	return Order{Hold: fleet.HoldCordoned, Reason: reason}, nil
}

// Drain returns an order that empties the node. A node that is already drained stays drained.
func (o Order) Drain(mode, reason string, deadline *time.Time) Order {
	to := Order{Hold: fleet.HoldDraining, Reason: reason, Mode: mode, Deadline: deadline}
	if o.Hold == fleet.HoldDrained {
		to.Hold = fleet.HoldDrained
	}
	return to
}

// Uncordon returns the empty order, which allows new work on the node again.
func (o Order) Uncordon() Order { return Order{} }

// Evicts reports whether the work that still runs on a draining node must be ended now.
func (o Order) Evicts(now time.Time) bool {
	return o.Hold == fleet.HoldDraining && (o.Mode == ModeKill || o.Deadline != nil && !now.Before(*o.Deadline))
}

// Summary holds the counts of the whole cluster.
type Summary struct {
	Fleets, Nodes         int
	States                map[string]int
	GPUs, GPUsFree        int
	GPUsUnhealthy         int
	JobsQueued, JobsPlace int
	Pools                 []Pool
}

// Pool holds the counts of one pool.
type Pool struct {
	Name                       string
	Nodes, Ready               int
	GPUs, GPUsFree, JobsQueued int
	Settings
	Permitted int // nodes that may run work of the pool
}

// Waiting is a job in the queue. ID, Name and Detail are empty if the caller may not see the job.
type Waiting struct {
	ID, Name, Detail string
	Position         int
	Pools            []string
	Nodes, GPUs      int
	Priority         int
	Reason           string
	Since            time.Time
}
