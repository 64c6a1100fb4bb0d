package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// CloseArgs are the arguments of the queue job that closes a run's streams. With an attempt, the run stays open, and only
// the unfinished lines of its attempts up to this one are finished.
type CloseArgs struct {
	RunID   string `json:"run_id"`
	Attempt int    `json:"attempt,omitempty"`
}

// Kind implements river.JobArgs.
func (CloseArgs) Kind() string { return "close_run" }

// Inserter inserts River jobs in a transaction.
type Inserter interface {
	InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// Closing queues the closing of runs.
type Closing struct{ Queue Inserter }

// closeTries is the maximum number of tries. It is high enough for several days of tries, because without eof the
// readers of a run would wait forever.
const closeTries = 20_000

// CloseRun queues the closing of a run, in the transaction that decides about its end or ends it.
func (c *Closing) CloseRun(ctx context.Context, tx pgx.Tx, runID string) error {
	_, err := c.Queue.InsertTx(ctx, tx, CloseArgs{RunID: runID}, &river.InsertOpts{MaxAttempts: closeTries})
	return err
}

// EndAttempt queues that the unfinished lines of an attempt are finished, in the transaction that ends the attempt. Its
// run stays open.
func (c *Closing) EndAttempt(ctx context.Context, tx pgx.Tx, runID string, attempt int) error {
	_, err := c.Queue.InsertTx(ctx, tx, CloseArgs{RunID: runID, Attempt: attempt}, &river.InsertOpts{MaxAttempts: closeTries})
	return err
}

// Ends knows the ends of runs that are decided, but wait until the streams of the run are closed.
type Ends interface {
	// Decided returns the decided end of a run, or nil if there is none.
	Decided(ctx context.Context, runID string) (*job.Closing, error)
	// Commit ends the run as decided. The parameter closed reports whether its streams are closed. Without a decided end,
	// Commit changes nothing.
	Commit(ctx context.Context, runID string, closed bool) error
}

// Closer closes the streams of runs and then ends the runs, so that what a run has reported is complete when it has
// ended. Some runs have ended already, because they had no process. All steps are idempotent.
type Closer struct {
	river.WorkerDefaults[CloseArgs]
	Pool   *pgxpool.Pool
	Runs   Store
	Ingest ingestpeerv1.RunDataPeerServiceClient
	Clock  clock.Clock
	// Ends are consulted in their order.
	Ends []Ends
	// Project copies what the run has reported, for searches. Its errors are ignored, because it is tried again later.
	Project func(ctx context.Context, runID string) error
}

// Work closes one run, or finishes the lines of one of its attempts.
func (c *Closer) Work(ctx context.Context, j *river.Job[CloseArgs]) error {
	if j.Args.Attempt == 0 {
		return c.Close(ctx, j.Args.RunID)
	}
	_, err := c.Ingest.CloseRun(ctx, &ingestpeerv1.CloseRunRequest{RunId: j.Args.RunID, Attempt: int32(j.Args.Attempt)})
	if err != nil && !fault.Is(err, fault.Absent) { // a deleted run has no lines
		return fmt.Errorf("end attempt %d of run %s: %w", j.Args.Attempt, j.Args.RunID, err)
	}
	return nil
}

// Close closes the streams of a run and then ends the run as decided. If the streams cannot be closed and the time for
// that has passed, the run ends without that; Close then still returns the error, so that it is called again.
func (c *Closer) Close(ctx context.Context, runID string) error {
	r, err := c.Runs.Get(ctx, c.Pool, authn.Scope{Admin: true, Projects: []string{}}, runID)
	if fault.Is(err, fault.Absent) {
		return nil // the run was deleted, with its streams
	}
	if err != nil {
		return err
	}
	ends, end, err := c.decided(ctx, runID)
	if err != nil {
		return err
	}
	state, at := r.State, r.EndedAt
	if end != nil {
		state, at = string(end.Outcome.State), &end.At
	}
	if at == nil {
		return nil
	}
	_, err = c.Ingest.CloseRun(ctx, &ingestpeerv1.CloseRunRequest{RunId: r.ID, State: state, EndedAt: timestamppb.New(*at)})
	if err != nil {
		err = fmt.Errorf("close run %s: %w", r.ID, err)
	}
	if end == nil {
		return err
	}
	if err != nil && c.Clock.Now().Before(end.Until) {
		return err
	}
	if err == nil {
		c.project(ctx, runID)
	}
	return errors.Join(err, ends.Commit(context.WithoutCancel(ctx), runID, err == nil))
}

func (c *Closer) decided(ctx context.Context, runID string) (Ends, *job.Closing, error) {
	for _, ends := range c.Ends {
		if end, err := ends.Decided(ctx, runID); end != nil || err != nil {
			return ends, end, err
		}
	}
	return nil, nil, nil
}

// projectTime limits the copy of what a run has reported, which takes long only for a run with very many points.
const projectTime = 2 * time.Second

func (c *Closer) project(ctx context.Context, runID string) {
	if c.Project == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, projectTime)
	defer cancel()
	_ = c.Project(ctx, runID)
}

// CloseTimeout is the time limit of one try. If a crash interrupts a try, the next one begins soon after this time.
const CloseTimeout = 10 * time.Second

const maxClosePause = 15 * time.Second

// NextRetry doubles the pause between tries, up to maxClosePause.
func (c *Closer) NextRetry(j *river.Job[CloseArgs]) time.Time {
	return retryAt(c.Clock, j.Attempt)
}

func retryAt(clk clock.Clock, attempt int) time.Time {
	pause := time.Second << min(attempt, 4)
	return clk.Now().Add(min(pause, maxClosePause))
}

const (
	// maxExpire is the maximum number of runs in one request to ingest.
	maxExpire = 100
	// checkAgain is the time after which the data of a run that was in use is checked again.
	checkAgain = 24 * time.Hour
)

// Expirer lets ingest delete the data of runs that ended long ago. The runs themselves stay. The data of a run is kept
// while a model version that was made from it is registered, while a run that was derived from it has not ended, and
// while a job that has not ended can resume from its checkpoint.
type Expirer struct {
	Pool    pg.Querier
	Ingest  ingestpeerv1.RunDataPeerServiceClient
	Catalog registrypeerv1.CatalogPeerServiceClient
}

// Expire handles runs that ended before the given time, until it has expired the data of some of them or no run is
// left. It returns the number of runs whose data it expired, at most limit.
func (e *Expirer) Expire(ctx context.Context, before time.Time, limit int) (int64, error) {
	for {
		due, err := e.due(ctx, before, min(limit, maxExpire))
		if err != nil || len(due) == 0 {
			return 0, err
		}
		expired, err := e.expire(ctx, due)
		if err != nil {
			return 0, err
		}
		_, err = e.Pool.Exec(ctx, `UPDATE run SET data_expired_at = CASE WHEN id = ANY($2) THEN clock_timestamp() END,
			data_checked_at = clock_timestamp() WHERE id = ANY($1) AND data_expired_at IS NULL`, due, expired)
		if err != nil {
			return 0, fmt.Errorf("store which runs have no data: %w", err)
		}
		if len(expired) > 0 {
			return int64(len(expired)), nil
		}
	}
}

func (e *Expirer) due(ctx context.Context, before time.Time, limit int) ([]string, error) {
	rows, err := e.Pool.Query(ctx, `SELECT id FROM run WHERE ended_at IS NOT NULL AND ended_at < $1 AND data_expired_at IS NULL
		AND (data_checked_at IS NULL OR data_checked_at < clock_timestamp() - $3::interval)
		AND id NOT IN (SELECT p ->> 'run_id' FROM run c CROSS JOIN LATERAL jsonb_array_elements(c.parents) p
			WHERE c.ended_at IS NULL AND p ->> 'run_id' IS NOT NULL)
		AND id NOT IN (SELECT split_part(checkpoint ->> 'uri', '/', 4) FROM job WHERE ended_at IS NULL AND checkpoint ->> 'uri' IS NOT NULL)
		ORDER BY ended_at LIMIT $2`, before, limit, checkAgain)
	if err != nil {
		return nil, fmt.Errorf("find runs whose data is old: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find runs whose data is old: %w", err)
	}
	return due, nil
}

// expire returns the runs whose data ingest deletes.
func (e *Expirer) expire(ctx context.Context, runs []string) ([]string, error) {
	used, err := e.Catalog.FindRunsInUse(ctx, &registrypeerv1.FindRunsInUseRequest{RunIds: runs})
	if err != nil {
		return nil, fmt.Errorf("find runs of registered models: %w", err)
	}
	free := slices.DeleteFunc(slices.Clone(runs), func(id string) bool { return slices.Contains(used.GetRunIds(), id) })
	if len(free) == 0 {
		return nil, nil
	}
	out, err := e.Ingest.ExpireRuns(ctx, &ingestpeerv1.ExpireRunsRequest{RunIds: free})
	if err != nil {
		return nil, fmt.Errorf("expire the data of runs: %w", err)
	}
	return out.GetRunIds(), nil
}
