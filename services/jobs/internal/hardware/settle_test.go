package hardware_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/platform/queue"
	"github.com/signalbox-dev/signalbox/platform/wake"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
)

// yard is a database and the instances over it.
type yard struct {
	t    *testing.T
	pool *pgxpool.Pool
	ids  *id.Source
}

func newYard(t *testing.T) *yard {
	t.Helper()
	return &yard{
		t: t, ids: id.NewSource(clock.Real(), rand.Reader),
		pool: pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs"),
	}
}

// instance is one process of the service, as far as this package goes.
type instance struct {
	*hardware.Copy
	*hardware.Changes

	settler *hardware.Settler
	queue   *queue.Client
	hub     *wake.Hub
	stop    func()
}

// instance makes one that does nothing yet.
func (y *yard) instance() *instance {
	y.t.Helper()
	log, hub := slog.New(slog.DiscardHandler), wake.NewHub()
	trail := audit.NewLog(clock.Real(), y.ids, "jobs")
	i := &instance{hub: hub, stop: func() {}}
	i.settler = &hardware.Settler{Pool: y.pool, Hub: hub, Clock: clock.Real(), Audit: trail, Events: event.NewLog(clock.Real(), y.ids, "jobs")}
	workers := river.NewWorkers()
	require.NoError(y.t, river.AddWorkerSafely(workers, i.settler))
	var err error
	i.queue, err = queue.New(y.pool, queue.Config{Schema: "jobs", Workers: workers, Log: log})
	require.NoError(y.t, err)
	i.Copy = &hardware.Copy{
		Pool: y.pool, Hub: hub, Clock: clock.Real(), Mono: clock.Monotonic(), Replica: y.ids.New(id.Replica), Log: log,
	}
	i.Changes = &hardware.Changes{Pool: y.pool, Hub: hub, Clock: clock.Real(), Audit: trail, Queue: i.queue}
	return i
}

// run starts its loops, works those of the queue too where it says so, and waits until it has a lease.
func (y *yard) run(i *instance, works bool) *instance {
	y.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(y.t.Context()))
	var loops sync.WaitGroup
	loops.Go(func() { _ = i.hub.Listen(ctx, y.pool) })
	loops.Go(func() { _ = i.Copy.Run(ctx) })
	if works {
		loops.Go(func() { _ = i.queue.Run(ctx) })
	}
	i.stop = func() {
		cancel()
		loops.Wait()
	}
	y.t.Cleanup(i.stop)
	y.eventually("it has a lease", func() bool { return y.count(`hardware_replica WHERE id = $1 AND until > now()`, i.Replica) == 1 })
	return i
}

func (y *yard) eventually(what string, ok func() bool) {
	y.t.Helper()
	require.Eventually(y.t, ok, time.Minute, 10*time.Millisecond, what)
}

func (y *yard) count(from string, args ...any) (n int) {
	y.t.Helper()
	require.NoError(y.t, y.pool.QueryRow(y.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

// with is a configuration that is told from others by its one series.
func with(n int) hardware.Config {
	return hardware.Config{
		Series:   []hardware.Series{{Key: fmt.Sprintf("s%d", n), Model: "m", Aliases: []string{}}},
		Profiles: []hardware.Profile{},
	}
}

func (y *yard) replace(i *instance, n int) {
	y.t.Helper()
	v, err := i.Replace(y.t.Context(), hardware.Request{Config: with(n)})
	require.NoError(y.t, err)
	require.EqualValues(y.t, n, v.Number)
}

func (y *yard) reads(i *instance) int64 {
	y.t.Helper()
	v, err := i.Current(y.t.Context())
	require.NoError(y.t, err)
	return v.Number
}

// Once a change was answered, the next read on any instance is the new one, and the audit has its row.
func TestTheNextReadOnEveryInstanceIsTheNewOne(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	instances := []*instance{y.run(y.instance(), true), y.run(y.instance(), true), y.run(y.instance(), false)}
	for n := 1; n <= 20; n++ {
		y.replace(instances[n%3], n)
		for _, i := range instances {
			require.EqualValues(t, n, y.reads(i))
		}
		require.Equal(t, n, y.count(`audit WHERE action = 'hardware.replace'`))
	}
	require.Equal(t, 20, y.count(`event WHERE type = 'hardware.replaced'`))
}

// An instance that hangs answers nothing older either: the change waits for the end of its lease.
func TestAnInstanceThatHangsHoldsAChangeUpNoLongerThanItsLease(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	one, hangs := y.run(y.instance(), true), y.instance()
	require.NoError(t, hangs.Renew(t.Context()))
	require.Zero(t, y.reads(hangs))
	y.replace(one, 1)
	require.EqualValues(t, 1, y.reads(hangs), "its lease is over")
	require.Equal(t, 1, y.count(`audit WHERE action = 'hardware.replace'`))
}

// While an instance has an older one under its lease the change is not answered, and who waited too long is
// told that it is stored.
func TestAChangeThatIsNotSettledInTimeSaysSo(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	one := y.run(y.instance(), true)
	_, err := y.pool.Exec(t.Context(), `INSERT INTO hardware_replica (id, version, until) VALUES ('rep_far', 0, now() + interval '1 day')`)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = one.Replace(ctx, hardware.Request{Config: with(1)})
	require.True(t, fault.HasCode(err, "unsettled"), "%v", err)
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	require.Equal(t, 1, y.count(`hardware_head WHERE version = 1`), "it is stored")
	require.Zero(t, y.count(`audit WHERE action = 'hardware.replace'`), "the audit row comes after every instance")
	_, err = y.pool.Exec(t.Context(), `UPDATE hardware_replica SET version = 1 WHERE id = 'rep_far'`)
	require.NoError(t, err)
	v, err := one.Replace(t.Context(), hardware.Request{Config: with(1)})
	require.NoError(t, err, "the same again waits for the change that brought it")
	require.EqualValues(t, 1, v.Number)
	require.Equal(t, 1, y.count(`audit WHERE action = 'hardware.replace'`))
}

// failing inserts nothing: the commit fails with it.
type failing struct{}

func (failing) InsertTx(context.Context, pgx.Tx, river.JobArgs, *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	return nil, errors.New("the process died")
}

// Wherever a process dies between the steps, another finishes the change, once.
func TestACrashBetweenTheStepsIsMadeGoodOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	first := y.instance() // nothing of it runs: it stores, and dies
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := first.Replace(ctx, hardware.Request{Config: with(1)})
	require.True(t, fault.HasCode(err, "unsettled"), "after the store: %v", err)
	require.EqualValues(t, 1, y.reads(first))
	require.Zero(t, y.count(`audit WHERE action = 'hardware.replace'`))

	dead := y.instance()
	dead.Changes.Queue = failing{}
	_, err = dead.Replace(t.Context(), hardware.Request{Config: with(2)})
	require.ErrorContains(t, err, "the process died", "before the commit")
	require.EqualValues(t, 1, y.reads(dead), "it left nothing behind")

	y.run(y.instance(), true)
	y.eventually("the change is finished", func() bool { return y.count(`audit WHERE action = 'hardware.replace'`) == 1 })
	// After the audit row and before the queue knew of it, the step is done again; and by many at once.
	var again sync.WaitGroup
	for range 8 {
		again.Go(func() {
			if err := first.settler.Work(t.Context(), &river.Job[hardware.SettleArgs]{Args: hardware.SettleArgs{Version: 1}}); err != nil {
				t.Error(err)
			}
		})
	}
	again.Wait()
	require.Equal(t, 1, y.count(`audit WHERE action = 'hardware.replace'`))
	require.Equal(t, 1, y.count(`event WHERE type = 'hardware.replaced'`))
}

func TestAnInstanceThatLeavesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	one, two := y.run(y.instance(), true), y.run(y.instance(), false)
	two.stop()
	require.Zero(t, y.count(`hardware_replica WHERE id = $1`, two.Replica))
	y.replace(one, 1)
	require.EqualValues(t, 1, y.reads(two), "without a lease the rows are asked")
}

// Changes at once are one after the other, each with its number, its audit row and what it replaced.
func TestManyChangesAtOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	instances := []*instance{y.run(y.instance(), true), y.run(y.instance(), true)}
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			if _, err := instances[n%2].Replace(t.Context(), hardware.Request{Config: with(n + 1)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 10, y.count(`hardware_config WHERE version > 0 AND settled_at IS NOT NULL`))
	require.Equal(t, 10, y.count(`audit a JOIN hardware_config c ON c.version::text = a.target_id AND a.after::text = c.document::text
		JOIN hardware_config b ON b.version = c.version - 1 AND a.before::text = b.document::text WHERE a.action = 'hardware.replace'`))
	for _, i := range instances {
		require.EqualValues(t, 10, y.reads(i))
	}
	// Of those who change the same version, one does.
	var won, lost int
	results := make(chan error, 6)
	ten := int64(10)
	for n := range cap(results) {
		go func() {
			_, err := instances[n%2].Replace(t.Context(), hardware.Request{Config: with(100 + n), IfMatch: &ten})
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err == nil {
			won++
		} else {
			require.True(t, fault.HasCode(err, "version"), "%v", err)
			lost++
		}
	}
	require.Equal(t, [2]int{1, 5}, [2]int{won, lost})
}
