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
)

// States of a node.
const (
	NodeJoining   = "joining"
	NodeReady     = "ready"
	NodeDraining  = "draining"
	NodeUnhealthy = "unhealthy"
	NodeLost      = "lost"
)

// Fleet is a registered execution backend with the pools that it serves.
type Fleet struct {
	ID, Name, Kind, State string
	Pools                 []string
	Nodes                 int
	GPUs, GPUsFree        int
	CreatedAt             time.Time
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
	ID, FleetID string
	MaxUses     int
	ExpiresAt   time.Time
}

// The defaults of a join token.
const (
	DefaultTTL  = time.Hour
	DefaultUses = 1
)
