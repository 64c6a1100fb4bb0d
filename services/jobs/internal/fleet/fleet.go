// Package fleet owns the fleets, their nodes and join tokens, and the liveness of nodes.
//
// A node that sends no message for the duration of the lease is lost and gets no new work. Its current work stays
// assigned to it until the fence timeout, so a node that returns before then continues without interruption.
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
	NodeJoining = "joining"
	NodeReady   = "ready"
	NodeLost    = "lost"
)

// The holds that an admin can put on a node, independent of its state.
const (
	HoldNone     = ""
	HoldCordoned = "cordoned"
	HoldDraining = "draining"
	HoldDrained  = "drained"
)

// CodeRemoved is the error code for a node that an admin removed, alone or with its fleet, or that did not connect in
// time after it had joined.
const CodeRemoved = "node_removed"

// Fleet is a registered execution backend and the pools that it serves.
type Fleet struct {
	ID, Name, Kind, State string
	Pools                 []string
	Nodes                 int
	GPUs, GPUsFree        int // of nodes that are not lost
	GPUsUnhealthy         int
	LastSeenAt            *time.Time
	CreatedAt             time.Time
	Slurm                 *SlurmReport // the newest report of the agent of a Slurm fleet, or nil
}

// Change holds an admin's changes to a fleet; nil fields stay unchanged.
type Change struct {
	Name, State *string
	Pools       []string
}

// Inventory is what a node reports about itself.
type Inventory struct {
	CPUs        int
	MemoryBytes int64
	GPUs        int
	Limits      string // how limits are enforced: cgroup2, cgroup1 or rlimit
	Version     string
}

// Work items without a GPU are mostly engines waiting for calls, so one CPU can serve several.
const (
	slotsPerCPU = 8
	leastSlots  = 16
)

// Slots returns how many work items without a GPU a node runs at once: the given setting, or a default if that is 0.
func (i Inventory) Slots(fixed int) int {
	if fixed > 0 {
		return fixed
	}
	return max(leastSlots, slotsPerCPU*i.CPUs)
}

// Node is one machine of a fleet.
type Node struct {
	ID, FleetID, Name, State string
	Kind                     string // of the fleet
	Pools                    []string
	// Permitted are the pools whose work the node may get. They depend on how the node isolates work, and on the
	// isolation that each pool requires.
	Permitted []string
	Boundary  *Boundary // nil until the node has connected
	// Slurm is what is known of the cluster of a Slurm fleet. It is nil for a node that runs work itself.
	Slurm *Slurm `db:"-"`
	Inventory
	SlotsTotal          int   `db:"slots"`
	GPUsFree, SlotsFree int   `db:"-"`
	CPUsFree            int   `db:"-"` // CPUs minus the requests of attempts that take capacity; some request none
	MemoryFree          int64 `db:"-"` // in bytes, computed like CPUsFree
	Drivers             []string
	Runtimes            []string // nil until the node has connected
	JoinedAt            time.Time
	LastSeenAt          *time.Time
	Works               int // attempts and engines that hold capacity

	Hold, HoldReason string
	DrainMode        string
	DrainDeadline    *time.Time
}

// DisplayState is the state that users see. For a ready node on which an admin has put a hold, it is the hold.
func (n *Node) DisplayState() string {
	if n.State == NodeReady && n.Hold != HoldNone {
		return n.Hold
	}
	return n.State
}

// Hello is the first message of a node's stream.
type Hello struct {
	NodeID      string
	Incarnation string
	Inventory   Inventory
	Drivers     []string
	Runtimes    []string
	Boundary    Boundary
	// RunsOn is what the agent runs works on, one of the kinds of fleets.
	RunsOn string
	// Slurm is the report of an agent that runs works on Slurm, or nil.
	Slurm *SlurmReport
}

// JoinToken permits nodes to join a fleet.
type JoinToken struct {
	ID, FleetID   string
	MaxUses, Uses int
	ExpiresAt     time.Time
	CreatedAt     time.Time
	RevokedAt     *time.Time
}

// Usable reports whether a node can join with the token now.
func (t *JoinToken) Usable(now time.Time) bool {
	return t.RevokedAt == nil && t.Uses < t.MaxUses && now.Before(t.ExpiresAt)
}

// The default lifetime and number of uses of a join token.
const (
	DefaultTTL  = time.Hour
	DefaultUses = 1
)
