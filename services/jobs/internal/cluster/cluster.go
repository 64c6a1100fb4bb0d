// Package cluster owns the cluster as a whole: how much there is, what waits for it, and what admins order of
// its nodes: to take nothing new, or to be emptied.
//
// It promises: what an admin ordered of a node holds whatever becomes of the node meanwhile, and nothing is
// placed on it until he takes the order back; a node is drained once nothing holds a place there; and the
// queue names no job to who may not see it.
//
// cluster.go is pure; store.go alone speaks SQL; server.go and cluster_proto.go alone speak proto.
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

// Order is what an admin ordered of a node.
type Order struct {
	Hold     string
	Reason   string
	Mode     string
	Deadline *time.Time
}

// of is the order under which a node stands.
func of(n *fleet.Node) Order {
	return Order{Hold: n.Hold, Reason: n.HoldReason, Mode: n.DrainMode, Deadline: n.DrainDeadline}
}

// Cordon keeps new work off a node. A drain goes further, and is no cordon any more.
func (o Order) Cordon(reason string) (Order, error) {
	if o.Hold == fleet.HoldDraining || o.Hold == fleet.HoldDrained {
		return o, fault.New(fault.Conflict, "node_drain", "the node is %s: uncordon it first", o.Hold)
	}
	return Order{Hold: fleet.HoldCordoned, Reason: reason}, nil
}

// Drain empties a node. One that is drained already stays so.
func (o Order) Drain(mode, reason string, deadline *time.Time) Order {
	to := Order{Hold: fleet.HoldDraining, Reason: reason, Mode: mode, Deadline: deadline}
	if o.Hold == fleet.HoldDrained {
		to.Hold = fleet.HoldDrained
	}
	return to
}

// Uncordon lets new work in again.
func (o Order) Uncordon() Order { return Order{} }

// Evicts says whether what still runs on a draining node is to be ended now.
func (o Order) Evicts(now time.Time) bool {
	return o.Hold == fleet.HoldDraining && (o.Mode == ModeKill || o.Deadline != nil && !now.Before(*o.Deadline))
}

// Summary is all that there is, in numbers.
type Summary struct {
	Fleets, Nodes         int
	States                map[string]int
	GPUs, GPUsFree        int
	GPUsUnhealthy         int
	JobsQueued, JobsPlace int
	Pools                 []Pool
}

// Pool is one pool in numbers.
type Pool struct {
	Name                       string
	Nodes, Ready               int
	GPUs, GPUsFree, JobsQueued int
}

// Waiting is a job in the queue. ID, Name and Detail are empty to who may not see it.
type Waiting struct {
	ID, Name, Detail string
	Position         int
	Pools            []string
	Nodes, GPUs      int
	Priority         int
	Reason           string
	Since            time.Time
}
