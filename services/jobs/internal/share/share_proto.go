package share

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

func shareToProto(s *Share) *jobsv1.Share {
	return &jobsv1.Share{
		Id: s.ID, Kind: kindToProto(s.Kind), TargetIds: s.Targets, Fields: s.Fields, Pinned: s.Pinned, Title: request.NonEmpty(s.Title),
		Owner: s.OwnerName, Prefix: s.Prefix, CreatedAt: timestamppb.New(s.CreatedAt), ExpiresAt: request.OptionalTime(s.ExpiresAt),
		RevokedAt: request.OptionalTime(s.RevokedAt), Views: s.Views, LastViewedAt: request.OptionalTime(s.LastViewedAt),
	}
}

func sharedToProto(s *Share) *jobsv1.Shared {
	return &jobsv1.Shared{
		Kind: kindToProto(s.Kind), Title: request.NonEmpty(s.Title), Pinned: s.Pinned, Fields: s.Fields,
		CreatedAt: timestamppb.New(s.CreatedAt), ExpiresAt: request.OptionalTime(s.ExpiresAt),
	}
}

func runToShared(r *run.Run) (*jobsv1.SharedRun, error) {
	name, version, err := recipeOf(r)
	if err != nil {
		return nil, err
	}
	return &jobsv1.SharedRun{
		Name: r.Name, State: jobapi.StateToProto(job.State(r.State)), Recipe: name, RecipeVersion: version, Attempts: int32(r.Attempts),
		CreatedAt: timestamppb.New(r.CreatedAt), StartedAt: request.OptionalTime(r.StartedAt), EndedAt: request.OptionalTime(r.EndedAt),
	}, nil
}

// recipeOf reads the recipe of a run from its lock.
func recipeOf(r *run.Run) (name, version string, err error) {
	var lock struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(r.RecipeLock, &lock); err != nil {
		return "", "", fmt.Errorf("read the recipe lock of run %s: %w", r.ID, err)
	}
	return lock.Name, lock.Version, nil
}

// seriesFromReports copies only key, step, value and time of the reported series.
func seriesFromReports(in []*ingestv1.MetricSeries) []*jobsv1.SharedSeries {
	out := make([]*jobsv1.SharedSeries, len(in))
	for i, s := range in {
		out[i] = &jobsv1.SharedSeries{Key: s.GetKey(), Omitted: s.GetOmitted(), Points: make([]*jobsv1.SharedPoint, len(s.GetPoints()))}
		for n, p := range s.GetPoints() {
			out[i].Points[n] = &jobsv1.SharedPoint{Step: p.GetStep(), Value: p.GetValue(), Ts: p.GetTs()}
		}
	}
	return out
}

// samplesFromReports copies the conversation and the reward. env and extra are private to the training.
func samplesFromReports(in []*ingestv1.Sample) []*jobsv1.SharedSample {
	out := make([]*jobsv1.SharedSample, len(in))
	for i, s := range in {
		out[i] = &jobsv1.SharedSample{
			Step: s.GetStep(), Index: s.GetIndex(), User: s.GetUser(), Assistant: s.GetAssistant(), Reward: s.Reward,
			Id: s.GetId(), Truncated: s.GetTruncated(), TextNext: s.TextNext,
		}
	}
	return out
}

func kindToProto(k Kind) jobsv1.ShareKind {
	if k == Comparison {
		return jobsv1.ShareKind_SHARE_KIND_COMPARISON
	}
	return jobsv1.ShareKind_SHARE_KIND_JOB
}

func kindFromProto(k jobsv1.ShareKind) Kind {
	if k == jobsv1.ShareKind_SHARE_KIND_COMPARISON {
		return Comparison
	}
	return Job
}
