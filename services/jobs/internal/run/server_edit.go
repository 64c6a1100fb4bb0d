package run

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// UpdateRun changes the name, tags, notes and archiving of a run. A request that changes nothing leaves no trace.
func (s *Server) UpdateRun(ctx context.Context, req *jobsv1.UpdateRunRequest) (*jobsv1.Run, error) {
	r, err := s.get(ctx, req.GetRunId())
	if err != nil {
		return nil, err
	}
	scope := authn.ScopeOf(ctx)
	if err := scope.Require(r.OwnerID, r.ProjectID, SubjectKind, r.ID); err != nil {
		return nil, err
	}
	c, err := changesFromProto(req)
	if err != nil {
		return nil, err
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if r, err = s.Runs.Lock(ctx, tx, scope, req.GetRunId()); err != nil {
			return err
		}
		if err := request.CheckIfMatch(ctx, r.Version); err != nil {
			return err
		}
		return s.change(ctx, tx, r, c)
	})
	if err != nil {
		return nil, err
	}
	return withETag(ctx, r)
}

func (s *Server) get(ctx context.Context, runID string) (*Run, error) {
	if err := request.ID(id.Run, "run_id", runID); err != nil {
		return nil, err
	}
	return s.Runs.Get(ctx, s.Pool, authn.ScopeOf(ctx), runID)
}

// withETag converts a run and sets its version as the ETag, for use with If-Match.
func withETag(ctx context.Context, r *Run) (*jobsv1.Run, error) {
	return ToProto(r), request.SetETag(ctx, r.Version)
}

// change changes a locked run, with its event and its audit row. These contain no notes, only their version.
func (s *Server) change(ctx context.Context, tx pgx.Tx, r *Run, c *Changes) error {
	changed := c.Apply(r)
	if len(changed) == 0 {
		return nil
	}
	now, after := s.Clock.Now(), map[string]any{}
	for _, field := range changed {
		switch field {
		case "name":
			after[field] = r.Name
		case "tags":
			after[field] = r.Tags
		case "archived":
			after[field] = r.Archived
		case "notes":
			r.NotesVersion++
			after["notes_version"] = r.NotesVersion
			if err := s.Runs.AddNotes(ctx, tx, r, authn.CallerOf(ctx), now); err != nil {
				return err
			}
		}
	}
	if err := s.Runs.SaveFacts(ctx, tx, r, now); err != nil {
		return err
	}
	data, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("encode the changes of a run: %w", err)
	}
	if _, err := s.Events.Append(ctx, tx, event.Event{SubjectKind: SubjectKind, SubjectID: r.ID, Type: "run.updated", Data: data}); err != nil {
		return err
	}
	return s.Trail.Record(ctx, tx, "run.update", SubjectKind, r.ID, after)
}

func changesFromProto(req *jobsv1.UpdateRunRequest) (*Changes, error) {
	c := &Changes{Name: req.Name, Notes: req.Notes, Archived: req.Archived}
	if len(req.GetTags()) == 0 {
		return c, nil
	}
	var tags []string
	if err := json.Unmarshal(req.GetTags(), &tags); err != nil || tags == nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeListType, "Input should be a list of strings", "tags"))
	}
	var err error
	c.Tags, err = NormalTags(tags)
	return c, err
}

// ListRunNotes lists the versions of a run's notes, newest first.
func (s *Server) ListRunNotes(ctx context.Context, req *jobsv1.ListRunNotesRequest) (*jobsv1.ListRunNotesResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	r, err := s.get(ctx, req.GetRunId())
	if err != nil {
		return nil, err
	}
	notes, err := s.Runs.ListNotes(ctx, s.Pool, r.ID, p)
	if err != nil {
		return nil, err
	}
	notes, more := request.CutPage(notes, p)
	resp := &jobsv1.ListRunNotesResponse{}
	for _, n := range notes {
		resp.Notes = append(resp.Notes, notesToProto(n))
	}
	return resp, request.SetMore(ctx, more)
}

// GetRunNotes returns a version of a run's notes.
func (s *Server) GetRunNotes(ctx context.Context, req *jobsv1.GetRunNotesRequest) (*jobsv1.RunNotes, error) {
	r, err := s.get(ctx, req.GetRunId())
	if err != nil {
		return nil, err
	}
	n, err := s.Runs.GetNotes(ctx, s.Pool, r.ID, req.GetVersion())
	if err != nil {
		return nil, err
	}
	return notesToProto(n), nil
}

func notesToProto(n *Notes) *jobsv1.RunNotes {
	return &jobsv1.RunNotes{Version: n.Version, Author: n.Author, CreatedAt: timestamppb.New(n.CreatedAt), Text: n.Text}
}

// ListProjectTags lists the tags of the runs in a project that the caller may read.
func (s *Server) ListProjectTags(ctx context.Context, req *jobsv1.ListProjectTagsRequest) (*jobsv1.ListProjectTagsResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	if err := request.ID(id.Project, "project_id", req.GetProjectId()); err != nil {
		return nil, err
	}
	scope := authn.ScopeOf(ctx)
	project, err := s.Projects.GetProject(ctx, &authpeerv1.GetProjectRequest{Project: req.GetProjectId()})
	if fault.Is(err, fault.Absent) || err == nil && !scope.Sees("", project.GetId(), project.GetVisibility()) {
		return nil, fault.Absentf("project", req.GetProjectId())
	}
	if err != nil {
		return nil, fmt.Errorf("look up project %s: %w", req.GetProjectId(), err)
	}
	tags, err := s.Runs.Tags(ctx, s.Pool, scope, req.GetProjectId(), strings.ToLower(req.GetQ()), p)
	if err != nil {
		return nil, err
	}
	tags, more := request.CutPage(tags, p)
	resp := &jobsv1.ListProjectTagsResponse{}
	for _, t := range tags {
		resp.Tags = append(resp.Tags, &jobsv1.TagCount{Tag: t.Tag, Runs: t.Runs})
	}
	return resp, request.SetMore(ctx, more)
}
