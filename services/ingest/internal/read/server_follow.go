package read

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/follow"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// followed is the maximum number of lines that one read returns.
const followed = 500

// Progress loads the progress of a run.
type Progress func(ctx context.Context, runID string) (run.Progress, error)

// LogPages returns a function that reads log lines for followers. The function rejects a position after the last line. If
// there are no lines after the position, the unfinished lines are the page's note.
func LogPages(progress Progress, store *logs.Store) follow.Read[*ingestv1.FollowLogsResponse] {
	return func(ctx context.Context, runID string, after int64) (follow.Page[*ingestv1.FollowLogsResponse], error) {
		page := follow.Page[*ingestv1.FollowLogsResponse]{Last: after}
		// Read the progress before the lines: if the progress shows a closed run, the lines are complete.
		p, err := progress(ctx, runID)
		if err == nil {
			page.Owner, err = p.Owner, request.StreamPosition(after, p.LineSeq)
		}
		if err != nil {
			return page, err
		}
		if p.LineSeq <= after && p.ClosedAt == nil {
			unfinished, last, err := store.Partial(ctx, runID)
			if err != nil {
				return page, err
			}
			if last <= after { // otherwise, lines were finished in the meantime
				notePartial(&page, unfinished)
				return page, nil
			}
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

// notePartial adds the unfinished lines of a run to a page without lines.
func notePartial(page *follow.Page[*ingestv1.FollowLogsResponse], unfinished []logs.Line) {
	partial := &ingestv1.PartialLines{Seq: page.Last, Lines: shortLineProtos(unfinished)}
	page.Notes = []*ingestv1.FollowLogsResponse{{Event: &ingestv1.FollowLogsResponse_Partial{Partial: partial}}}
	for i := range unfinished {
		l := &unfinished[i]
		rank := int32(-1)
		if l.Rank != nil {
			rank = *l.Rank
		}
		page.NoteKey += fmt.Sprintf("%d %d %q %t\n", l.Attempt, rank, l.Text, l.Truncated)
	}
}

// MetricPages returns a function that reads metric batches for followers. The function rejects a position after the
// last batch.
func MetricPages(progress Progress, store *metric.Store) follow.Read[*ingestv1.FollowMetricsResponse] {
	return func(ctx context.Context, runID string, after int64) (follow.Page[*ingestv1.FollowMetricsResponse], error) {
		page := follow.Page[*ingestv1.FollowMetricsResponse]{Last: after}
		p, err := progress(ctx, runID)
		if err == nil {
			page.Owner, err = p.Owner, request.StreamPosition(after, p.BatchSeq)
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
	return s.MetricStreams.Follow(stream.Context(), id, max(0, in.GetAfter()), sender(stream, in.GetId()))
}

// sender returns a function that sends the pages of a run. The parameter name is the id in the request: the id of the
// run or of its job. The function checks the owner in each page, because the run may get a new owner, or its project
// may be hidden, while the stream is open.
func sender[M any](stream grpc.ServerStreamingServer[M], name string) func(follow.Page[*M]) error {
	opened := false
	return func(page follow.Page[*M]) error {
		if err := page.Owner.Readable(stream.Context(), name); err != nil {
			return err
		}
		if !opened {
			// Sending the header shows the caller that access was granted, even before there is anything to read.
			if err := stream.SendHeader(metadata.MD{}); err != nil {
				return err
			}
			opened = true
		}
		for _, event := range slices.Concat(page.Events, page.Notes) {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		return nil
	}
}
