package reporting

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// Server implements OutsideRunService.
type Server struct {
	jobsv1.UnimplementedOutsideRunServiceServer
	Tokens   *Store
	Projects access.Projects
	Once     *idempotency.Once
	IDs      *id.Source
	Events   *event.Log
	Trail    db.Recorder
	// Endpoint returns the base URL to which the process reports.
	Endpoint func() string
	store    outsideStore
}

// CreateRun creates a run without a job and its ingest token. A repeat with the same Idempotency-Key returns the run
// without the token.
func (s *Server) CreateRun(ctx context.Context, req *jobsv1.CreateRunRequest) (*jobsv1.CreatedRun, error) {
	const method = jobsv1.OutsideRunService_CreateRun_FullMethodName
	resp := &jobsv1.CreatedRun{}
	if replayed, err := s.Once.Replay(ctx, method, req, resp); err != nil || replayed {
		return resp, err
	}
	r, err := s.draft(ctx, req)
	if err != nil {
		return nil, err
	}
	var token *secret.String
	err = s.Once.Do(ctx, method, req, resp, func(ctx context.Context, tx pgx.Tx) error {
		fresh, made, err := s.create(ctx, tx, r)
		if err != nil {
			return err
		}
		token = &fresh
		idempotency.Set(resp, made)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if token != nil {
		resp.Token = new(token.Reveal())
	}
	return resp, nil
}

// draft checks the project and the tags of a request.
func (s *Server) draft(ctx context.Context, req *jobsv1.CreateRunRequest) (*run.Run, error) {
	owner, err := access.OwnerFor(ctx, s.Projects, req.GetProject())
	if err != nil {
		return nil, err
	}
	tags, err := run.NormalTags(req.GetTags())
	if err != nil {
		return nil, err
	}
	return &run.Run{
		ID: s.IDs.New(id.Run), Name: req.GetName(), OwnerID: owner.UserID, OwnerName: owner.UserName, ProjectID: owner.ProjectID,
		Project: owner.Project, Visibility: owner.Visibility, VisibilityVersion: owner.VisibilityVersion, State: string(job.Running),
		Attempts: outsideAttempt, RecipeLock: []byte("{}"), Bindings: []byte("{}"), Tags: tags, Labels: req.GetLabels(), Notes: new(""),
		Version: 1, SilenceS: new(cmp.Or(req.GetSilenceS(), DefaultSilence)),
	}, nil
}

// create stores a run with its token, its event and its audit row.
func (s *Server) create(ctx context.Context, tx pgx.Tx, r *run.Run) (token secret.String, made *jobsv1.CreatedRun, err error) {
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return token, nil, err
	}
	r.CreatedAt, r.StartedAt = id.Time(r.ID), &now // the id is a position in lists
	if err := s.store.insert(ctx, tx, r); err != nil {
		return token, nil, err
	}
	token, expires, err := s.Tokens.Mint(ctx, tx, Holder{WorkID: r.ID, RunID: r.ID, Attempt: outsideAttempt}, now)
	if err != nil {
		return token, nil, err
	}
	_, err = s.Events.Append(ctx, tx, event.Event{SubjectKind: run.SubjectKind, SubjectID: r.ID, Type: "run.created", To: r.State})
	if err != nil {
		return token, nil, err
	}
	made = &jobsv1.CreatedRun{Run: run.ToProto(r), Endpoint: s.Endpoint(), TokenExpiresAt: timestamppb.New(expires)}
	return token, made, s.Trail.Record(ctx, tx, "run.create", run.SubjectKind, r.ID, map[string]any{"name": r.Name, "project": r.Project, "silence_s": r.SilenceS})
}
