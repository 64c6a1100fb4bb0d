package reporting

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// Reporter applies what a training process reports, and returns its pending signals. *lifecycle.Driver implements it.
type Reporter interface {
	Report(ctx context.Context, runID string, attempt int, event, message string) (applied bool, err error)
	Register(ctx context.Context, runID string, c job.Checkpoint) error
	Next(ctx context.Context, runID string, attempt int) (job.PendingSignal, error)
	Ack(ctx context.Context, runID string, attempt int, signalID string) (job.PendingSignal, error)
}

// PeerServer implements RunPeerService. It tries Reporter first, because most runs have a job.
type PeerServer struct {
	jobspeerv1.UnimplementedRunPeerServiceServer
	Pool     *pgxpool.Pool
	Runs     run.Store
	Tokens   *Store
	Reporter Reporter
	Outside  *Outside
	Jobs     *job.Store
	Hub      *pg.NotifyHub
	Clock    clock.Clock
	Catalog  registrypeerv1.CatalogPeerServiceClient
}

// ResolveIngestToken returns the grant of an ingest token.
func (s *PeerServer) ResolveIngestToken(
	ctx context.Context, req *jobspeerv1.ResolveIngestTokenRequest,
) (*jobspeerv1.IngestGrant, error) {
	now, err := pg.Now(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	g, err := s.Tokens.Resolve(ctx, s.Pool, req.GetTokenHash(), now)
	if err != nil {
		return nil, err
	}
	if g.JobID == "" {
		if err := s.Outside.store.hear(ctx, s.Pool, g.RunID, now); err != nil {
			return nil, err
		}
	}
	return &jobspeerv1.IngestGrant{
		RunId: g.RunID, JobId: g.JobID, Attempt: int32(g.Attempt), Container: g.Container, Current: g.Current,
		EndedAt: request.OptionalTime(g.EndedAt), ExpiresAt: timestamppb.New(g.ExpiresAt),
		Owner: &jobspeerv1.RunOwner{
			RunId: g.RunID, JobId: g.JobID, OwnerId: g.OwnerID, ProjectId: g.ProjectID, Project: g.Project, Visibility: g.Visibility,
			VisibilityVersion: g.VisibilityVersion, Goals: g.Goals,
		},
		Withhold: g.Withhold, Disclosure: disclosureToProto(g.Disclosure), ResumeStep: g.ResumeStep,
		Keeping: keepingToProto(g.Checkpoints),
	}, nil
}

// keepingToProto returns nil if all checkpoints are kept.
func keepingToProto(c *jobspec.Checkpoint) *jobspeerv1.CheckpointKeeping {
	if c == nil || c.KeepLast == 0 {
		return nil
	}
	return &jobspeerv1.CheckpointKeeping{Last: int32(c.KeepLast), Best: c.KeepBest, Maximize: c.KeepBestGoal == jobspec.GoalMaximize}
}

func disclosureToProto(d *jobspec.Disclosure) *jobspeerv1.Disclosure {
	if d == nil {
		return nil
	}
	m := &jobspeerv1.Disclosure{Metrics: d.Metrics, Formats: d.Formats}
	for _, key := range slices.Sorted(maps.Keys(d.Params)) {
		m.Params = append(m.Params, &jobspeerv1.DisclosedParam{Key: key, Values: d.Params[key]})
	}
	return m
}

// ReportLifecycle applies a reported lifecycle event to its attempt. A repeated event changes nothing.
func (s *PeerServer) ReportLifecycle(
	ctx context.Context, req *jobspeerv1.ReportLifecycleRequest,
) (*jobspeerv1.ReportLifecycleResponse, error) {
	message := job.StorableText(req.GetMessage(), maxMessage)
	applied, err := s.Reporter.Report(ctx, req.GetRunId(), int(req.GetAttempt()), req.GetEvent(), message)
	if fault.Is(err, fault.Absent) {
		applied, err = s.Outside.Report(ctx, req.GetRunId(), req.GetEvent(), message)
	}
	if err != nil {
		return nil, err
	}
	return &jobspeerv1.ReportLifecycleResponse{Applied: applied}, nil
}

// GetRunOwner returns the owner and project of a run. The request contains the id of the run or of the job. The calling
// service needs the result to check the access of its own caller. If the request sets readable, a run that this caller
// may not read is reported as absent.
func (s *PeerServer) GetRunOwner(ctx context.Context, req *jobspeerv1.GetRunOwnerRequest) (*jobspeerv1.RunOwner, error) {
	scope := access.ServiceScope()
	if req.GetReadable() {
		scope = authn.CallerOf(ctx).Reads()
	}
	r, err := s.Runs.Get(ctx, s.Pool, scope, req.GetId())
	if err != nil {
		return nil, err
	}
	m := &jobspeerv1.RunOwner{
		RunId: r.ID, OwnerId: r.OwnerID, ProjectId: r.ProjectID, Project: r.Project, Visibility: r.Visibility,
		VisibilityVersion: r.VisibilityVersion, Protected: r.Protected, ProtectedDatasets: r.ProtectedDatasets,
	}
	if r.JobID != nil {
		m.JobId = *r.JobID
	}
	m.Goals, err = s.Runs.Goals(ctx, s.Pool, r.ID)
	return m, err
}

// ProtectRuns protects the unfinished runs that read a dataset.
func (s *PeerServer) ProtectRuns(ctx context.Context, req *jobspeerv1.ProtectRunsRequest) (*jobspeerv1.ProtectRunsResponse, error) {
	n, err := s.Runs.Protect(ctx, s.Pool, req.GetDatasetId(), req.GetRef())
	return &jobspeerv1.ProtectRunsResponse{Runs: int32(n)}, err
}

// FindArtifactsInUse returns the artifacts from which jobs resume, and those from which a model version was registered.
func (s *PeerServer) FindArtifactsInUse(
	ctx context.Context, req *jobspeerv1.FindArtifactsInUseRequest,
) (*jobspeerv1.FindArtifactsInUseResponse, error) {
	runs, artifacts := make([]string, 0, len(req.GetArtifacts())), make([]string, 0, len(req.GetArtifacts()))
	for _, a := range req.GetArtifacts() {
		runs, artifacts = append(runs, a.GetRunId()), append(artifacts, a.GetArtifactId())
	}
	resumed, err := s.Jobs.ResumePoints(ctx, s.Pool, runs, artifacts)
	if err != nil {
		return nil, err
	}
	used, err := s.Catalog.FindArtifactsInUse(ctx, &registrypeerv1.FindArtifactsInUseRequest{RunIds: runs, ArtifactIds: artifacts})
	if err != nil {
		return nil, fmt.Errorf("find the artifacts of registered models: %w", err)
	}
	return &jobspeerv1.FindArtifactsInUseResponse{ArtifactIds: append(resumed, used.GetArtifactIds()...)}, nil
}

// maxUsers is the maximum number of jobs in a response of ListModelUsers.
const maxUsers = 20

// ListModelUsers lists up to maxUsers jobs that have not ended and start from a model, or from one version of it. The
// version that was resolved at submission counts, not the alias in the spec.
func (s *PeerServer) ListModelUsers(ctx context.Context, req *jobspeerv1.ListModelUsersRequest) (*jobspeerv1.ListModelUsersResponse, error) {
	model, _, one := strings.Cut(req.GetRef(), "@")
	found, err := s.Runs.StartingFrom(ctx, s.Pool, model)
	if err != nil {
		return nil, err
	}
	out := &jobspeerv1.ListModelUsersResponse{}
	for _, t := range found {
		spec := &jobsv1.AttemptSpec{}
		if err := proto.Unmarshal(t.Spec, spec); err != nil {
			return nil, fmt.Errorf("read the template of job %s: %w", t.JobID, err)
		}
		if one && spec.GetModel().GetRef() != req.GetRef() {
			continue
		}
		if out.JobIds = append(out.JobIds, t.JobID); len(out.GetJobIds()) == maxUsers {
			break
		}
	}
	return out, nil
}

// maxMessage is the maximum size of a reported message, in bytes.
const maxMessage = 4096
