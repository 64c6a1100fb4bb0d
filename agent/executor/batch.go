package executor

import "time"

// BatchSpec describes all ranks of an attempt to a batch system, such as Slurm.
type BatchSpec struct {
	// Parts are the parts of the gang. Ranks are counted from 0 through the nodes of all parts, in this order.
	Parts []BatchPart `json:"parts"`
	// TimeLimit is the time after its start at which the batch system ends the attempt.
	TimeLimit time.Duration `json:"time_limit"`
	// Priority is between 0 and 100. Of two attempts in the same pool, the one with the higher priority should start first.
	Priority int `json:"priority"`
	// NotIsolated permits the attempt to run without isolation on nodes that cannot isolate it.
	NotIsolated bool `json:"not_isolated,omitempty"`
}

// Ranks returns the number of ranks, which is the number of nodes of all parts.
func (b BatchSpec) Ranks() (n int) {
	for _, p := range b.Parts {
		n += p.Nodes
	}
	return n
}

// BatchPart is a part of a gang: equal nodes of one pool. CPUs and MemoryBytes are those of each node; with 0, the batch
// system chooses them.
type BatchPart struct {
	Role        string    `json:"role,omitempty"`
	Nodes       int       `json:"nodes"`
	GPUsPerNode int       `json:"gpus_per_node,omitempty"`
	CPUs        int       `json:"cpus,omitempty"`
	MemoryBytes int64     `json:"memory_bytes,omitempty"`
	Pool        string    `json:"pool"`
	Slurm       SlurmPool `json:"slurm"`
}

// SlurmPool is how the jobs of a pool run on a Slurm cluster. An empty account, QOS or user is the default one.
type SlurmPool struct {
	Partition string `json:"partition"`
	Account   string `json:"account,omitempty"`
	QOS       string `json:"qos,omitempty"`
	// User is the Unix user that jobs run as; empty for the user of the agent.
	User string `json:"user,omitempty"`
	// Folder is a folder that the agent and all nodes of the partition share.
	Folder string `json:"folder"`
}

// BatchReport is the state of an attempt in a batch system.
type BatchReport struct {
	// ID is empty before the batch system has accepted the attempt.
	ID string `json:"id,omitempty"`
	// Reason is the batch system's own reason why the attempt waits, and Detail more about it. Both are empty once the
	// attempt has started.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Nodes are the host names of the nodes by rank, once the attempt has started.
	Nodes []string `json:"nodes,omitempty"`
}

// Pool is a pool whose jobs run on Slurm.
type Pool struct {
	Name  string
	Slurm SlurmPool
}

// ClusterReport is the state of a Slurm cluster.
type ClusterReport struct {
	Version    string
	Partitions []Partition // sorted by name
	// Problem is why the agent cannot reach Slurm; empty if it can.
	Problem string
	Pools   []PoolReport // sorted by name
}

// Partition is a partition of a Slurm cluster. The sizes per node are those of the largest node.
type Partition struct {
	Name, State                      string
	Nodes, NodesIdle, NodesDown      int
	GPUsTotal, GPUsUsed, GPUsPerNode int
	CPUsPerNode                      int
	MemoryPerNode                    int64
	JobsWaiting                      int
	// MaxTime is the longest time that a job may run; 0 for no limit.
	MaxTime time.Duration
}

// PoolReport is the result of the test of a pool.
type PoolReport struct {
	Pool  string    `json:"pool"`
	Slurm SlurmPool `json:"slurm"`
	// Isolation is the kind of isolation of a node of the partition; empty if the test could not run.
	Isolation     string    `json:"isolation,omitempty"`
	Problem       string    `json:"problem,omitempty"`
	ClosesNetwork bool      `json:"closes_network,omitempty"`
	TestedAt      time.Time `json:"tested_at"`
}

// Cluster is a batch system of an executor.
type Cluster interface {
	// SetPools sets the pools whose jobs run on the cluster. The cluster tests each of them.
	SetPools(pools []Pool)
	// Report returns the newest report. ReportChanges returns a channel that receives a value after it has changed.
	Report() ClusterReport
	ReportChanges() <-chan struct{}
}
