package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

const (
	// protectTimeout is the time limit for one call to the jobs service.
	protectTimeout = 15 * time.Second
	// admitting is the maximum duration of a submission after it has looked up its datasets.
	admitting = time.Minute
)

// ProtectArgs are the arguments of the queued task that protects the runs of a dataset.
type ProtectArgs struct {
	DatasetID string `json:"dataset_id"`
	Ref       string `json:"ref"`
}

// Kind implements river.JobArgs.
func (ProtectArgs) Kind() string { return "protect_runs" }

// Protections queues tasks that protect runs.
type Protections struct {
	Queue *bgjob.Client
	Clock clock.Clock
}

// Protect queues two tasks that protect the unfinished runs of a dataset, in the transaction that protects the dataset.
// The second task runs later, when no submission that found the dataset unprotected can still be in progress.
func (p *Protections) Protect(ctx context.Context, tx pgx.Tx, datasetID, ref string) error {
	for _, after := range []time.Duration{0, admitting} {
		opts := &river.InsertOpts{ScheduledAt: p.Clock.Now().Add(after)}
		if _, err := p.Queue.InsertTx(ctx, tx, ProtectArgs{DatasetID: datasetID, Ref: ref}, opts); err != nil {
			return fmt.Errorf("queue the protection of runs: %w", err)
		}
	}
	return nil
}

// Protector is the worker for the tasks that Protections queues. It calls the jobs service, which protects the runs.
type Protector struct {
	river.WorkerDefaults[ProtectArgs]

	Runs jobspeerv1.RunPeerServiceClient
}

// Work implements river.Worker.
func (p *Protector) Work(ctx context.Context, job *river.Job[ProtectArgs]) error {
	ctx, cancel := context.WithTimeout(ctx, protectTimeout)
	defer cancel()
	_, err := p.Runs.ProtectRuns(ctx, &jobspeerv1.ProtectRunsRequest{DatasetId: job.Args.DatasetID, Ref: job.Args.Ref})
	if err != nil {
		return fmt.Errorf("protect the runs of dataset %s: %w", job.Args.DatasetID, err)
	}
	return nil
}

// FindProtected returns the requested references whose dataset is protected or does not exist.
func (s *Server) FindProtected(
	ctx context.Context, in *registrypeerv1.FindProtectedRequest,
) (*registrypeerv1.FindProtectedResponse, error) {
	out := &registrypeerv1.FindProtectedResponse{}
	for _, text := range in.GetRefs() {
		r, ok := ref.Parse(ref.Dataset, text)
		if ok {
			var err error
			if ok, err = open(ctx, s.Pool, r); err != nil {
				return nil, err
			}
		}
		if !ok {
			out.Refs = append(out.Refs, text)
		}
	}
	return out, nil
}
