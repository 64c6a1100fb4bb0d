package run

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// CloseArgs are the arguments of the queue job that closes a run's streams.
type CloseArgs struct {
	RunID string `json:"run_id"`
}

// Kind implements river.JobArgs.
func (CloseArgs) Kind() string { return "close_run" }

// Inserter inserts River jobs in a transaction.
type Inserter interface {
	InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// Closing queues the closing of runs.
type Closing struct{ Queue Inserter }

// closeTries is the maximum number of tries. They last for days, because readers of a run without eof would wait
// forever.
const closeTries = 20_000

// CloseRun queues the closing of a run in the transaction that ends it.
func (c *Closing) CloseRun(ctx context.Context, tx pgx.Tx, runID string) error {
	_, err := c.Queue.InsertTx(ctx, tx, CloseArgs{RunID: runID}, &river.InsertOpts{MaxAttempts: closeTries})
	return err
}

// Closer sets eof on the streams of ended runs. The call to ingest is idempotent.
type Closer struct {
	river.WorkerDefaults[CloseArgs]
	Pool   *pgxpool.Pool
	Runs   Store
	Ingest ingestpeerv1.RunDataPeerServiceClient
	Clock  clock.Clock
}

// Work closes one run.
func (c *Closer) Work(ctx context.Context, j *river.Job[CloseArgs]) error {
	r, err := c.Runs.Get(ctx, c.Pool, authn.Scope{Admin: true, Projects: []string{}}, j.Args.RunID)
	if err != nil {
		return err
	}
	_, err = c.Ingest.CloseRun(ctx, &ingestpeerv1.CloseRunRequest{
		RunId: r.ID, State: r.State, EndedAt: timestamppb.New(*r.EndedAt),
	})
	if err != nil {
		return fmt.Errorf("close run %s: %w", r.ID, err)
	}
	return nil
}

// CloseTimeout is the time limit of one try. A try that a crash interrupted is repeated soon after it.
const CloseTimeout = 10 * time.Second

const maxClosePause = 15 * time.Second

// NextRetry doubles the pause between tries, up to maxClosePause.
func (c *Closer) NextRetry(j *river.Job[CloseArgs]) time.Time {
	pause := time.Second << min(j.Attempt, 4)
	return c.Clock.Now().Add(min(pause, maxClosePause))
}
