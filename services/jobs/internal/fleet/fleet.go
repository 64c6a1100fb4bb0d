// Package fleet owns the executors: fleets, their nodes, the tokens that let nodes join and the
// liveness of nodes.
//
// A node is ready while its stream or heartbeat was seen within the lease. Past the lease it is lost
// and gets nothing new; what it runs stays its own until it is fenced, so that a node that comes
// back in time goes on as if nothing had been.
package fleet

import "time"

// Kinds of fleets.
const (
	KindAgent      = "agent"
	KindKubernetes = "kubernetes"
	KindSlurm      = "slurm"
)

// States of a fleet.
const (
	Active   = "active"
	Draining = "draining"
	Disabled = "disabled"
)

// States of a node.
const (
	NodeJoining   = "joining"
	NodeReady     = "ready"
	NodeDraining  = "draining"
	NodeUnhealthy = "unhealthy"
	NodeLost      = "lost"
)

// What an admin ordered of a node, beside its state.
const (
	HoldNone     = ""
	HoldCordoned = "cordoned"
	HoldDraining = "draining"
	HoldDrained  = "drained"
)

// Fleet is a registered execution backend with the pools that it serves.
type Fleet struct {
	ID, Name, Kind, State string
	Pools                 []string
	Nodes                 int
	GPUs, GPUsFree        int // of nodes that are well
	GPUsUnhealthy         int
	LastSeenAt            *time.Time
	CreatedAt             time.Time
}

// Change is what an admin changes of a fleet; nil leaves it.
type Change struct {
	Name, State *string
	Pools       []string
}

// Inventory is what a node says it has.
type Inventory struct {
	CPUs        int
	MemoryBytes int64
	GPUs        int
	Limits      string // how limits are held: cgroup2, cgroup1 or rlimit
	Version     string
}

// Works without a GPU are mostly engines that wait for calls, so a CPU carries several.
const (
	slotsPerCPU = 8
	leastSlots  = 16
)

// Slots is how many works without a GPU a node takes at once; fixed is the setting, 0 for unset.
func (i Inventory) Slots(fixed int) int {
	if fixed > 0 {
		return fixed
	}
	return max(leastSlots, slotsPerCPU*i.CPUs)
}

// Node is one machine of a fleet.
type Node struct {
	ID, FleetID, Name, State string
	Pools                    []string
	Inventory
	SlotsTotal          int
	GPUsFree, SlotsFree int
	CPUsFree            int   // of what attempts asked for; who asked for none takes none
	MemoryFree          int64 // as CPUsFree, in bytes
	Drivers             []string
	JoinedAt            time.Time
	LastSeenAt          *time.Time
	Works               int // attempts and engines that hold a place

	Hold, HoldReason string
	DrainMode        string
	DrainDeadline    *time.Time
}

// Shown is the state as people see it: an admin's order while the node is well.
func (n *Node) Shown() string {
	if n.State == NodeReady && n.Hold != HoldNone {
		return n.Hold
	}
	return n.State
}

// Hello is how a node opens its stream.
type Hello struct {
	NodeID      string
	Incarnation string
	Inventory   Inventory
	Drivers     []string
}

// JoinToken lets nodes join a fleet.
type JoinToken struct {
	ID, FleetID   string
	MaxUses, Uses int
	ExpiresAt     time.Time
	CreatedAt     time.Time
	RevokedAt     *time.Time
}

// Usable says whether it lets a node in.
func (t *JoinToken) Usable(now time.Time) bool {
	return t.RevokedAt == nil && t.Uses < t.MaxUses && now.Before(t.ExpiresAt)
}

// The defaults of a join token.
const (
	DefaultTTL  = time.Hour
	DefaultUses = 1
)
