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
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a database and the instances that use it.
type harness struct {
	t    *testing.T
	pool *pgxpool.Pool
	ids  *id.Source
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	return &harness{
		t: t, ids: id.NewSource(clock.Real(), rand.Reader),
		pool: pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs"),
	}
}

// instance has the parts of one service process that this package implements.
type instance struct {
	*hardware.Copy
	*hardware.Changes

	settler *hardware.Settler
	queue   *bgjob.Client
	hub     *pg.NotifyHub
	stop    func()
}

// instance creates an instance whose loops do not run yet.
func (b *harness) instance() *instance {
	b.t.Helper()
	log, hub := slog.New(slog.DiscardHandler), pg.NewNotifyHub()
	trail := audit.NewLog(clock.Real(), b.ids, "jobs")
	i := &instance{hub: hub, stop: func() {}}
	i.settler = &hardware.Settler{Pool: b.pool, Hub: hub, Clock: clock.Real(), Audit: trail, Events: event.NewLog(clock.Real(), b.ids, "jobs")}
	workers := river.NewWorkers()
	require.NoError(b.t, river.AddWorkerSafely(workers, i.settler))
	var err error
	i.queue, err = bgjob.New(b.pool, bgjob.Config{Schema: "jobs", Workers: workers, Log: log})
	require.NoError(b.t, err)
	i.Copy = &hardware.Copy{
		Pool: b.pool, Hub: hub, Clock: clock.Real(), Mono: clock.Monotonic(), Replica: b.ids.New(id.Replica), Log: log,
	}
	i.Changes = &hardware.Changes{Pool: b.pool, Hub: hub, Clock: clock.Real(), Audit: trail, Queue: i.queue}
	return i
}

// run starts the loops of an instance and waits until it has a lease. If the parameter works is true, it also
// starts the River worker.
func (b *harness) run(i *instance, works bool) *instance {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	var loops sync.WaitGroup
	loops.Go(func() { _ = i.hub.Listen(ctx, b.pool) })
	loops.Go(func() { _ = i.Copy.Run(ctx) })
	if works {
		loops.Go(func() { _ = i.queue.Run(ctx) })
	}
	i.stop = func() {
		cancel()
		loops.Wait()
	}
	b.t.Cleanup(i.stop)
	b.eventually("the instance has a lease", func() bool { return b.count(`hardware_replica WHERE id = $1 AND until > now()`, i.Replica) == 1 })
	return i
}

func (b *harness) eventually(what string, ok func() bool) {
	b.t.Helper()
	require.Eventually(b.t, ok, time.Minute, 10*time.Millisecond, what)
}

func (b *harness) count(from string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

// with returns a configuration with one series, which depends on n.
func with(n int) hardware.Config {
	return hardware.Config{
		Series:   []hardware.Series{{Key: fmt.Sprintf("s%d", n), Model: "m", Aliases: []string{}}},
		Profiles: []hardware.Profile{},
	}
}

func (b *harness) replace(i *instance, n int) {
	b.t.Helper()
	v, err := i.Replace(b.t.Context(), hardware.Request{Config: with(n)})
	require.NoError(b.t, err)
	require.EqualValues(b.t, n, v.Number)
}

func (b *harness) reads(i *instance) int64 {
	b.t.Helper()
	v, err := i.Current(b.t.Context())
	require.NoError(b.t, err)
	return v.Number
}

// Once Replace has returned, the next read on any instance returns the new version, and the audit row exists.
func TestReplaceVisibleOnAllInstances(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	instances := []*instance{b.run(b.instance(), true), b.run(b.instance(), true), b.run(b.instance(), false)}
	for n := 1; n <= 20; n++ {
		b.replace(instances[n%3], n)
		for _, i := range instances {
			require.EqualValues(t, n, b.reads(i))
		}
		require.Equal(t, n, b.count(`audit WHERE action = 'hardware.replace'`))
	}
	require.Equal(t, 20, b.count(`event WHERE type = 'hardware.replaced'`))
}

// A hung instance serves no older configuration either, because the change waits for the end of its lease.
func TestReplaceWaitsForLeaseOfHungInstance(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	one, hangs := b.run(b.instance(), true), b.instance()
	require.NoError(t, hangs.Renew(t.Context()))
	require.Zero(t, b.reads(hangs))
	b.replace(one, 1)
	require.EqualValues(t, 1, b.reads(hangs), "the lease of the hung instance has ended, so it must read the new version")
	require.Equal(t, 1, b.count(`audit WHERE action = 'hardware.replace'`))
}

// While an instance has a lease on an older version, Replace does not succeed. After its deadline it reports that the
// change is stored but unsettled.
func TestReplaceReportsUnsettled(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	one := b.run(b.instance(), true)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO hardware_replica (id, version, until) VALUES ('rep_far', 0, now() + interval '1 day')`)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = one.Replace(ctx, hardware.Request{Config: with(1)})
	require.True(t, fault.HasCode(err, "unsettled"), "%v", err)
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	require.Equal(t, 1, b.count(`hardware_head WHERE version = 1`), "the version must be stored")
	require.Zero(t, b.count(`audit WHERE action = 'hardware.replace'`), "the audit row must not exist before every instance has the version")
	_, err = b.pool.Exec(t.Context(), `UPDATE hardware_replica SET version = 1 WHERE id = 'rep_far'`)
	require.NoError(t, err)
	v, err := one.Replace(t.Context(), hardware.Request{Config: with(1)})
	require.NoError(t, err, "storing the same configuration again must wait until the first change is settled")
	require.EqualValues(t, 1, v.Number)
	require.Equal(t, 1, b.count(`audit WHERE action = 'hardware.replace'`))
}

// failing fails every insert, so the transaction is rolled back.
type failing struct{}

func (failing) InsertTx(context.Context, pgx.Tx, river.JobArgs, *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	return nil, errors.New("the process died")
}

// If a process dies after any step, another process completes the change, and does so only once.
func TestReplaceCrashRecovery(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	first := b.instance() // its loops do not run: it stores the change and dies
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := first.Replace(ctx, hardware.Request{Config: with(1)})
	require.True(t, fault.HasCode(err, "unsettled"), "the stored change must be unsettled: %v", err)
	require.EqualValues(t, 1, b.reads(first))
	require.Zero(t, b.count(`audit WHERE action = 'hardware.replace'`))

	dead := b.instance()
	dead.Changes.Queue = failing{}
	_, err = dead.Replace(t.Context(), hardware.Request{Config: with(2)})
	require.ErrorContains(t, err, "the process died", "the process must die before the commit")
	require.EqualValues(t, 1, b.reads(dead), "the failed change must leave nothing behind")

	b.run(b.instance(), true)
	b.eventually("the change is finished", func() bool { return b.count(`audit WHERE action = 'hardware.replace'`) == 1 })
	// If the process dies after the audit row but before the queue job is marked done, the step is repeated, possibly
	// by several processes at once.
	var again sync.WaitGroup
	for range 8 {
		again.Go(func() {
			if err := first.settler.Work(t.Context(), &river.Job[hardware.SettleArgs]{Args: hardware.SettleArgs{Version: 1}}); err != nil {
				t.Error(err)
			}
		})
	}
	again.Wait()
	require.Equal(t, 1, b.count(`audit WHERE action = 'hardware.replace'`))
	require.Equal(t, 1, b.count(`event WHERE type = 'hardware.replaced'`))
}

func TestReplaceIgnoresStoppedInstance(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	one, two := b.run(b.instance(), true), b.run(b.instance(), false)
	two.stop()
	require.Zero(t, b.count(`hardware_replica WHERE id = $1`, two.Replica))
	b.replace(one, 1)
	require.EqualValues(t, 1, b.reads(two), "an instance without a lease must read the stored rows")
}

// Concurrent changes are serialized. Each has its own number and an audit row with the document it replaced.
func TestConcurrentReplaces(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	instances := []*instance{b.run(b.instance(), true), b.run(b.instance(), true)}
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			if _, err := instances[n%2].Replace(t.Context(), hardware.Request{Config: with(n + 1)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 10, b.count(`hardware_config WHERE version > 0 AND settled_at IS NOT NULL`))
	require.Equal(t, 10, b.count(`audit a JOIN hardware_config c ON c.version::text = a.target_id AND a.after::text = c.document::text
		JOIN hardware_config b ON b.version = c.version - 1 AND a.before::text = b.document::text WHERE a.action = 'hardware.replace'`))
	for _, i := range instances {
		require.EqualValues(t, 10, b.reads(i))
	}
	// Of several changes to the same version, exactly one succeeds.
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
