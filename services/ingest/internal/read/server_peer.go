package read

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// PeerServer implements RunDataPeerService. All fields are required.
type PeerServer struct {
	ingestpeerv1.UnimplementedRunDataPeerServiceServer

	Runs      *run.Runs
	Progress  Progress
	Store     *groupcommit.Committer
	Artifacts *artifact.Store
	Expiry    *run.Expiry
	// The calling service has already checked that its user may see the run whose data it requests.
	Metrics     *metric.Store
	Hparams     *run.HParamStore
	Validations *evaluation.ValidationStore
}

// GetArtifact implements RunDataPeerService.
func (s *PeerServer) GetArtifact(ctx context.Context, in *ingestpeerv1.GetArtifactRequest) (*ingestpeerv1.GetArtifactResponse, error) {
	a, err := s.Artifacts.Get(ctx, in.GetRunId(), in.GetArtifactId())
	if err != nil {
		return nil, err
	}
	if err := a.Available(); err != nil {
		return nil, err
	}
	if err := s.Expiry.HoldForModel(ctx, in.GetRunId(), in.GetArtifactId()); err != nil {
		return nil, err
	}
	return &ingestpeerv1.GetArtifactResponse{Artifact: artifactProto(a), Uri: a.URI(), Packed: a.Packed()}, nil
}

// ExpireRuns implements RunDataPeerService.
func (s *PeerServer) ExpireRuns(ctx context.Context, in *ingestpeerv1.ExpireRunsRequest) (*ingestpeerv1.ExpireRunsResponse, error) {
	expired, err := s.Expiry.Expire(ctx, in.GetRunIds())
	if err != nil {
		return nil, err
	}
	return &ingestpeerv1.ExpireRunsResponse{RunIds: expired}, nil
}

// SealRun implements RunDataPeerService.
func (s *PeerServer) SealRun(ctx context.Context, in *ingestpeerv1.SealRunRequest) (*ingestpeerv1.SealRunResponse, error) {
	sealed, err := s.Expiry.Seal(ctx, in.GetRunId())
	return &ingestpeerv1.SealRunResponse{Sealed: sealed}, err
}

// DeleteRun implements RunDataPeerService.
func (s *PeerServer) DeleteRun(ctx context.Context, in *ingestpeerv1.DeleteRunRequest) (*ingestpeerv1.DeleteRunResponse, error) {
	return &ingestpeerv1.DeleteRunResponse{}, s.Expiry.Delete(ctx, in.GetRunId())
}

// CloseRun implements RunDataPeerService. It finishes unfinished lines and ends the streams with eof, even if the run
// never reported. Only the first call has an effect. A call for an attempt does not end the streams.
func (s *PeerServer) CloseRun(ctx context.Context, in *ingestpeerv1.CloseRunRequest) (*ingestpeerv1.CloseRunResponse, error) {
	o, err := s.Runs.Find(ctx, in.GetRunId())
	if err != nil {
		return nil, err
	}
	if in.GetAttempt() > 0 {
		return &ingestpeerv1.CloseRunResponse{}, s.endAttempt(ctx, o.RunID, in.GetAttempt())
	}
	ended := request.TimeOf(in.GetEndedAt())
	closed := make(chan bool, 1)
	_, err = s.Store.Store(ctx, groupcommit.Item{
		RunID: o.RunID, Unfenced: true,
		Write: func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
			if err := logs.End(ctx, tx, batch, r); err != nil {
				return err
			}
			first, err := run.Close(ctx, tx, r.ID, in.GetState(), ended, r.Now)
			if err != nil {
				return err
			}
			r.Fresh, r.Closed = r.Fresh || first, true
			r.Committed(func() { closed <- first })
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &ingestpeerv1.CloseRunResponse{Closed: <-closed}, nil
}

// endAttempt finishes the unfinished lines of the attempts of a run up to the given one.
func (s *PeerServer) endAttempt(ctx context.Context, runID string, attempt int32) error {
	_, err := s.Store.Store(ctx, groupcommit.Item{RunID: runID, Unfenced: true, Write: logs.EndUpTo(attempt)})
	return err
}

// GetRunMetrics implements RunDataPeerService.
func (s *PeerServer) GetRunMetrics(
	ctx context.Context, in *ingestpeerv1.GetRunMetricsRequest,
) (*ingestpeerv1.GetRunMetricsResponse, error) {
	p := request.Page{Limit: int(in.GetLimit()), Offset: int(in.GetOffset())}
	series, more, err := s.Metrics.ListShared(ctx, in.GetRunId(), in.GetKeys(), p)
	if err != nil {
		return nil, err
	}
	out := &ingestpeerv1.GetRunMetricsResponse{More: more}
	out.Series, err = seriesProtos(series)
	return out, err
}

// GetRunHparams implements RunDataPeerService.
func (s *PeerServer) GetRunHparams(
	ctx context.Context, in *ingestpeerv1.GetRunHparamsRequest,
) (*ingestpeerv1.GetRunHparamsResponse, error) {
	params, err := s.Hparams.Get(ctx, in.GetRunId(), nil)
	if err != nil {
		return nil, err
	}
	return &ingestpeerv1.GetRunHparamsResponse{Params: params}, nil
}

// GetRunSamples implements RunDataPeerService. It masks texts before it cuts them, so that no part of a text begins or ends
// within a credential. env and extra would take room from the texts that are shared.
func (s *PeerServer) GetRunSamples(
	ctx context.Context, in *ingestpeerv1.GetRunSamplesRequest,
) (*ingestpeerv1.GetRunSamplesResponse, error) {
	q := &evaluation.SampleQuery{Step: in.Step}
	if err := place(q, in.After, in.Sample); err != nil { //nolint:protogetter // nil means that the field is not set
		return nil, err
	}
	p := request.Page{Limit: int(in.GetLimit()), Offset: int(in.GetOffset())}
	q.Attempt = 0 // a link does not show the rounds that newer attempts hide
	samples, more, err := s.Validations.Samples(ctx, in.GetRunId(), q, p)
	if err != nil {
		return nil, err
	}
	if q.Only != nil {
		samples = slices.DeleteFunc(samples, func(one evaluation.Sample) bool { return one.Place != *q.Only })
	}
	for i := range samples {
		one := &samples[i]
		one.Env, one.Extra, one.Prompt = nil, nil, nil
		for _, text := range []*[]byte{&one.User, &one.Assistant} {
			if *text, err = secret.MaskTexts(*text); err != nil {
				return nil, fmt.Errorf("mask a sample: %w", err)
			}
		}
	}
	return &ingestpeerv1.GetRunSamplesResponse{Samples: sampleProtos(samples, int(in.GetTextFrom())), More: more, Positions: true}, nil
}

// maxSummaries is the maximum number of metrics in a summary of a run.
const maxSummaries = 500

// SummarizeRun implements RunDataPeerService. The position is read first, so that a report that arrives meanwhile makes
// the next summary differ. The metrics of a closed run are always included, because a late report with a low step may have
// hidden points without a change of the position.
func (s *PeerServer) SummarizeRun(ctx context.Context, in *ingestpeerv1.SummarizeRunRequest) (*ingestpeerv1.SummarizeRunResponse, error) {
	p, err := s.Progress(ctx, in.GetRunId())
	if err != nil {
		return nil, err
	}
	out := &ingestpeerv1.SummarizeRunResponse{Position: p.Position(), Closed: p.ClosedAt != nil, ResumeSteps: true}
	if out.Params, err = s.Hparams.Get(ctx, in.GetRunId(), nil); err != nil || out.GetPosition() == in.GetPosition() && !out.GetClosed() {
		return out, err
	}
	if out.Shown, err = s.Metrics.Shown(ctx, in.GetRunId()); err != nil {
		return nil, err
	}
	charts, rows, more, err := s.Metrics.Summaries(ctx, in.GetRunId(), maxSummaries)
	out.Rows, out.More = rows, more
	for i := range charts {
		c := &charts[i]
		m := &ingestpeerv1.SummarizedMetric{Key: c.Key}
		if c.Count > 0 {
			m.Last, m.LastStep = &c.Last.Value, &c.Last.Step
		}
		if c.Numbers() > 0 {
			m.Min, m.Max = &c.Low.Value, &c.High.Value
		}
		out.Metrics = append(out.Metrics, m)
	}
	return out, err
}

// maxDeltas is the approximate maximum size of a response of SummarizeRuns, in bytes, and deltaSize that of a metric in it
// without its key.
const (
	maxDeltas = 2 << 20
	deltaSize = 64
)

// SummarizeRuns implements RunDataPeerService.
func (s *PeerServer) SummarizeRuns(ctx context.Context, in *ingestpeerv1.SummarizeRunsRequest) (*ingestpeerv1.SummarizeRunsResponse, error) {
	known := make([]metric.Known, 0, len(in.GetRuns()))
	for _, r := range in.GetRuns() {
		known = append(known, metric.Known{RunID: r.GetRunId(), Rows: r.GetRows(), Shown: r.GetShown()})
	}
	deltas, err := s.Metrics.Deltas(ctx, known)
	if err != nil {
		return nil, err
	}
	out := &ingestpeerv1.SummarizeRunsResponse{}
	size := 0
	for i := range deltas {
		d := &deltas[i]
		if len(d.Keys) > 2*maxSummaries {
			d.Whole, d.Keys = true, nil
		}
		m := &ingestpeerv1.RunDelta{RunId: d.RunID, Position: d.Position, Rows: d.Rows, Shown: d.Shown, Whole: d.Whole}
		for k := range d.Keys {
			m.Metrics = append(m.Metrics, deltaProto(&d.Keys[k]))
			size += deltaSize + len(d.Keys[k].Key)
		}
		out.Runs = append(out.Runs, m)
		if size > maxDeltas && i+1 < len(deltas) {
			out.Until = d.RunID
			break
		}
	}
	return out, nil
}

func deltaProto(c *metric.Chart) *ingestpeerv1.MetricDelta {
	m := &ingestpeerv1.MetricDelta{Key: c.Key, FirstStep: c.First.Step, LastStep: c.Last.Step, Last: c.Last.Value}
	if c.Numbers() > 0 {
		m.Min, m.Max = &c.Low.Value, &c.High.Value
	}
	return m
}
