// Package queue decides which waiting work goes where, and says why the rest waits.
//
// Plan is pure and decides everything; the scheduler only reads what Plan looks at, and carries its
// decisions out, each in a transaction that checks again what it takes. So two schedulers at once
// cannot place too much, only try the same thing twice.
//
// The order is fixed: engines by id, then jobs by priority, time of submission and id. A gang is
// placed whole or not at all. Nothing is placed on a pool past a job that could run there but has no
// room yet, so no job waits for ever behind smaller ones. One exception cannot delay it: past a job that
// lacks CPUs or memory alone, work that asks for neither, nor for a GPU, takes a slot where another stays.
//
// What is asked of a node is taken from it: GPUs, CPUs, memory, and a slot where no GPU is asked. Who asks
// for no CPU takes none, and is kept from no node whose CPUs are all taken.
package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Engine is an engine's work that waits for a place.
type Engine struct {
	WorkID, Pool, Driver string
	GPUs, Slots          int
}

// Waiting is a queued job.
type Waiting struct {
	JobID, OwnerID string
	TeamID         string // empty for none
	Priority       int
	SubmittedAt    time.Time
	NotBefore      *time.Time
	Pools          []job.Pool
	Reason         string // as told before
	Detail         string
	Position       int
}

// Account is what an owner or a team may hold and holds.
type Account struct{ Limit, Held int }

// Place is one rank of a gang and its node.
type Place struct {
	NodeID string
	Rank   int
	Pool   job.Pool
}

// Decision is what becomes of one waiting work: places, or the reason why there are none.
type Decision struct {
	JobID, WorkID string
	Places        []Place
	Position      int
	Reason        string
	Detail        string
}

// SlotsOf is how many places for work without a GPU one takes that asks for these GPUs.
func SlotsOf(gpus int) int {
	if gpus > 0 {
		return 0
	}
	return 1
}

type plan struct {
	now      time.Time
	nodes    []*Node
	accounts map[string]Account // by the id of owner or team
	behind   map[string]kept    // by pool
}

// kept is the job that a pool is kept for.
type kept struct {
	jobID string
	// bulk says that it lacks CPUs or memory alone.
	bulk bool
}

func (k kept) decision(pool string) Decision {
	return Decision{Reason: job.WaitPriority, Detail: fmt.Sprintf("pool %s is kept for %s, which is ahead", pool, k.jobID)}
}

// Plan decides for everything that waits. It changes none of its arguments.
func Plan(now time.Time, nodes []Node, engines []Engine, jobs []Waiting, accounts map[string]Account) []Decision {
	p := &plan{now: now, accounts: map[string]Account{}, behind: map[string]kept{}}
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
	for _, n := range p.candidates(want) {
		if !fits(n, want, e.Slots) || (len(n.Drivers) > 0 && !slices.Contains(n.Drivers, e.Driver)) {
			continue
		}
		n.take(want, e.Slots)
		return Decision{WorkID: e.WorkID, Places: []Place{{NodeID: n.ID, Pool: want}}}
	}
	return Decision{WorkID: e.WorkID, Reason: job.WaitPoolCapacity}
}

func (p *plan) job(w Waiting) Decision {
	if w.NotBefore != nil && p.now.Before(*w.NotBefore) {
		return Decision{Reason: job.WaitBackoff, Detail: w.Detail}
	}
	demand := job.Demand(w.Pools)
	if d := p.quota(w, demand); d.Reason != "" {
		return d
	}
	passed := "" // a pool that is kept for a job which this one cannot delay
	for _, pool := range w.Pools {
		ahead, ok := p.behind[pool.Pool]
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
	places, short := p.gang(w.Pools, asItIs, spare)
	switch {
	case places == nil && passed != "":
		return p.behind[passed].decision(passed)
	case places == nil:
		return p.short(w, short)
	}
	for _, pl := range places {
		p.node(pl.NodeID).take(pl.Pool, SlotsOf(pl.Pool.GPUsPerNode))
	}
	for _, id := range w.holders() {
		account := p.accounts[id]
		account.Held += demand
		p.accounts[id] = account
	}
	return Decision{Places: places}
}

// holders are the ids of whom a job counts against.
func (w *Waiting) holders() []string {
	if w.TeamID == "" {
		return []string{w.OwnerID}
	}
	return []string{w.OwnerID, w.TeamID}
}

// quota tells whose limit leaves no room for a job now, if one does.
func (p *plan) quota(w Waiting, demand int) Decision {
	for i, id := range w.holders() {
		account := p.accounts[id]
		if demand == 0 || account.Held+demand <= account.Limit {
			continue
		}
		d := Decision{
			Reason: job.WaitAccountQuota,
			Detail: fmt.Sprintf("asks for %d GPUs while %d of %d are held", demand, account.Held, account.Limit),
		}
		if i > 0 {
			d.Reason, d.Detail = job.WaitTeamQuota, d.Detail+" by the team"
		}
		return d
	}
	return Decision{}
}

// short tells why a gang has no room, and keeps its pools for it where it could ever have.
func (p *plan) short(w Waiting, pool job.Pool) Decision {
	if whole, lacking := p.gang(w.Pools, empty, 0); whole == nil {
		return Decision{Reason: job.WaitPoolCapacity, Detail: "no ready nodes of pool " + lacking.Pool + " are enough: " + asks(lacking)}
	}
	idle, _ := p.gang(w.Pools, bulkFree, 0)
	for _, part := range w.Pools {
		p.behind[part.Pool] = kept{jobID: w.JobID, bulk: idle != nil}
	}
	return Decision{Reason: job.WaitPoolCapacity, Detail: "pool " + pool.Pool + " is full: " + asks(pool)}
}

// light says that a gang takes nothing but slots.
func light(pools []job.Pool) bool {
	return !slices.ContainsFunc(pools, func(p job.Pool) bool { return p.GPUsPerNode > 0 || p.CPU > 0 || p.MemoryGB > 0 })
}

// gang finds a node of its own for every rank, or answers the pool that lacks one. On each of the nodes,
// looked at by view, so many slots stay spare.
func (p *plan) gang(pools []job.Pool, view func(Node) Node, spare int) (places []Place, lacking job.Pool) {
	taken := map[string]bool{}
	for _, pool := range pools {
		left := pool.Nodes
		for _, n := range p.candidates(pool) {
			probe := view(*n)
			if left == 0 {
				break
			}
			if taken[n.ID] || !fits(&probe, pool, SlotsOf(pool.GPUsPerNode)+spare) {
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

// candidates are the nodes of a pool, best first: the fullest that still fits for GPUs, so that
// whole nodes stay free, and the emptiest for work without one.
func (p *plan) candidates(want job.Pool) []*Node {
	var nodes []*Node
	for _, n := range p.nodes {
		if slices.Contains(n.Pools, want.Pool) {
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

func (p *plan) node(id string) *Node {
	i, _ := slices.BinarySearchFunc(p.nodes, id, func(n *Node, id string) int { return cmp.Compare(n.ID, id) })
	return p.nodes[i]
}
