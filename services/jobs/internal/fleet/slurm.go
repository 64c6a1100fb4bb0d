package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// SlurmPool is how the jobs of a pool run on a Slurm cluster. In the zero value, no admin has set it yet.
type SlurmPool struct {
	Partition string `json:"partition"`
	Account   string `json:"account"`
	QOS       string `json:"qos"`
	User      string `json:"user"`
	Folder    string `json:"folder"`
}

// Set reports whether an admin has set how the jobs run.
func (p SlurmPool) Set() bool { return p.Partition != "" }

// Describe returns the settings for events, as in "partition gpu, account lab, folder /shared". It is empty if they are
// not set.
func (p SlurmPool) Describe() string {
	var parts []string
	for _, field := range []struct{ name, value string }{
		{"partition", p.Partition}, {"account", p.Account}, {"qos", p.QOS}, {"user", p.User}, {"folder", p.Folder},
	} {
		if field.value != "" {
			parts = append(parts, field.name+" "+field.value)
		}
	}
	return strings.Join(parts, ", ")
}

// SlurmReport is the state of a Slurm cluster, as the agent of its fleet reports it.
type SlurmReport struct {
	Version    string           `json:"version"`
	Partitions []SlurmPartition `json:"partitions"`
	// Problem is why the agent cannot reach Slurm, or "".
	Problem string      `json:"problem"`
	Pools   []SlurmTest `json:"pools"`
}

// SlurmTest is the result of an agent's test of a pool.
type SlurmTest struct {
	Pool string `json:"pool"`
	// Slurm are the settings with which the pool was tested.
	Slurm SlurmPool `json:"slurm"`
	// Isolation is how the nodes isolate work: own_user, user_namespace or none. It is empty if the test could not run.
	Isolation string `json:"isolation"`
	// Problem is why the pool cannot be used, or why its work is not isolated; otherwise it is empty.
	Problem       string     `json:"problem"`
	ClosesNetwork bool       `json:"closes_network"`
	TestedAt      *time.Time `json:"tested_at"`
}

// isolates reports whether the nodes of the pool isolate the work that they run.
func (t *SlurmTest) isolates() bool {
	return t.Isolation == "own_user" || t.Isolation == "user_namespace"
}

// SlurmPartition is a partition of a Slurm cluster.
type SlurmPartition struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Nodes     int    `json:"nodes"`
	NodesIdle int    `json:"nodes_idle"`
	NodesDown int    `json:"nodes_down"`
	GPUs      int    `json:"gpus_total"`
	GPUsUsed  int    `json:"gpus_used"`
	// The sizes of the largest node.
	CPUsPerNode   int   `json:"cpus_per_node"`
	MemoryPerNode int64 `json:"memory_bytes_per_node"`
	GPUsPerNode   int   `json:"gpus_per_node"`
	JobsWaiting   int   `json:"jobs_waiting"`
	// MaxTimeS is the longest time in seconds that a job may run; 0 means no limit.
	MaxTimeS int64 `json:"max_time_s"`
}

// SlurmSettings are the settings of a pool that matter for a Slurm cluster.
type SlurmSettings struct {
	Slurm     SlurmPool `json:"slurm"`
	Isolation string    `json:"isolation"`
}

// Slurm is what is known of the cluster of a Slurm fleet: the settings of the fleet's pools and the report of its agent.
type Slurm struct {
	Report *SlurmReport             // nil before the first report
	Pools  map[string]SlurmSettings // by name; a pool that no admin has changed is missing
}

// Partition returns the partition of a pool. It returns nil if the agent has not reported it, or if the pool has no
// settings.
func (s *Slurm) Partition(pool string) *SlurmPartition {
	name := s.Pools[pool].Slurm.Partition
	if s.Report == nil || name == "" {
		return nil
	}
	i := slices.IndexFunc(s.Report.Partitions, func(p SlurmPartition) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Report.Partitions[i]
}

// test returns the result of the test of a pool with its current settings, or nil before that test.
func (s *Slurm) test(pool string) *SlurmTest {
	if s.Report == nil {
		return nil
	}
	set := s.Pools[pool].Slurm
	i := slices.IndexFunc(s.Report.Pools, func(t SlurmTest) bool { return t.Pool == pool && t.Slurm == set })
	if i < 0 {
		return nil
	}
	return &s.Report.Pools[i]
}

// open reports whether an admin permits work of the pool without isolation.
func (s *Slurm) open(pool string) bool { return s.Pools[pool].Isolation == IsolationNone }

// Open reports whether a job of the pools may run without isolation.
func (s *Slurm) Open(pools []string) bool {
	return !slices.ContainsFunc(pools, func(pool string) bool { return !s.open(pool) })
}

// NoSettings returns the refusal of work of a pool for which no admin has set how its jobs run on Slurm, or an empty text
// if the settings exist.
func (s *Slurm) NoSettings(pool string) string {
	if s.Pools[pool].Slurm.Set() {
		return ""
	}
	return fmt.Sprintf("pool %s has no Slurm settings yet; an admin sets them with PATCH /api/cluster/pools/%s", pool, pool)
}

// Refusal returns why the cluster cannot run a job of the pools before it is repaired or the pools are changed, or an
// empty text. Pools that the agent has not tested yet are not refused, because the test may still succeed.
func (s *Slurm) Refusal(pools []string) string {
	for _, pool := range pools {
		t := s.test(pool)
		if t == nil {
			continue
		}
		if t.Isolation != "none" && (t.Problem != "" || !t.isolates()) {
			return fmt.Sprintf("pool %s cannot be used: %s; repair the Slurm cluster, or have an admin correct the settings of the pool", pool, problem(t))
		}
		if !t.isolates() && !s.open(pool) {
			return fmt.Sprintf("the nodes of pool %s do not isolate the work they run: %s; repair that, or have an admin permit work without isolation in the pool",
				pool, problem(t))
		}
		if !t.isolates() && !s.Open(pools) {
			return fmt.Sprintf("the nodes of pool %s do not isolate the work they run, but another pool of the job requires that; use pools with equal isolation", pool)
		}
	}
	return ""
}

func problem(t *SlurmTest) string {
	if t.Problem != "" {
		return t.Problem
	}
	return "its test ended without a result"
}

// Waits returns why the cluster cannot run a job of the pools yet, or an empty text. It does not repeat the reasons of
// Refusal.
func (s *Slurm) Waits(pools []string) string {
	for _, pool := range pools {
		if why := s.NoSettings(pool); why != "" {
			return why
		}
	}
	if s.Report != nil && s.Report.Problem != "" {
		return "the agent of the Slurm fleet cannot reach Slurm: " + s.Report.Problem
	}
	for _, pool := range pools {
		if p := s.Partition(pool); p != nil && (strings.HasPrefix(p.State, "drain") || strings.HasPrefix(p.State, "inact")) {
			return fmt.Sprintf("partition %s of pool %s accepts no jobs now: Slurm reports it as %s", p.Name, pool, p.State)
		}
		if s.test(pool) == nil {
			return fmt.Sprintf("pool %s is not tested yet; the agent of its Slurm fleet tests it with a short job", pool)
		}
	}
	return ""
}

// Permits reports whether the agent of the fleet may get work of the pools.
func (s *Slurm) Permits(pools []string) bool { return s.Refusal(pools) == "" && s.Waits(pools) == "" }

// Permitted returns the pools whose work the agent may get, out of the given ones.
func (s *Slurm) Permitted(pools []string) []string {
	permitted := []string{}
	for _, pool := range pools {
		if s.Permits([]string{pool}) {
			permitted = append(permitted, pool)
		}
	}
	return permitted
}

// ClosesNetwork reports whether the cluster can run jobs of the pools without network access. For pools that the agent
// has not tested yet, it returns the given value.
func (s *Slurm) ClosesNetwork(pools []string, untested bool) bool {
	for _, pool := range pools {
		if t := s.test(pool); t == nil && !untested || t != nil && !t.ClosesNetwork {
			return false
		}
	}
	return true
}

// GPUs returns the numbers of all and of the free GPUs in the partitions of the pools. Each partition is counted once.
func (s *Slurm) GPUs(pools []string) (total, free int) {
	seen := map[string]bool{}
	for _, pool := range pools {
		p := s.Partition(pool)
		if p == nil || seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		total, free = total+p.GPUs, free+max(0, p.GPUs-p.GPUsUsed)
	}
	return total, free
}

// countSlurm counts the GPUs of a Slurm fleet. The parameter away is true if its agent is lost.
func (f *Fleet) countSlurm(s *Slurm, away bool) {
	total, free := s.GPUs(f.Pools)
	if f.GPUs, f.GPUsFree, f.GPUsUnhealthy = total, free, 0; away {
		f.GPUs, f.GPUsFree, f.GPUsUnhealthy = 0, 0, total
	}
}
