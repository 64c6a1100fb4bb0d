package read

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/follow"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// followed is how many lines are read at once.
const followed = 500

// Progress tells how far a run has come.
type Progress func(ctx context.Context, runID string) (run.Progress, error)

// LogPages reads the lines of runs for followers; a place behind the last one is a fault of who asks.
func LogPages(progress Progress, store *logs.Store) follow.Read[*ingestv1.FollowLogsResponse] {
	return func(ctx context.Context, runID string, after int64) (follow.Page[*ingestv1.FollowLogsResponse], error) {
		page := follow.Page[*ingestv1.FollowLogsResponse]{Last: after}
		// Read before the lines: what is closed by then has all its lines.
		p, err := progress(ctx, runID)
		if err == nil {
			page.Owner, err = p.Owner, within(after, p.LineSeq)
		}
		if err != nil || (p.LineSeq <= after && p.ClosedAt == nil) {
			return page, err
		}
		lines, err := store.Range(ctx, runID, after, followed)
		if err != nil {
			return page, err
		}
		for i := range lines {
			page.Events = append(page.Events, &ingestv1.FollowLogsResponse{
				Event: &ingestv1.FollowLogsResponse_Line{Line: lineProto(&lines[i])},
			})
			page.Last = lines[i].Seq
		}
		if page.End = p.ClosedAt != nil && page.Last >= p.LineSeq; page.End {
			page.Events = append(page.Events, &ingestv1.FollowLogsResponse{
				Event: &ingestv1.FollowLogsResponse_Eof{Eof: &ingestv1.Eof{Seq: page.Last, State: p.State}},
			})
		}
		return page, nil
	}
}

// MetricPages reads the metric batches of runs for followers; a place behind the last one is a fault of
// who asks.
func MetricPages(progress Progress, store *metric.Store) follow.Read[*ingestv1.FollowMetricsResponse] {
	return func(ctx context.Context, runID string, after int64) (follow.Page[*ingestv1.FollowMetricsResponse], error) {
		page := follow.Page[*ingestv1.FollowMetricsResponse]{Last: after}
		p, err := progress(ctx, runID)
		if err == nil {
			page.Owner, err = p.Owner, within(after, p.BatchSeq)
		}
		if err != nil || (p.BatchSeq <= after && p.ClosedAt == nil) {
			return page, err
		}
		batches, err := store.After(ctx, runID, after)
		if err != nil {
			return page, err
		}
		for i := range batches {
			page.Events = append(page.Events, &ingestv1.FollowMetricsResponse{
				Event: &ingestv1.FollowMetricsResponse_Batch{Batch: batchProto(&batches[i])},
			})
			page.Last = batches[i].Seq
		}
		if page.End = p.ClosedAt != nil && page.Last >= p.BatchSeq; page.End {
			page.Events = append(page.Events, &ingestv1.FollowMetricsResponse{
				Event: &ingestv1.FollowMetricsResponse_Eof{Eof: &ingestv1.Eof{Seq: page.Last, State: p.State}},
			})
		}
		return page, nil
	}
}

// within refuses a place that the stream has not come to: it is one of another stream, and to wait there
// would be to miss everything up to it.
func within(after, last int64) error {
	if after <= last {
		return nil
	}
	field := fault.At(fault.TypeLessThanEqual, fmt.Sprintf("Input should be less than or equal to %d, the stream's last id", last), "after")
	field.Ctx = map[string]any{"le": last}
	return fault.InvalidFields(field)
}

// FollowLogs implements RunDataService.
func (s *Server) FollowLogs(in *ingestv1.FollowLogsRequest, stream grpc.ServerStreamingServer[ingestv1.FollowLogsResponse]) error {
	id, err := s.Runs.Readable(stream.Context(), in.GetId())
	if err != nil {
		return err
	}
	return s.LogStreams.Follow(stream.Context(), id, max(0, in.GetAfter()), sender(stream, in.GetId()))
}

// FollowMetrics implements RunDataService.
func (s *Server) FollowMetrics(in *ingestv1.FollowMetricsRequest, stream grpc.ServerStreamingServer[ingestv1.FollowMetricsResponse]) error {
	id, err := s.Runs.Readable(stream.Context(), in.GetId())
	if err != nil {
		return err
	}
	return s.Batches.Follow(stream.Context(), id, max(0, in.GetAfter()), sender(stream, in.GetId()))
}

// sender sends the pages of the run that the caller named, as long as the caller may read it: it may be given
// away and its project hidden while it is followed.
func sender[M any](stream grpc.ServerStreamingServer[M], name string) func(follow.Page[*M]) error {
	opened := false
	return func(page follow.Page[*M]) error {
		if err := page.Owner.Readable(stream.Context(), name); err != nil {
			return err
		}
		if !opened {
			// The header tells that the caller may read, before there is anything to read.
			if err := stream.SendHeader(metadata.MD{}); err != nil {
				return err
			}
			opened = true
		}
		for _, event := range page.Events {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		return nil
	}
}
