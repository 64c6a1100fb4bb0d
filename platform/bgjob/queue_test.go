package bgjob_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type greet struct {
	Name string `json:"name"`
}

func (greet) Kind() string { return "greet" }

type worker struct {
	river.WorkerDefaults[greet]
	work func(ctx context.Context, job *river.Job[greet]) error
}

func (w *worker) Work(ctx context.Context, job *river.Job[greet]) error { return w.work(ctx, job) }

// NextRetry makes a failed job run again almost at once, to keep the tests short.
func (w *worker) NextRetry(*river.Job[greet]) time.Time { return time.Now().Add(10 * time.Millisecond) }

type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) lines(t *testing.T) (out []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		out = append(out, m)
	}
	return out
}

type harness struct {
	pool   *pgxpool.Pool
	client *bgjob.Client
	events <-chan *river.Event
	log    *logBuffer
}

// setup creates a client that executes greet jobs and uses the database role of the server.
func setup(
	t *testing.T, pool *pgxpool.Pool, work func(ctx context.Context, job *river.Job[greet]) error, change ...func(*bgjob.Config),
) *harness {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{work: work})
	b := &harness{pool: pool, log: &logBuffer{}}
	cfg := bgjob.Config{
		Schema: "jobs", Workers: workers, MaxAttempts: 3, SoftStop: 50 * time.Millisecond, Log: slog.New(slog.NewJSONHandler(b.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	client, err := bgjob.New(pool, cfg)
	require.NoError(t, err)
	b.client = client
	events, cancel := client.River().Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	t.Cleanup(cancel)
	b.events = events
	return b
}

// begin runs the client. The returned function stops it and waits until Run has returned. It is also called at the end
// of the test.
func (b *harness) begin(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.client.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			require.NoError(t, err)
		}
	})
	t.Cleanup(end)
	return end
}

func (b *harness) insert(t *testing.T, name string, fail error) *rivertype.JobInsertResult {
	t.Helper()
	var res *rivertype.JobInsertResult
	err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		res, err = b.client.InsertTx(ctx, tx, greet{Name: name}, nil)
		return errors.Join(err, fail)
	})
	require.ErrorIs(t, err, fail)
	return res
}

func pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
}

func TestClient_Run_runsCommittedJobsOnly(t *testing.T) {
	t.Parallel()
	names := make(chan string, 10)
	b := setup(t, pool(t), func(_ context.Context, job *river.Job[greet]) error {
		names <- job.Args.Name
		return nil
	})
	boom := errors.New("boom")
	b.insert(t, "rolled back", boom)
	b.insert(t, "before the start", nil)
	b.begin(t)
	require.Equal(t, "before the start", <-names)
	<-b.events
	b.insert(t, "rolled back too", boom)
	b.insert(t, "while it runs", nil)
	require.Equal(t, "while it runs", <-names)
	<-b.events
	require.Empty(t, names)
}

func TestClient_Run_failingJobIsRetriedThenDiscarded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fails, tries int
		state        rivertype.JobState
		levels       []string
		panics       bool
	}{
		"fails once":   {1, 2, rivertype.JobStateCompleted, []string{"WARN"}, false},
		"panics once":  {1, 2, rivertype.JobStateCompleted, []string{"ERROR"}, true},
		"fails always": {9, 3, rivertype.JobStateDiscarded, []string{"WARN", "WARN", "ERROR"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			b := setup(t, pool(t), func(context.Context, *river.Job[greet]) error {
				tries++
				switch {
				case tries > tc.fails:
					return nil
				case tc.panics:
					panic("boom")
				default:
					return errors.New("boom")
				}
			})
			end := b.begin(t)
			b.insert(t, "x", nil)
			for range tc.tries - 1 {
				require.Equal(t, river.EventKindJobFailed, (<-b.events).Kind)
			}
			require.Equal(t, tc.state, (<-b.events).Job.State)
			end()
			require.Equal(t, tc.tries, tries)
			levels := []string{}
			for _, line := range b.log.lines(t) {
				if line["level"] == "ERROR" || line["msg"] == "job failed" { // River also warns of a slow database
					levels = append(levels, line["level"].(string))
				}
			}
			require.Equal(t, tc.levels, levels, "each failure is logged exactly once")
		})
	}
}

func TestClient_Run_interruptedJobRunsAgain(t *testing.T) {
	t.Parallel()
	shared := pool(t)
	running := make(chan struct{})
	first := setup(t, shared, func(ctx context.Context, _ *river.Job[greet]) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	})
	end := first.begin(t)
	id := first.insert(t, "x", nil).Job.ID
	<-running
	end()
	second := setup(t, shared, func(context.Context, *river.Job[greet]) error { return nil })
	second.begin(t)
	event := <-second.events
	require.Equal(t, id, event.Job.ID)
	require.Equal(t, rivertype.JobStateCompleted, event.Job.State)
	require.Equal(t, 1, event.Job.Attempt, "a stop does not count as an attempt")
}

func TestClient_insertOnly(t *testing.T) {
	t.Parallel()
	p := pool(t)
	client, err := bgjob.New(p, bgjob.Config{Schema: "jobs", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, pg.InTx(t.Context(), p, func(ctx context.Context, tx pgx.Tx) error {
		_, err := client.InsertTx(ctx, tx, greet{Name: "x"}, nil)
		return err
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, client.Run(ctx))
	done := make(chan struct{})
	b := setup(t, p, func(context.Context, *river.Job[greet]) error {
		close(done)
		return nil
	})
	b.begin(t)
	<-done
	<-b.events
}

// A leader cleans, schedules and rescues jobs. The server's database role must have all rights that this requires.
func TestClient_Run_leaderNeedsNoOwnerRights(t *testing.T) {
	t.Parallel()
	p := pool(t)
	// On a busy machine, the end of the job may take longer than the short limit of the other tests, which is logged.
	patient := func(cfg *bgjob.Config) { cfg.SoftStop = time.Minute }
	b := setup(t, p, func(context.Context, *river.Job[greet]) error { return nil }, patient)
	end := b.begin(t)
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, p.QueryRow(t.Context(), `SELECT count(*) FROM river_leader`).Scan(&n))
		return n == 1
	}, time.Minute, 10*time.Millisecond)
	b.insert(t, "x", nil)
	<-b.events
	end()
	require.Empty(t, b.log.lines(t))
}
