// Package scheduler decides which nodes run the waiting work, and states why the rest waits.
//
// Plan is pure and makes all decisions. The scheduler only reads its input and carries out its decisions, each in a
// transaction that checks the resources again. Concurrent schedulers therefore never place too much; at worst they
// try the same placement twice.
//
// The order is fixed: engines by ID, then jobs by priority, submission time and ID. A pass considers only the first
// jobs of each account (store.go), so that an account with a long queue does not hide the jobs of others. A gang is
// placed as a whole or not at all. If a job fits a pool but the pool has no room yet, no later job is placed in that
// pool, so that smaller jobs cannot delay the blocked job forever. Exception: if the blocked job lacks only CPUs or
// memory, a later job that requests no CPU, memory or GPU may use a slot, provided one slot stays free on the node.
//
// A placement takes from its node the requested GPUs, CPUs and memory, and one slot if it requests no GPU. Work that
// requests no CPU takes none, and can run on a node whose CPUs are all taken. The agent of a Slurm fleet takes a gang as
// one place, if the fleet serves all its pools: see slurm.go.
package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Engine is the work of an engine that waits for placement.
type Engine struct {
	WorkID, OwnerID, Pool, Driver string
	TeamID                        string // may be empty
	GPUs, Slots                   int
}

// Waiting is a queued job whose backoff, if any, is over.
type Waiting struct {
	JobID, OwnerID string
	TeamID         string // may be empty
	Priority       int
	SubmittedAt    time.Time
	Pools          []job.Pool
	NoNetwork      bool
	Runtime        string // what the job needs from its nodes, see fleet.Offers
}

// Account is the GPU limit of an owner or a team, and the GPUs that it holds.
type Account struct{ Limit, Held int }

// Place is the node of one rank of a gang.
type Place struct {
	NodeID string
	Rank   int
	Pool   job.Pool
	// Parts are all parts of the gang if the place is a Slurm cluster, otherwise nil.
	Parts []job.Pool
}

// need returns the room that the place takes on its node.
func (p *Place) need() job.Room {
	if p.Parts != nil {
		return slurmNeed()
	}
	return p.Pool.Need()
}

// Decision is the decision on one waiting job or engine: its places, or the reason why it waits.
type Decision struct {
	JobID, WorkID string
	OwnerID       string // of an engine
	TeamID        string // of an engine
	Places        []Place
	Position      int
	Reason        string
	Detail        string
}

type plan struct {
	nodes    []*Node
	accounts map[string]Account     // by ID of the owner or team
	reserved map[string]reservation // by pool
}

// reservation identifies the blocked job for which a pool is reserved.
type reservation struct {
	jobID string
	// bulk is true if the job lacks only CPUs or memory.
	bulk bool
}

func (r reservation) decision(pool string) Decision {
	detail := fmt.Sprintf("pool %s is reserved for %s, which is ahead in the queue", pool, r.jobID)
	return Decision{Reason: job.WaitPriority, Detail: detail}
}

// Plan decides on everything that waits. It does not modify its arguments.
func Plan(nodes []Node, engines []Engine, jobs []Waiting, accounts map[string]Account) []Decision {
	p := &plan{accounts: map[string]Account{}, reserved: map[string]reservation{}}
	for i := range nodes {
		n := nodes[i]
		p.nodes = append(p.nodes, &n)
	}
	slices.SortFunc(p.nodes, func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) })
	maps.Copy(p.accounts, accounts)
	out := make([]Decision, 0, len(engines)+len(jobs))
	for _, e := range slices.SortedFunc(slices.Values(engines), func(a, b Engine) int { return cmp.Compare(a.WorkID, b.WorkID) }) {
		out = append(out, p.engine(e))
	}
	for i, w := range slices.SortedFunc(slices.Values(jobs), first) {
		d := p.job(w)
		d.JobID, d.Position = w.JobID, i+1
		out = append(out, d)
	}
	return out
}

func first(a, b Waiting) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.SubmittedAt.Compare(b.SubmittedAt), cmp.Compare(a.JobID, b.JobID))
}

func (p *plan) engine(e Engine) Decision {
	want := job.Pool{Pool: e.Pool, Nodes: 1, GPUsPerNode: e.GPUs}
	need := job.Room{GPUs: e.GPUs, Slots: e.Slots}
	d := Decision{WorkID: e.WorkID, OwnerID: e.OwnerID, TeamID: e.TeamID}
	for i, id := range holders(e.OwnerID, e.TeamID) {
		if account := p.accounts[id]; e.GPUs > 0 && account.Held+e.GPUs > account.Limit {
			d.Reason = quotaReasons()[i]
			return d
		}
	}
	for _, n := range p.candidates(want) {
		if !n.fits(need) || (len(n.Drivers) > 0 && !slices.Contains(n.Drivers, e.Driver)) {
			continue
		}
		n.take(need)
		p.charge(holders(e.OwnerID, e.TeamID), e.GPUs)
		d.Places = []Place{{NodeID: n.ID, Pool: want}}
		return d
	}
	d.Reason = job.WaitPoolCapacity
	if whole, _ := p.gang([]job.Pool{want}, empty, 0); whole == nil && p.refused(want) > 0 {
		d.Reason = job.WaitIsolation
	}
	return d
}

// charge adds GPUs to the holdings of accounts.
func (p *plan) charge(ids []string, gpus int) {
	for _, id := range ids {
		account := p.accounts[id]
		account.Held += gpus
		p.accounts[id] = account
	}
}

func (p *plan) job(w Waiting) Decision {
	demand := job.Demand(w.Pools)
	if d := p.quota(w, demand); d.Reason != "" {
		return d
	}
	passed := "" // a pool reserved for a job that this job cannot delay
	for _, pool := range w.Pools {
		ahead, ok := p.reserved[pool.Pool]
		if !ok {
			continue
		}
		if !ahead.bulk || !light(w.Pools) {
			return ahead.decision(pool.Pool)
		}
		passed = pool.Pool
	}
	spare := 0
	if passed != "" {
		spare = 1
	}
	places, short := p.gang(w.Pools, w.suited(asItIs), spare)
	if places == nil {
		places = p.slurm(w)
	}
	switch {
	case places == nil && passed != "":
		return p.reserved[passed].decision(passed)
	case places == nil:
		return p.short(w, short)
	}
	for _, pl := range places {
		p.node(pl.NodeID).take(pl.need())
	}
	p.charge(holders(w.OwnerID, w.TeamID), demand)
	return Decision{Places: places}
}

// holders returns the IDs of the owner and the team whose quota a job or an engine counts against.
func holders(owner, team string) []string {
	if team == "" {
		return []string{owner}
	}
	return []string{owner, team}
}

// quotaReasons returns the reasons for waiting if the quota of the owner or of the team has no room, in this order.
func quotaReasons() []string { return []string{job.WaitAccountQuota, job.WaitTeamQuota} }

// quota returns a decision with a reason if the quota of the owner or the team has no room for the job.
func (p *plan) quota(w Waiting, demand int) Decision {
	for i, id := range holders(w.OwnerID, w.TeamID) {
		account := p.accounts[id]
		if demand == 0 || account.Held+demand <= account.Limit {
			continue
		}
		holder := []string{"account", "team"}[i]
		return Decision{Reason: quotaReasons()[i], Detail: fmt.Sprintf("the job needs %s, but the %s already holds %d of its %d",
			plural(demand, "GPU"), holder, account.Held, account.Limit)}
	}
	return Decision{}
}

// short returns why a gang has no room. If the ready nodes would have room without their current work, short reserves
// the job's pools.
func (p *plan) short(w Waiting, pool job.Pool) Decision {
	if d := p.shortOfSlurm(w); d.Reason != "" {
		return d
	}
	if whole, lacking := p.gang(w.Pools, empty, 0); whole == nil {
		if n := p.refused(lacking); n > 0 {
			detail := fmt.Sprintf("pool %s has too few nodes that isolate the work they run: %s of a suitable size may not run the job; %s",
				lacking.Pool, plural(n, "node"), needs(lacking))
			return Decision{Reason: job.WaitIsolation, Detail: detail}
		}
		detail := "pool " + lacking.Pool + " has too few suitable ready nodes; " + needs(lacking)
		return Decision{Reason: job.WaitPoolCapacity, Detail: detail}
	}
	if whole, lacking := p.gang(w.Pools, w.offering(empty), 0); whole == nil {
		detail := fmt.Sprintf("pool %s has too few ready nodes that %s; %s", lacking.Pool, fleet.DescribeRuntime(w.Runtime), needs(lacking))
		return Decision{Reason: job.WaitPoolCapacity, Detail: detail}
	}
	if whole, lacking := p.gang(w.Pools, w.suited(empty), 0); whole == nil {
		detail := fmt.Sprintf("pool %s has too few nodes that can run a job without network access; %s", lacking.Pool, needs(lacking))
		return Decision{Reason: job.WaitIsolation, Detail: detail}
	}
	idle, _ := p.gang(w.Pools, w.suited(bulkFree), 0)
	for _, part := range w.Pools {
		p.reserved[part.Pool] = reservation{jobID: w.JobID, bulk: idle != nil}
	}
	return Decision{Reason: job.WaitPoolCapacity, Detail: "pool " + pool.Pool + " is full; " + needs(pool)}
}

// light reports whether a gang needs only slots.
func light(pools []job.Pool) bool {
	return !slices.ContainsFunc(pools, func(p job.Pool) bool { return p.GPUsPerNode > 0 || p.CPU > 0 || p.MemoryGB > 0 })
}

// gang finds a separate node for every rank, or returns the part of the gang that does not fit. The function view
// determines the free resources of a node, and gang leaves at least the given number of slots free on it.
func (p *plan) gang(pools []job.Pool, view func(Node) Node, spare int) (places []Place, lacking job.Pool) {
	taken := map[string]bool{}
	for _, pool := range pools {
		left, need := pool.Nodes, pool.Need()
		need.Slots += spare
		for _, n := range p.candidates(pool) {
			probe := view(*n)
			if left == 0 {
				break
			}
			if taken[n.ID] || !probe.fits(need) {
				continue
			}
			taken[n.ID] = true
			places = append(places, Place{NodeID: n.ID, Rank: len(places), Pool: pool})
			left--
		}
		if left > 0 {
			return nil, pool
		}
	}
	return places, job.Pool{}
}

// candidates returns the nodes of a pool that run work themselves, best first. For GPU work, nodes with the fewest free
// GPUs come first, so that whole nodes stay free. For other work, nodes with the fewest GPUs come first, then those with
// the most free slots.
func (p *plan) candidates(want job.Pool) []*Node {
	var nodes []*Node
	for _, n := range p.nodes {
		if n.Slurm == nil && slices.Contains(n.Pools, want.Pool) {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b *Node) int {
		if want.GPUsPerNode > 0 {
			return cmp.Compare(a.GPUsFree, b.GPUsFree)
		}
		return cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(b.SlotsFree, a.SlotsFree))
	})
	return nodes
}

// refused returns the number of nodes that would have room for a part of a gang if they were empty, but may not run
// work of the pool.
func (p *plan) refused(want job.Pool) (n int) {
	for _, node := range p.nodes {
		if bare := empty(*node); node.Slurm == nil && slices.Contains(node.Refused, want.Pool) && bare.fits(want.Need()) {
			n++
		}
	}
	return n
}

func (p *plan) node(id string) *Node {
	i, _ := slices.BinarySearchFunc(p.nodes, id, func(n *Node, id string) int { return cmp.Compare(n.ID, id) })
	return p.nodes[i]
}
