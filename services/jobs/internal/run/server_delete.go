package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"google.golang.org/protobuf/types/known/emptypb"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// blocks is the effect of a reference that prevents the deletion of a run.
const blocks = "blocks"

const (
	// maxReferences is the maximum number of references of a kind that are listed.
	maxReferences = 100
	// askTimeout is the time limit of the calls to other services before a deletion.
	askTimeout = 5 * time.Second
)

// reference is an object that refers to a run.
type reference struct {
	Kind, ID, Name, Effect string
	Seen                   bool // by the caller
}

// references are what refers to a run, without what the caller may not see.
type references struct {
	shown []*reference
	// hidden counts what the caller may not see, and barring what of it prevents the deletion.
	hidden, barring int
}

func (r *references) add(found []*reference) {
	for _, ref := range found {
		if ref.Seen {
			r.shown = append(r.shown, ref)
			continue
		}
		if r.hidden++; ref.Effect == blocks {
			r.barring++
		}
	}
}

// DeleteServer implements DeletionService.
type DeleteServer struct {
	jobsv1.UnimplementedDeletionServiceServer
	Pool    *pgxpool.Pool
	Runs    Store
	Ingest  ingestpeerv1.RunDataPeerServiceClient
	Catalog registrypeerv1.CatalogPeerServiceClient
	Events  *event.Log
	Trail   db.Recorder
	Queue   Inserter
}

// references returns what refers to a run in this service and in the registry.
func (s *DeleteServer) references(ctx context.Context, r *Run) (*references, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	uses, err := s.Catalog.FindRunUses(ctx, &registrypeerv1.FindRunUsesRequest{RunId: r.ID})
	if err != nil {
		return nil, fmt.Errorf("find the models of run %s: %w", r.ID, err)
	}
	out := &references{hidden: int(uses.GetHidden()), barring: int(uses.GetHidden())}
	for _, u := range uses.GetUses() {
		out.shown = append(out.shown, &reference{Kind: u.GetKind(), ID: u.GetId(), Name: u.GetName(), Effect: blocks, Seen: true})
	}
	own, err := s.Runs.references(ctx, s.Pool, authn.CallerOf(ctx).Reads(), r)
	out.add(own)
	return out, err
}

// refuse returns a conflict that names what prevents the deletion of a run, or nil if nothing does.
func refuse(r *Run, refs *references) error {
	if r.EndedAt == nil {
		return fault.New(fault.Conflict, "run_state", "run %s has not ended; stop its job, or report its end, first", r.ID)
	}
	var names []string
	for _, ref := range refs.shown {
		if ref.Effect == blocks {
			names = append(names, strings.ReplaceAll(ref.Kind, "_", " ")+" "+ref.Name)
		}
	}
	if refs.barring > 0 {
		names = append(names, fmt.Sprintf("%d that you may not see", refs.barring))
	}
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "run_in_use", "run %s is in use; first delete what uses it: %s", r.ID, strings.Join(names, ", "))
}

// DeleteArgs are the arguments of the queue job that deletes the data of a deleted run.
type DeleteArgs struct {
	RunID string `json:"run_id"`
}

// Kind implements river.JobArgs.
func (DeleteArgs) Kind() string { return "delete_run" }

// Deleter makes ingest delete the data of a deleted run. The call is idempotent, and is repeated like that of Closer.
type Deleter struct {
	river.WorkerDefaults[DeleteArgs]
	Ingest ingestpeerv1.RunDataPeerServiceClient
	Clock  clock.Clock
}

// NextRetry doubles the pause between tries, up to maxClosePause.
func (d *Deleter) NextRetry(j *river.Job[DeleteArgs]) time.Time { return retryAt(d.Clock, j.Attempt) }

// Work marks the data of one run for deletion.
func (d *Deleter) Work(ctx context.Context, j *river.Job[DeleteArgs]) error {
	if _, err := d.Ingest.DeleteRun(ctx, &ingestpeerv1.DeleteRunRequest{RunId: j.Args.RunID}); err != nil {
		return fmt.Errorf("delete the data of run %s: %w", j.Args.RunID, err)
	}
	return nil
}

// GetRunReferences lists what refers to a run.
func (s *DeleteServer) GetRunReferences(ctx context.Context, req *jobsv1.GetRunReferencesRequest) (*jobsv1.References, error) {
	r, err := s.find(ctx, id.Run, "run_id", req.GetRunId())
	if err != nil {
		return nil, err
	}
	refs, err := s.references(ctx, r)
	if err != nil {
		return nil, err
	}
	m := &jobsv1.References{Deletable: refuse(r, refs) == nil, Hidden: int32(refs.hidden)}
	for _, ref := range refs.shown {
		m.References = append(m.References, &jobsv1.Reference{Kind: ref.Kind, Id: ref.ID, Name: ref.Name, Effect: ref.Effect})
	}
	return m, nil
}

// find returns the run with an id, or the run of the job with an id.
func (s *DeleteServer) find(ctx context.Context, kind id.Prefix, field, name string) (*Run, error) {
	if err := request.ID(kind, field, name); err != nil {
		return nil, err
	}
	return s.Runs.Get(ctx, s.Pool, authn.ScopeOf(ctx), name)
}

// DeleteRun deletes a run. What refers to it is checked before and after the run is sealed, so that no model is registered
// from it meanwhile. Then one transaction deletes its rows and queues the deletion of its data.
func (s *DeleteServer) DeleteRun(ctx context.Context, req *jobsv1.DeleteRunRequest) (*emptypb.Empty, error) {
	r, err := s.find(ctx, id.Run, "run_id", req.GetRunId())
	if err != nil {
		return nil, err
	}
	scope := authn.ScopeOf(ctx)
	if err := scope.Require(r.OwnerID, r.ProjectID, SubjectKind, r.ID); err != nil {
		return nil, err
	}
	for _, step := range []func(ctx context.Context, r *Run) error{s.check, s.seal, s.check} {
		if err := step(ctx, r); err != nil {
			return nil, err
		}
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error { return s.remove(ctx, tx, scope, r.ID) })
	if err != nil {
		return nil, err
	}
	// Hide the data before the response. If this fails, the queue does it later.
	_, _ = s.Ingest.DeleteRun(ctx, &ingestpeerv1.DeleteRunRequest{RunId: r.ID})
	return &emptypb.Empty{}, nil
}

// check returns a conflict if something prevents the deletion of a run.
func (s *DeleteServer) check(ctx context.Context, r *Run) error {
	refs, err := s.references(ctx, r)
	if err != nil {
		return err
	}
	return refuse(r, refs)
}

// seal makes ingest refuse that a model is registered from a run. It returns a conflict if that may be in progress.
func (s *DeleteServer) seal(ctx context.Context, r *Run) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, err := s.Ingest.SealRun(ctx, &ingestpeerv1.SealRunRequest{RunId: r.ID})
	if err != nil {
		return fmt.Errorf("seal run %s: %w", r.ID, err)
	}
	if !out.GetSealed() {
		return fault.New(fault.Conflict, "run_in_use", "a model may be about to be registered from run %s; repeat the request in 15 minutes", r.ID)
	}
	return nil
}

// remove deletes a run with its job in one transaction, with the event, the audit row and the queued deletion of its data.
func (s *DeleteServer) remove(ctx context.Context, tx pgx.Tx, scope authn.Scope, runID string) error {
	r, err := s.Runs.Lock(ctx, tx, scope, runID)
	if err == nil {
		err = scope.Require(r.OwnerID, r.ProjectID, "run", r.ID) // the run may have been transferred since the first check
	}
	if err != nil {
		return err
	}
	found, err := s.Runs.references(ctx, tx, authn.CallerOf(ctx).Reads(), r)
	if err != nil {
		return err
	}
	refs := &references{}
	refs.add(found)
	if err := refuse(r, refs); err != nil {
		return err
	}
	after := map[string]any{"name": r.Name, "project": r.Project}
	if r.JobID != nil {
		after["job_id"] = *r.JobID
		if _, err := s.Runs.dropJob(ctx, tx, *r.JobID); err != nil {
			return err
		}
	}
	links, err := s.Runs.drop(ctx, tx, r.ID)
	if err != nil {
		return err
	}
	after["revoked_links"] = links
	if _, err := s.Queue.InsertTx(ctx, tx, DeleteArgs{RunID: r.ID}, &river.InsertOpts{MaxAttempts: closeTries}); err != nil {
		return fmt.Errorf("queue the deletion of the data of run %s: %w", r.ID, err)
	}
	return s.record(ctx, tx, "run", SubjectKind, r.ID, after)
}

// DeleteJob deletes an ended job. Its run stays.
func (s *DeleteServer) DeleteJob(ctx context.Context, req *jobsv1.DeleteJobRequest) (*emptypb.Empty, error) {
	r, err := s.find(ctx, id.Job, "job_id", req.GetJobId())
	if err != nil {
		return nil, err
	}
	scope := authn.ScopeOf(ctx)
	if err := scope.Require(r.OwnerID, r.ProjectID, job.SubjectKind, req.GetJobId()); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		existed, err := s.Runs.dropJob(ctx, tx, req.GetJobId())
		if err != nil {
			return err
		}
		if !existed {
			return fault.Absentf(job.SubjectKind, req.GetJobId())
		}
		return s.record(ctx, tx, "job", job.SubjectKind, req.GetJobId(), map[string]any{"name": r.Name, "project": r.Project, "run_id": r.ID})
	})
}

// record stores the event and the audit row of a deletion.
func (s *DeleteServer) record(ctx context.Context, tx pgx.Tx, what, kind, subject string, after map[string]any) error {
	if _, err := s.Events.Append(ctx, tx, event.Event{SubjectKind: kind, SubjectID: subject, Type: what + ".deleted"}); err != nil {
		return err
	}
	return s.Trail.Record(ctx, tx, what+".delete", kind, subject, after)
}
