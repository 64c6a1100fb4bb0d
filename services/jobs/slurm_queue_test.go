package jobs_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

// The limits of the test of a long queue.
const (
	accountGPUs = 3
	teamGPUs    = 4
	hostGPUs    = 6
	slurmWorks  = 4
)

// queued is a job of a long queue. Its holders are its account and its team.
type queued struct {
	id, pool string
	holders  []string
	gpus     int
	priority int32
	work     *jobsv1.Work
	// reason is Slurm's reason for holding it, and shown whether the API has shown it.
	reason string
	shown  bool
}

// longQueue is a queue of jobs for the hosts of the pool gpu and the cluster of the pool slurm. It computes itself, from
// the promised order, what the scheduler must place.
type longQueue struct {
	*harness

	client  jobsv1.JobServiceClient
	jobs    map[string]*queued
	waiting []*queued            // in the promised order
	running map[string][]*queued // by pool
	started int
	arrived time.Time // when the last work arrived
	// waits is true if next has kept back a job that had room, for one that is ahead of it.
	waits bool
	// limits and held count the GPUs of accounts and teams. free is the room of the pools: GPUs of the host, works of the cluster.
	limits, held, free map[string]int
	agents             map[string]*agent
}

// submitAll submits n jobs of three accounts. Two of the accounts are in a team. Pools, sizes and priorities are drawn.
func (q *longQueue) submitAll(n int, random *rand.Rand) {
	for i := range n {
		who := []authn.Caller{alice(), crew("ann"), crew("bob")}[i%3]
		j := &queued{pool: []string{"gpu", "slurm"}[random.IntN(2)], holders: []string{who.Username}, gpus: 1 + random.IntN(2), priority: int32(10 * random.IntN(3))}
		resources := &jobsv1.PoolRequest{Pool: j.pool, GpusPerNode: new(int32(j.gpus))}
		if j.pool == "slurm" {
			resources.Nodes, resources.GpusPerNode = new(int32(j.gpus)), new(int32(1))
		}
		made, err := q.client.SubmitJob(q.as(who), q.request(func(r *jobsv1.SubmitJobRequest) {
			r.Spec.Resources.Pools, r.Spec.Priority = []*jobsv1.PoolRequest{resources}, new(j.priority)
			if i%3 > 0 {
				inCrew(r)
				j.holders = append(j.holders, "crew")
			}
		}))
		require.NoError(q.t, err)
		j.id = made.GetId()
		q.jobs[j.id] = j
		q.waiting = append(q.waiting, j)
	}
	slices.SortStableFunc(q.waiting, func(a, b *queued) int { return cmp.Compare(b.priority, a.priority) })
}

// next takes the jobs that must be placed now out of the queue. A job beyond a quota lets others pass. A job for which
// its pool has no room lets no other one into the pool.
func (q *longQueue) next() (next []*queued) {
	full := map[string]bool{}
	q.waiting = slices.DeleteFunc(q.waiting, func(j *queued) bool {
		if slices.ContainsFunc(j.holders, func(h string) bool { return q.held[h]+j.gpus > q.limits[h] }) {
			return false
		}
		if full[j.pool] {
			q.waits = q.waits || q.free[j.pool] >= j.room()
			return false
		}
		if q.free[j.pool] < j.room() {
			full[j.pool] = true
			return false
		}
		q.take(j)
		next = append(next, j)
		return true
	})
	return next
}

// room returns the room that the job takes in its pool.
func (j *queued) room() int {
	if j.pool == "slurm" {
		return 1
	}
	return j.gpus
}

// take counts the job.
func (q *longQueue) take(j *queued) {
	q.free[j.pool] -= j.room()
	for _, h := range j.holders {
		q.held[h] += j.gpus
	}
}

// expect waits until exactly the given jobs of a pool are placed.
func (q *longQueue) expect(pool string, next []*queued) {
	q.t.Helper()
	before := q.started
	for q.started < before+len(next) {
		q.arrive(pool)
	}
	var want, got []string
	for _, j := range next {
		want = append(want, j.id)
	}
	for _, j := range q.running[pool] {
		got = append(got, j.id)
	}
	require.ElementsMatch(q.t, want, got)
	require.Equal(q.t, q.started, q.count("attempt"), "nothing else may be placed")
}

// arrive takes over the new works of a pool, or waits for a short time if there are none. Slurm holds its works.
func (q *longQueue) arrive(pool string) {
	q.t.Helper()
	a := q.agents[pool]
	works := a.fresh()
	if len(works) == 0 {
		require.Less(q.t, time.Since(q.arrived), patience, "the agents must get new works")
		select {
		case <-a.changed:
		case <-time.After(20 * time.Millisecond):
			a.heartbeat()
		}
		return
	}
	q.arrived = time.Now()
	for _, work := range works {
		j := q.jobs[work.GetAttempt().GetJobId()]
		require.NotNil(q.t, j)
		require.Nil(q.t, j.work, "job %s must run once", j.id)
		require.Equal(q.t, pool, j.pool)
		j.work = work
		q.started++
		if pool == "slurm" {
			j.reason = []string{"Priority", "Resources", "QOSMaxGRESPerUser"}[q.started%3]
			a.hold(work, strconv.Itoa(q.started), j.reason, "")
		} else {
			a.see(work, jobsv1.Phase_PHASE_RUNNING)
		}
		q.running[pool] = append(q.running[pool], j)
	}
}

// fresh returns the works that should run and that the agent has not reported yet.
func (a *agent) fresh() (works []*jobsv1.Work) {
	a.mu.Lock()
	defer a.mu.Unlock()
	require.NoError(a.w.t, a.err)
	for _, w := range a.desired.GetWorks() {
		if w.GetDesired() == jobsv1.Desired_DESIRED_RUNNING && a.works[w.GetWorkId()] == nil && !a.forgotten[w.GetWorkId()] {
			works = append(works, w)
		}
	}
	return works
}

// end ends the jobs on the host, and the first one on the cluster.
func (q *longQueue) end() {
	q.t.Helper()
	for _, j := range q.running["gpu"] {
		q.agents["gpu"].exit(j.work, 0, "", "")
	}
	q.running["gpu"] = nil
	for _, j := range q.running["slurm"] {
		q.showsReasonOfSlurm(j)
	}
	if len(q.running["slurm"]) > 0 {
		q.agents["slurm"].exit(q.running["slurm"][0].work, 0, "", "")
		q.running["slurm"] = q.running["slurm"][1:]
	}
}

// showsReasonOfSlurm waits until the job shows the reason that Slurm has given.
func (q *longQueue) showsReasonOfSlurm(j *queued) {
	q.t.Helper()
	shows := func() bool {
		now, err := q.client.GetJob(q.as(admin()), &jobsv1.GetJobRequest{JobId: j.id})
		require.NoError(q.t, err)
		require.Equal(q.t, jobsv1.JobState_JOB_STATE_SCHEDULED, now.GetState())
		return now.GetQueue().GetReason() == j.reason
	}
	if !shows() {
		require.False(q.t, j.shown, "job %s must still wait for the reason %s", j.id, j.reason)
		require.Eventually(q.t, shows, patience, 5*time.Millisecond, "job %s must wait for the reason %s", j.id, j.reason)
	}
	j.shown = true
}

// requireOrder requires that no job was placed before one of the same account and pool that was ahead of it and needed no
// more GPUs. Whatever ended meanwhile, the scheduler has considered the other one first and with the same room.
func (q *longQueue) requireOrder(ahead []*queued) {
	q.t.Helper()
	rows, err := q.pool.Query(q.t.Context(), `SELECT id FROM job ORDER BY scheduled_at`)
	require.NoError(q.t, err)
	placed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(q.t, err)
	at := map[string]int{}
	for i, id := range placed {
		at[id] = i
	}
	for i, first := range ahead {
		for _, later := range ahead[i+1:] {
			if first.pool == later.pool && first.holders[0] == later.holders[0] && first.gpus <= later.gpus {
				require.Less(q.t, at[first.id], at[later.id], "%+v must be placed before %+v", first, later)
			}
		}
	}
}

// TestLongQueueOverHostAndSlurm queues 200 jobs of three accounts for a host and a Slurm cluster. At first exactly those
// must be placed that are the first by priority and submission and within the quotas of their account and team. Then jobs
// end, and the others follow in their order. No quota may ever be exceeded: a trigger records each increase above a limit.
// A job that Slurm holds must show Slurm's reason all the time.
func TestLongQueueOverHostAndSlurm(t *testing.T) {
	t.Parallel()
	w := newHarness(t, patient, func(c *jobs.Config) {
		c.DefaultGPULimit, c.DefaultTeamGPULimit, c.SlurmWorks = accountGPUs, teamGPUs, slurmWorks
	})
	w.watchGrowth()
	hosts, cluster := w.fleet("gpu"), w.slurmFleet("slurm")
	w.setSlurm("slurm", onPartition("gpu"))
	q := &longQueue{
		harness: w, client: w.jobs(), jobs: map[string]*queued{}, running: map[string][]*queued{}, agents: map[string]*agent{},
		limits: map[string]int{"alice": accountGPUs, "ann": accountGPUs, "bob": accountGPUs, "crew": teamGPUs}, held: map[string]int{}, free: map[string]int{},
	}
	const n = 200
	q.submitAll(n, rand.New(rand.NewPCG(n, 1)))
	order := slices.Clone(q.waiting)
	require.Zero(t, w.count("attempt"))

	q.arrived = time.Now()
	q.free["gpu"] = hostGPUs
	q.agents["gpu"] = w.join(hosts, gpuNode(hostGPUs))
	q.expect("gpu", q.next())
	q.free["slurm"] = slurmWorks
	q.agents["slurm"] = w.join(cluster, gpuNode(0), slurmAgent, func(a *agent) { a.slurm = slurmReport("slurm") })
	q.expect("slurm", q.next())
	require.True(t, q.waits, "the drawn jobs must contain a smaller one that must not overtake a larger one")
	require.NotEmpty(t, q.running["gpu"])
	require.NotEmpty(t, q.running["slurm"])
	for q.started < n || len(q.running["gpu"])+len(q.running["slurm"]) > 0 {
		q.end()
		q.arrive("gpu")
		q.arrive("slurm")
	}
	require.Eventually(t, func() bool { return w.count(`job WHERE state <> 'succeeded'`) == 0 }, patience, 10*time.Millisecond)
	require.Equal(t, n, w.count("attempt"), "no job must run twice")
	q.requireOrder(order)
	require.Zero(t, w.count(`overstep`))
	require.Zero(t, w.count(`account WHERE held <> 0`), "all GPUs must be released")
}
