package run

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// LineageServer implements RunLineagePeerService.
type LineageServer struct {
	jobspeerv1.UnimplementedRunLineagePeerServiceServer

	Pool *pgxpool.Pool
	Runs Store
}

// ListLineageRuns returns those of the requested runs that the caller of the request may read.
func (s *LineageServer) ListLineageRuns(
	ctx context.Context, req *jobspeerv1.ListLineageRunsRequest,
) (*jobspeerv1.ListLineageRunsResponse, error) {
	found, err := s.Runs.origins(ctx, s.Pool, authn.CallerOf(ctx).Reads(), req.GetIds())
	if err != nil {
		return nil, err
	}
	out := &jobspeerv1.ListLineageRunsResponse{}
	for _, o := range found {
		m := &jobspeerv1.LineageRun{
			RunId: o.ID, Name: o.Name, Project: o.Project, State: o.State, SpecDigest: o.SpecDigest, CreatedAt: timestamppb.New(o.CreatedAt),
		}
		if o.JobID != nil {
			m.JobId = *o.JobID
		}
		for _, from := range o.sources {
			m.Sources = append(m.Sources, &jobspeerv1.LineageSource{Source: from.ref, Detail: from.detail})
		}
		out.Runs = append(out.Runs, m)
	}
	return out, nil
}

// FindDerivedRuns finds the runs that were made from the sources.
func (s *LineageServer) FindDerivedRuns(
	ctx context.Context, req *jobspeerv1.FindDerivedRunsRequest,
) (*jobspeerv1.FindDerivedRunsResponse, error) {
	found, err := s.Runs.derivedFrom(ctx, s.Pool, req.GetSources(), int(req.GetLimit()))
	if err != nil {
		return nil, err
	}
	out := &jobspeerv1.FindDerivedRunsResponse{}
	for _, d := range found {
		out.Runs = append(out.Runs, &jobspeerv1.DerivedRun{Source: d.Source, RunId: d.RunID, Detail: d.Detail})
	}
	return out, nil
}

// inputsOf returns the references of the run's bindings.
func inputsOf(r *Run) (*jobspec.Bindings, error) {
	inputs := &jobspec.Bindings{}
	if err := json.Unmarshal(r.Bindings, inputs); err != nil {
		return nil, fmt.Errorf("read the bindings: %w", err)
	}
	return inputs, nil
}
