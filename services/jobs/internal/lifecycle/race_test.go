package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
)

// balance checks that every account holds exactly the GPUs that its attempts hold, and that ended attempts and jobs
// hold nothing.
func (b *harness) balance() {
	b.t.Helper()
	require.Zero(b.t, b.count(`account a WHERE held <> (SELECT coalesce(sum(t.held), 0) FROM attempt t JOIN job j ON j.id = t.job_id
		WHERE CASE a.kind WHEN 'team' THEN j.team_id ELSE j.owner_id END = a.user_id)`), "accounts and teams must hold exactly what their attempts hold")
	require.Zero(b.t, b.count(`attempt WHERE held > 0 AND ended_at IS NOT NULL`), "an ended attempt must hold nothing")
	require.Zero(b.t, b.count(`job WHERE ended_at IS NOT NULL AND EXISTS (SELECT FROM work w WHERE w.job_id = job.id AND w.released_at IS NULL)`),
		"an ended job must take no node resources")
}

// A node's report, the owner's stop and the loss of the node race to end an attempt. Exactly one of them ends it,
// and everything is released once.
func TestConcurrentStopEndAndLossEndJobOnce(t *testing.T) {
	t.Parallel()
	for round := range 8 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			j := b.placed(1, 0)
			w := b.works(j)[0]
			b.observe("nod_1", seen(w, gang.PhaseRunning, nil))
			var wg sync.WaitGroup
			race := func(fn func() error) {
				wg.Go(func() {
					if err := fn(); err != nil && !fault.Is(err, fault.Conflict) {
						t.Error(err)
					}
				})
			}
			for range 2 {
				race(func() error {
					return b.driver.Observe(t.Context(), "nod_1", []assignment.Observed{seen(w, gang.PhaseExited, &gang.Exit{})})
				})
				race(func() error {
					_, err := b.driver.Stop(t.Context(), j.ID, job.ReasonUserStop, false, job.Cause{}, func(context.Context, pgx.Tx) error { return nil })
					return err
				})
				race(func() error { return b.driver.Lose(t.Context(), "nod_1", clock.Real().Now()) })
				race(func() error {
					_, err := b.driver.Report(t.Context(), j.RunID, 1, job.ReportSucceeded, "")
					return err
				})
			}
			wg.Wait()
			b.commit()
			got := b.job(j)
			require.True(t, got.State.Terminal(), "the job must have ended: %s", got.State)
			require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type IN ('job.succeeded', 'job.failed', 'job.stopped')`, j.ID))
			require.Equal(t, []string{j.RunID}, b.closes.runs)
			require.Zero(t, b.held())
			b.balance()
		})
	}
}

// errCrash rolls back a transaction, as a crash of the process would.
var errCrash = errors.New("the process died")

// TestLedgerBalancesUnderConcurrency runs schedulers, node reports, node losses and stops concurrently and interrupts
// some of them. Meanwhile it checks the ledger.
func TestLedgerBalancesUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2)
	b.driver.Ledger.Default, b.driver.Ledger.TeamDefault = 3, 2
	var jobs []*job.Job
	for i := range 12 {
		jobs = append(jobs, b.submit(1, 1))
		if i%3 > 0 {
			b.exec(`UPDATE job SET team_id = 'team_1' WHERE id = $1`, jobs[i].ID)
		}
	}
	schedule := func() error {
		s := &scheduler.Scheduler{Pool: b.pool, IDs: b.ids, Jobs: b.driver.Jobs, Works: b.driver.Works, Fleets: fleet.Store{}, Ledger: b.driver.Ledger}
		_, err := s.RunOnce(t.Context())
		return err
	}
	var wg sync.WaitGroup
	for actor := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(actor), 3))
			for range 25 {
				if err := b.randomStep(r, jobs, schedule); err != nil && !fault.Is(err, fault.Conflict) && !errors.Is(err, errCrash) {
					t.Error(err)
				}
			}
		})
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if n := b.count(`account WHERE held > CASE kind WHEN 'team' THEN 2 ELSE 3 END OR held < 0`); n > 0 {
				t.Error("an account or a team holds more than its limit")
			}
			if n := b.count(`(SELECT node_id FROM work WHERE released_at IS NULL GROUP BY node_id HAVING sum(gpus) > 2) over`); n > 0 {
				t.Error("a node is oversubscribed")
			}
		}
	}()
	wg.Wait()
	close(stop)
	<-done
	b.balance()
	b.endAll(jobs, schedule)
	require.Zero(t, b.held(), "the account must hold nothing at the end")
	b.balance()
	require.Equal(t, len(jobs), b.count(`(SELECT subject_id FROM event WHERE type IN ('job.succeeded', 'job.failed', 'job.stopped')
		GROUP BY subject_id HAVING count(*) = 1) ended`), "each job must end exactly once")
}

// limit sets the owner's GPU limit; 0 restores the default.
func (b *harness) limit(gpus int) error {
	limit := &gpus
	if gpus == 0 {
		limit = nil
	}
	return pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.driver.Ledger.Set(ctx, tx, quota.User, "usr_1", limit, "usr_root")
		return err
	})
}

// randomStep performs one random action on the cluster.
func (b *harness) randomStep(r *rand.Rand, jobs []*job.Job, schedule func() error) error {
	ctx, j, node := b.t.Context(), jobs[r.IntN(len(jobs))], fmt.Sprintf("nod_%d", 1+r.IntN(2))
	switch r.IntN(8) {
	case 0, 1:
		return schedule()
	case 7:
		return b.limit(r.IntN(3))
	case 2:
		if r.IntN(3) > 0 {
			return nil
		}
		return b.driver.Lose(ctx, node, clock.Real().Now())
	case 3: // a stop that crashes before the commit
		_, err := b.driver.Stop(ctx, j.ID, job.ReasonUserStop, false, job.Cause{}, func(context.Context, pgx.Tx) error { return errCrash })
		return err
	case 4:
		if r.IntN(4) > 0 {
			return nil
		}
		_, err := b.driver.Stop(ctx, j.ID, job.ReasonUserStop, false, job.Cause{}, func(context.Context, pgx.Tx) error { return nil })
		return err
	}
	return b.nodeReports(ctx, node, func(w *assignment.Work) assignment.Observed {
		exits := []*gang.Exit{nil, {}, {Code: 1}, {Code: -1, Reason: gang.ExitLost}, {Code: -1, Reason: gang.ExitStopped}}
		if exit := exits[r.IntN(len(exits))]; exit != nil {
			return seen(w, gang.PhaseExited, exit)
		}
		return seen(w, gang.PhaseRunning, nil)
	})
}

// nodeReports sends a report on all works of a node. The given function returns the report on each work.
func (b *harness) nodeReports(ctx context.Context, node string, what func(w *assignment.Work) assignment.Observed) error {
	works, err := b.driver.Works.OnNode(ctx, b.pool, node)
	if err != nil {
		return err
	}
	report := make([]assignment.Observed, len(works))
	for i, w := range works {
		report[i] = what(w)
	}
	return b.driver.Observe(ctx, node, report)
}

// endAll runs every job to its end.
func (b *harness) endAll(jobs []*job.Job, schedule func() error) {
	b.t.Helper()
	for b.count(`job WHERE ended_at IS NULL`) > 0 {
		b.exec(`UPDATE job SET not_before = NULL WHERE state = 'queued'`)
		require.NoError(b.t, schedule())
		for _, node := range []string{"nod_1", "nod_2"} {
			require.NoError(b.t, b.nodeReports(b.t.Context(), node, func(w *assignment.Work) assignment.Observed {
				return seen(w, gang.PhaseExited, &gang.Exit{})
			}))
		}
		b.commit()
	}
	for _, j := range jobs {
		require.True(b.t, b.job(j).State.Terminal())
	}
}

// If the database connection breaks in the middle of a step, nothing of the step is saved, and the next full
// report of the node completes it.
func TestInterruptedStepIsCompletedByNextReport(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 0)
	w := b.works(j)[0]
	b.observe("nod_1", seen(w, gang.PhaseRunning, nil))
	cut := *b.driver
	cut.Jobs = &job.Store{Events: b.driver.Jobs.Events, Closer: disconnectingCloser{b.pool}}
	ended := []assignment.Observed{seen(w, gang.PhaseExited, &gang.Exit{})}
	require.Error(t, cut.Observe(t.Context(), "nod_1", ended))
	require.Equal(t, job.Starting, b.job(j).State)
	require.Equal(t, 1, b.held())
	require.Nil(t, b.works(j)[0].Exit)
	require.Zero(t, b.count(`event WHERE subject_id = $1 AND type = 'job.succeeded'`, j.ID))
	b.balance()
	b.observe("nod_1", ended...)
	require.Equal(t, job.Succeeded, b.job(j).State)
	require.Zero(t, b.held())
	b.balance()
}

// disconnectingCloser terminates the database connection within the transaction that ends a job.
type disconnectingCloser struct{ pool *pgxpool.Pool }

func (c disconnectingCloser) CloseRun(ctx context.Context, tx pgx.Tx, _ string) error {
	var pid int
	if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return err
	}
	_, err := c.pool.Exec(ctx, `SELECT pg_terminate_backend($1)`, pid)
	return err
}

// Several replicas may declare the same node lost. The works are released once.
func TestDriver_Lose_concurrentCallsReleaseOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	begun, fresh := b.placed(1, 3), b.placed(1, 3)
	b.observe("nod_1", seen(b.works(begun)[0], gang.PhaseRunning, nil))
	require.Equal(t, 2, b.held())
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if err := b.driver.Lose(t.Context(), "nod_1", clock.Real().Now()); err != nil && !fault.Is(err, fault.Conflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Zero(t, b.held())
	b.balance()
	require.Equal(t, 1, b.job(begun).Attempt, "the started attempt must count")
	require.Zero(t, b.job(fresh).Attempt, "the attempt that did not start must not count")
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND reason = 'executor_lost'`, begun.ID))
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND reason = 'executor_lost'`, fresh.ID))
}

// Reports of the training and of its node race. Billing starts once.
func TestBillingStartsOnceUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 0)
	w := b.works(j)[0]
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := b.driver.Report(t.Context(), j.RunID, 1, job.ReportRunning, ""); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := b.driver.Observe(t.Context(), "nod_1", []assignment.Observed{seen(w, gang.PhaseRunning, nil)}); err != nil && !pg.IsRetryable(err) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, attempt := b.job(j), b.attempts(j)[0]
	require.Equal(t, job.Running, got.State)
	require.Equal(t, got.RunningAt, attempt.RunningAt)
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND reason = 'reported_running'`, j.ID))
	require.EqualValues(t, b.count(`event WHERE subject_id = $1`, j.ID), got.Seq, "event numbers must have no gaps")
}
