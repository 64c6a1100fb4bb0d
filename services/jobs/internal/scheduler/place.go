package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Scheduler carries out the decisions of Plan.
type Scheduler struct {
	Pool   *pgxpool.Pool
	IDs    *id.Source
	Jobs   *job.Store
	Works  *assignment.Store
	Fleets fleet.Store
	Ledger quota.Ledger
	// Meters records how long jobs waited. It may be nil.
	Meters *job.Meters
}

// RunOnce runs one pass over everything that waits. It returns the time at which the first backoff of a job ends, so
// that the caller can run the next pass then. The time is zero if no job is in backoff.
func (s *Scheduler) RunOnce(ctx context.Context) (next time.Time, err error) {
	decisions, next, err := s.decide(ctx)
	if err != nil {
		return next, err
	}
	var waiting []Decision
	var starved []Decision
	var errs []error
	for _, d := range decisions {
		switch {
		case len(d.Places) > 0:
			errs = append(errs, s.place(ctx, d))
		case d.JobID != "":
			waiting = append(waiting, d)
		default:
			starved = append(starved, d)
		}
	}
	if len(starved) > 0 {
		errs = append(errs, starve(ctx, s.Pool, starved))
	}
	if len(waiting) > 0 {
		errs = append(errs, explain(ctx, s.Pool, waiting))
	}
	return next, errors.Join(errs...)
}

func (s *Scheduler) decide(ctx context.Context) (decisions []Decision, next time.Time, err error) {
	now, err := pg.Now(ctx, s.Pool)
	if err != nil {
		return nil, next, err
	}
	if next, err = nextBackoff(ctx, s.Pool, now); err != nil {
		return nil, next, err
	}
	jobs, err := waitingJobs(ctx, s.Pool, now)
	if err != nil {
		return nil, next, err
	}
	engines, err := waitingEngines(ctx, s.Pool)
	if err != nil || len(jobs)+len(engines) == 0 {
		return nil, next, err
	}
	ready, err := s.Fleets.Ready(ctx, s.Pool)
	if err != nil {
		return nil, next, err
	}
	accounts, err := s.accounts(ctx, jobs, engines)
	if err != nil {
		return nil, next, err
	}
	return Plan(nodesOf(ready), engines, jobs, accounts), next, nil
}

// accounts returns the limits and holdings of the owners and teams of the jobs and the engines, by ID.
func (s *Scheduler) accounts(ctx context.Context, jobs []Waiting, engines []Engine) (map[string]Account, error) {
	owners, teams := make([]string, 0, len(jobs)+len(engines)), []string{}
	for _, w := range jobs {
		owners = append(owners, w.OwnerID)
		if w.TeamID != "" {
			teams = append(teams, w.TeamID)
		}
	}
	for _, e := range engines {
		owners = append(owners, e.OwnerID)
		if e.TeamID != "" {
			teams = append(teams, e.TeamID)
		}
	}
	accounts := make(map[string]Account, len(jobs))
	for kind, ids := range map[quota.Kind][]string{quota.User: owners, quota.Team: teams} {
		held, err := s.Ledger.Holding(ctx, s.Pool, kind, ids)
		if err != nil {
			return nil, err
		}
		for id, a := range held {
			accounts[id] = Account{Limit: a.Limit, Held: a.Held}
		}
	}
	return accounts, nil
}

func nodesOf(ready []*fleet.Node) []Node {
	nodes := make([]Node, len(ready))
	for i, n := range ready {
		nodes[i] = nodeOf(n)
	}
	return nodes
}

func nodeOf(n *fleet.Node) Node {
	return Node{
		ID: n.ID, Name: n.Name, Pools: n.Permitted, Refused: without(n.Pools, n.Permitted), GPUs: n.GPUs, Slots: n.SlotsTotal, GPUsFree: n.GPUsFree,
		SlotsFree: n.SlotsFree, CPUs: n.CPUs, CPUsFree: n.CPUsFree, MemoryBytes: n.MemoryBytes, MemoryFree: n.MemoryFree,
		Drivers: n.Drivers, ClosesNetwork: n.ClosesNetwork(), Runtimes: n.Runtimes, Slurm: n.Slurm,
	}
}

// without returns the elements of the first list that are not in the second one.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// errRaced ends a placement whose resources other work has taken since Plan read them. The next pass decides again.
var errRaced = errors.New("the placement is out of date")

// place carries out one decision in one transaction.
func (s *Scheduler) place(ctx context.Context, d Decision) error {
	var placed *job.Job
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		if d.WorkID != "" {
			return s.placeEngine(ctx, tx, d)
		}
		if placed, err = s.Jobs.Lock(ctx, tx, d.JobID); err != nil {
			return err
		}
		return s.placeJob(ctx, tx, d, placed)
	})
	if errors.Is(err, errRaced) || fault.Is(err, fault.Absent) {
		return nil
	}
	if err == nil && placed != nil {
		s.Meters.Place(ctx, placed.Pools, placed.ScheduledAt.Sub(placed.Queue.Since))
	}
	return err
}

// placeJob places a locked job.
func (s *Scheduler) placeJob(ctx context.Context, tx pgx.Tx, d Decision, j *job.Job) error {
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return err
	}
	if j.State != job.Queued || (j.NotBefore != nil && now.Before(*j.NotBefore)) {
		return errRaced
	}
	ok, err := s.Ledger.Reserve(ctx, tx, quota.Holder{UserID: j.OwnerID, TeamID: j.TeamID}, j.GPUs)
	if err != nil {
		return err
	}
	if !ok {
		return errRaced
	}
	nodes, err := s.room(ctx, tx, d)
	if err != nil {
		return err
	}
	unsuited := func(p Place) bool {
		n := nodes[p.NodeID]
		if p.Parts != nil {
			return !n.suitsGang(p.Parts, j.NoNetwork, j.Runtime)
		}
		return j.NoNetwork && !n.ClosesNetwork || !fleet.Offers(n.Runtimes, j.Runtime)
	}
	if slices.ContainsFunc(d.Places, unsuited) {
		return errRaced
	}
	before := j.State
	attempt, ok := j.Place(s.IDs.New(id.Attempt), d.Places[0].NodeID, now)
	if !ok {
		return errRaced
	}
	if err := s.Jobs.InsertAttempt(ctx, tx, attempt); err != nil {
		return err
	}
	spec, err := assignment.Resumed(j.Template, j.Checkpoint)
	if err != nil {
		return err
	}
	if d.Places[0].Parts != nil {
		err = s.insertBatch(ctx, tx, j, d.Places[0], nodes[d.Places[0].NodeID], spec, now)
	} else {
		err = s.insertRanks(ctx, tx, j, d.Places, nodes, spec, now)
	}
	if err != nil {
		return err
	}
	return s.Jobs.Save(ctx, tx, j, before, job.Cause{})
}

// insertRanks stores one work for each rank of the job's new attempt.
func (s *Scheduler) insertRanks(
	ctx context.Context, tx pgx.Tx, j *job.Job, places []Place, nodes map[string]Node, spec []byte, now time.Time,
) error {
	port, err := s.Works.FreeMasterPort(ctx, tx, places[0].NodeID)
	if err != nil {
		return err
	}
	for _, p := range places {
		need := p.Pool.Need()
		w := s.work(j, p, spec, now)
		w.GPUs, w.Slots, w.CPUs, w.Memory = need.GPUs, need.Slots, need.CPUs, need.Memory
		w.NNodes, w.Master, w.MasterPort = len(places), nodes[places[0].NodeID].Name, port
		if err := s.Works.Insert(ctx, tx, w); err != nil {
			return err
		}
	}
	return nil
}

// insertBatch stores the one work of an attempt that a Slurm cluster runs as a whole. The job waits until Slurm starts it.
func (s *Scheduler) insertBatch(ctx context.Context, tx pgx.Tx, j *job.Job, p Place, n Node, spec []byte, now time.Time) error {
	b := assignment.Batch{
		Parts: p.Parts, Pools: map[string]fleet.SlurmPool{}, Limit: j.BatchLimit(), Priority: j.Priority, NotIsolated: n.Slurm.Open(poolNames(p.Parts)),
	}
	for _, part := range p.Parts {
		b.Pools[part.Pool] = n.Slurm.Pools[part.Pool].Slurm
	}
	spec, err := assignment.Batched(spec, b)
	if err != nil {
		return err
	}
	w := s.work(j, p, spec, now)
	w.GPUs, w.Slots, w.NNodes, w.Batch = job.Demand(p.Parts), slurmNeed().Slots, j.Nodes(), true
	if err := s.Works.Insert(ctx, tx, w); err != nil {
		return err
	}
	j.Hold()
	return nil
}

// work returns a new work of the job's current attempt.
func (s *Scheduler) work(j *job.Job, p Place, spec []byte, now time.Time) *assignment.Work {
	return &assignment.Work{
		Observed: assignment.Observed{Key: assignment.Key{ID: s.IDs.New(id.Work), Generation: 1, Fence: 1}},
		Kind:     assignment.Attempt, Desired: assignment.WantRunning, DesiredAt: now, Spec: spec, Pool: p.Pool.Pool,
		OwnerID: j.OwnerID, ProjectID: j.ProjectID, NodeID: p.NodeID, JobID: j.ID, Number: j.Attempt, Rank: p.Rank, Role: p.Pool.Role,
	}
}

func (s *Scheduler) placeEngine(ctx context.Context, tx pgx.Tx, d Decision) error {
	// The accounts are locked before the nodes, as for a job.
	ok, err := s.Ledger.ReserveEngine(ctx, tx, quota.Holder{UserID: d.OwnerID, TeamID: d.TeamID}, d.Places[0].Pool.GPUsPerNode)
	if err != nil {
		return err
	}
	if !ok {
		return errRaced
	}
	if _, err := s.room(ctx, tx, d); err != nil {
		return err
	}
	w, err := s.Works.Lock(ctx, tx, d.WorkID)
	if err != nil {
		return err
	}
	if w.NodeID != "" || w.Desired != assignment.WantRunning || w.GPUs != d.Places[0].Pool.GPUsPerNode || w.OwnerID != d.OwnerID || w.Team() != d.TeamID {
		return errRaced
	}
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return err
	}
	before := w.Key
	w.Forget()
	w.NodeID, w.Waiting, w.Fence = d.Places[0].NodeID, "", w.Fence+1
	return s.Works.Save(ctx, tx, w, before, "", now)
}

// room locks the nodes of a decision and checks that they still have the free resources.
func (s *Scheduler) room(ctx context.Context, tx pgx.Tx, d Decision) (map[string]Node, error) {
	ids := make([]string, len(d.Places))
	for i, p := range d.Places {
		ids[i] = p.NodeID
	}
	locked, err := s.Fleets.LockReady(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	nodes := make(map[string]Node, len(locked))
	for _, n := range locked {
		nodes[n.ID] = nodeOf(n)
	}
	for _, p := range d.Places {
		n, ok := nodes[p.NodeID]
		if !ok || !n.fits(p.need()) || p.Parts == nil && !slices.Contains(n.Pools, p.Pool.Pool) {
			return nil, errRaced
		}
	}
	return nodes, nil
}
