package job_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// closes records the runs whose closing was queued.
type closes struct {
	mu   sync.Mutex
	runs []string
}

func (c *closes) CloseRun(_ context.Context, _ pgx.Tx, runID string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, runID)
	return nil
}

type harness struct {
	db     *pgtest.DB
	pool   *pgxpool.Pool
	ids    *id.Source
	store  *job.Store
	closes *closes
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	ids := id.NewSource(clock.Real(), rand.Reader)
	database := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations})
	b := &harness{db: database, pool: database.Pool("jobs"), ids: ids, closes: &closes{}}
	b.store = &job.Store{Events: event.NewLog(clock.Real(), ids, "jobs"), Closer: b.closes}
	return b
}

func (b *harness) insert(t *testing.T) *job.Job {
	t.Helper()
	j := &job.Job{
		ID: b.ids.New(id.Job), RunID: b.ids.New(id.Run), Name: "n", OwnerID: "usr_1", OwnerName: "alice", ProjectID: "prj_1",
		Project: "default", Visibility: "all", Labels: map[string]string{"a": "b"}, Priority: 50, Spec: []byte(`{"name":"n"}`),
		SpecDigest: "sha256:1", Template: []byte{1}, Pools: []job.Pool{{Pool: "cpu", Role: "trainer", Nodes: 1}}, RetryMax: 3,
		RunningS: 100, StartingS: 10, QueueS: 1000, CreatedAt: clock.Real().Now(), RetryOn: []string{job.RetryInfra},
		RetryCodes: []int32{33}, BackoffS: 5, RetryFrom: job.ResumeNone, Resumable: true, CheckpointGraceS: 60, CheckpointNeeded: true,
		Status: job.Status{State: job.Queued, Queue: job.Queue{Reason: job.WaitNew, Since: clock.Real().Now()}},
	}
	facts := job.RunFacts{RecipeLock: []byte(`{}`), Bindings: []byte(`{}`), RecipeDigest: "sha256:2"}
	b.tx(t, func(ctx context.Context, tx pgx.Tx) error { return b.store.Insert(ctx, tx, j, facts, job.Cause{}) })
	return j
}

func (b *harness) tx(t *testing.T, fn func(ctx context.Context, tx pgx.Tx) error) {
	t.Helper()
	require.NoError(t, pg.InTx(t.Context(), b.pool, fn))
}

// put writes a state without any checks.
func (b *harness) put(t *testing.T, jobID string, state job.State) {
	t.Helper()
	var ended *time.Time
	var reason string
	if state.Terminal() {
		now := clock.Real().Now()
		ended, reason = &now, "completed"
	}
	_, err := b.pool.Exec(t.Context(), `UPDATE job SET state = $2, ended_at = $3, end_reason = $4,
		paused_at = CASE WHEN $2 = 'paused' THEN now() END WHERE id = $1`, jobID, state, ended, reason)
	require.NoError(t, err)
}

// TestStore_Save_enforcesEdges tries every state change on real rows.
func TestStore_Save_enforcesEdges(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	for _, from := range job.States() {
		for _, to := range job.States() {
			if from == to {
				continue
			}
			j := b.insert(t)
			b.put(t, j.ID, from)
			err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
				locked, err := b.store.Lock(ctx, tx, j.ID)
				if err != nil {
					return err
				}
				locked.State, locked.EndedAt, locked.EndReason, locked.PausedAt = to, nil, "", nil
				if to == job.Paused {
					now := clock.Real().Now()
					locked.PausedAt = &now
				}
				if to.Terminal() {
					now := clock.Real().Now()
					locked.EndedAt, locked.EndReason = &now, "completed"
				}
				return b.store.Save(ctx, tx, locked, from, job.Cause{})
			})
			if job.CanMove(from, to) {
				require.NoError(t, err, "%s to %s must be allowed", from, to)
				continue
			}
			require.True(t, fault.Is(err, fault.Conflict), "%s to %s must be refused: %v", from, to, err)
		}
	}
	for _, from := range job.States() {
		require.Equal(t, from.Terminal(), len(job.Edges()[from]) == 0, "only a terminal state must have no edges")
	}
}

func TestStore_Insert_roundTrip(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	got, err := b.store.Get(t.Context(), b.pool, authn.Scope{Admin: true, Projects: []string{}}, j.ID)
	require.NoError(t, err)
	j.Warnings = []string{}
	full := *j
	j.Template = []byte{}
	require.Empty(t, cmp.Diff(j, got))
	b.tx(t, func(ctx context.Context, tx pgx.Tx) error {
		locked, err := b.store.Lock(ctx, tx, j.ID)
		require.Empty(t, cmp.Diff(&full, locked), "the result of Lock must include the template")
		return err
	})
	// The event carries every part of the status.
	statuses, err := b.store.Statuses(t.Context(), b.pool, j.ID, 0, 10)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]job.Status{got.Status}, statuses))
}

func TestStore_Save_staleJobConflicts(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	stale := *j
	move := func(j *job.Job) error {
		return pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
			j.State = job.Scheduled
			return b.store.Save(ctx, tx, j, job.Queued, job.Cause{})
		})
	}
	require.NoError(t, move(j))
	require.True(t, fault.Is(move(&stale), fault.Conflict))
}

func TestJobEventNumbersHaveNoGapsUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
					locked, err := b.store.Lock(ctx, tx, j.ID)
					if err != nil {
						return err
					}
					locked.Message += "x"
					return b.store.Save(ctx, tx, locked, locked.State, job.Cause{Type: "job.noted"})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	events, err := event.List(t.Context(), b.pool, job.SubjectKind, j.ID, request.Page{Limit: 500})
	require.NoError(t, err)
	require.Len(t, events, 41)
	for i, e := range events {
		var status job.Status
		require.NoError(t, json.Unmarshal(e.Data, &status))
		require.Len(t, status.Message, i, "event %d must carry the status after its own change", i+1)
	}
	got, err := b.store.Get(t.Context(), b.pool, authn.Scope{Admin: true, Projects: []string{}}, j.ID)
	require.NoError(t, err)
	require.EqualValues(t, 41, got.Seq)
	tail, err := b.store.Statuses(t.Context(), b.pool, j.ID, 39, 10)
	require.NoError(t, err)
	require.Len(t, tail, 2)
}

func TestStore_Release_onlyOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	a := &job.Attempt{ID: b.ids.New(id.Attempt), JobID: j.ID, Number: 1, State: job.Scheduled, NodeID: "nod_1", Held: 4, CreatedAt: clock.Real().Now()}
	b.tx(t, func(ctx context.Context, tx pgx.Tx) error { return b.store.InsertAttempt(ctx, tx, a) })
	var sum int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
				n, err := b.store.Release(ctx, tx, a.ID)
				mu.Lock()
				sum += n
				mu.Unlock()
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 4, sum)
}

func TestStore_SaveAttempt_endedAttemptConflicts(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	now := clock.Real().Now()
	a := &job.Attempt{ID: b.ids.New(id.Attempt), JobID: j.ID, Number: 1, State: job.Scheduled, CreatedAt: now}
	b.tx(t, func(ctx context.Context, tx pgx.Tx) error { return b.store.InsertAttempt(ctx, tx, a) })
	a.State, a.EndedAt, a.EndReason = job.Failed, &now, "executor_lost"
	b.tx(t, func(ctx context.Context, tx pgx.Tx) error { return b.store.SaveAttempt(ctx, tx, a) })
	err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error { return b.store.SaveAttempt(ctx, tx, a) })
	require.True(t, fault.Is(err, fault.Conflict))
	got, err := b.store.Attempts(t.Context(), b.pool, j.ID, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Empty(t, cmp.Diff(a, got[0]))
}

func TestStore_Save_queuesCloseOnlyAtEnd(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	b.tx(t, func(ctx context.Context, tx pgx.Tx) error {
		if _, ok := j.Place("att_1", "nod_1", clock.Real().Now()); !ok {
			t.Error("the job was not placed")
		}
		return b.store.Save(ctx, tx, j, job.Queued, job.Cause{})
	})
	require.Empty(t, b.closes.runs)
	b.tx(t, func(ctx context.Context, tx pgx.Tx) error {
		a := &job.Attempt{Number: 1}
		j.End(a, gang.Exit{}, job.Outcome{State: job.Succeeded, Reason: "completed"}, clock.Real().Now())
		return b.store.Save(ctx, tx, j, job.Scheduled, job.Cause{})
	})
	require.Equal(t, []string{j.RunID}, b.closes.runs)
	var state string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT state FROM run WHERE id = $1`, j.RunID).Scan(&state))
	require.Equal(t, "succeeded", state)
}
