package read

import (
	"context"
	"slices"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// defaultBuckets is the maximum number of buckets of each series if a request states none.
const defaultBuckets = 1000

// ListSeries implements RunDataService. It reads what ListMetrics reads for a chart.
func (s *Server) ListSeries(ctx context.Context, in *ingestv1.ListSeriesRequest) (*ingestv1.ListSeriesResponse, error) {
	chart := &ingestv1.ListMetricsRequest{
		Id: in.GetId(), Keys: in.GetKeys(), Limit: in.Limit, Offset: in.Offset, Points: in.Points, X: in.X, From: in.From, To: in.To,
		Attempt: in.Attempt, Rank: in.Rank,
	}
	if chart.Points == nil {
		chart.Points = new(int32(defaultBuckets))
	}
	series, more, err := s.readSeries(ctx, chart)
	if err != nil {
		return nil, err
	}
	series = slices.DeleteFunc(series, func(one *ingestv1.MetricSeries) bool {
		return one.Attempt != nil && isEmpty(one) && one.GetOmitted() == 0
	})
	out := &ingestv1.ListSeriesResponse{Series: make([]*ingestv1.Series, len(series))}
	for i, one := range series {
		out.Series[i] = &ingestv1.Series{
			Key: one.GetKey(), Rank: one.GetRank(), Attempt: one.Attempt, Count: one.GetCount(), Omitted: one.GetOmitted(),
			First: one.GetFirst(), Last: one.GetLast(), Points: one.GetPoints(), Buckets: one.GetBuckets(),
		}
	}
	return out, request.SetMore(ctx, more)
}
