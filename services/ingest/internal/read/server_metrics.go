package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// ListMetrics implements RunDataService.
func (s *Server) ListMetrics(ctx context.Context, in *ingestv1.ListMetricsRequest) (*ingestv1.ListMetricsResponse, error) {
	series, more, err := s.readSeries(ctx, in)
	if err != nil {
		return nil, err
	}
	series = slices.DeleteFunc(series, func(one *ingestv1.MetricSeries) bool { return one.Attempt != nil && isEmpty(one) })
	for _, one := range series {
		if in.Points != nil {
			one.Omitted = nil
		}
	}
	return &ingestv1.ListMetricsResponse{Series: series}, request.SetMore(ctx, more)
}

// readSeries returns a page of the series that a request selects, sorted by key, one for each attempt, also those without
// points. more reports whether another page follows.
func (s *Server) readSeries(ctx context.Context, in *ingestv1.ListMetricsRequest) (all []*ingestv1.MetricSeries, more bool, err error) {
	read, err := seriesReaderOf(in)
	if err != nil {
		return nil, false, err
	}
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, false, err
	}
	shown, err := s.attempts(ctx, id, in.GetAttempt(), p)
	if err != nil {
		return nil, false, err
	}
	for _, attempt := range shown {
		var series []*ingestv1.MetricSeries
		if series, more, err = read(ctx, s.Metrics.Showing(attempt, in.Rank, len(shown)), id, p); err != nil {
			return nil, false, err
		}
		for _, one := range series {
			if attempt > 0 {
				one.Attempt = &attempt
			}
		}
		all = append(all, series...)
	}
	if len(shown) > 1 {
		slices.SortStableFunc(all, func(a, b *ingestv1.MetricSeries) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
	}
	return all, more, nil
}

// isEmpty reports whether a series has no points in the window. The points of a series that is not summarized are encoded.
func isEmpty(s *ingestv1.MetricSeries) bool {
	return len(s.GetPoints())+len(s.GetBuckets())+len(s.ProtoReflect().GetUnknown()) == 0
}

// attempts returns the attempts whose points a request selects. Each has series of its own. Attempt 0 stands for
// the points that newer attempts do not hide. It returns a 422 error if a page would have too many series.
func (s *Server) attempts(ctx context.Context, id, selected string, p request.Page) ([]int32, error) {
	attempt := attemptOf(selected)
	if attempt != metric.AllAttempts {
		return []int32{attempt}, nil
	}
	progress, err := s.Progress(ctx, id)
	if err != nil {
		return nil, err
	}
	last := max(1, progress.Attempt)
	if most := request.MaxLimit / p.Limit; int(last) > most {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf(
			"Value error, a page of %d keys has the series of at most %d attempts, and the run has %d; name one attempt, or use a lower limit", p.Limit, most, last), "attempt"))
	}
	all := make([]int32, last)
	for i := range all {
		all[i] = int32(i) + 1
	}
	return all, nil
}

// attemptOf returns the attempt that a request selects; 0 if it selects none, and metric.AllAttempts for all.
func attemptOf(selected string) int32 {
	if selected == "all" {
		return metric.AllAttempts
	}
	n, _ := strconv.ParseInt(selected, 10, 32) // the contract admits only numbers of at most nine digits
	return int32(n)
}

// seriesReader returns a page of the series that a store shows.
type seriesReader func(ctx context.Context, from *metric.Store, id string, p request.Page) ([]*ingestv1.MetricSeries, bool, error)

// seriesReaderOf returns the reader for a request, or a 422 error if its window is not valid.
func seriesReaderOf(in *ingestv1.ListMetricsRequest) (seriesReader, error) {
	if x := in.GetX(); x != "" && x != "step" && x != "time" {
		from, to, err := valuesOf(in)
		return joined(in, from, to), err
	}
	w, err := windowOf(in)
	if in.Points != nil {
		return charts(in, w), err
	}
	return func(ctx context.Context, from *metric.Store, id string, p request.Page) ([]*ingestv1.MetricSeries, bool, error) {
		series, more, err := from.List(ctx, id, in.GetKeys(), p)
		if err != nil {
			return nil, false, err
		}
		protos, err := seriesProtos(series)
		return protos, more, err
	}, err
}

// charts returns the reader of charts whose x axis is the step or the time.
func charts(in *ingestv1.ListMetricsRequest, w metric.Window) seriesReader {
	return func(ctx context.Context, from *metric.Store, id string, p request.Page) ([]*ingestv1.MetricSeries, bool, error) {
		charts, more, err := from.Charts(ctx, id, in.GetKeys(), w, int(in.GetPoints()), p)
		if err != nil {
			return nil, false, err
		}
		out := make([]*ingestv1.MetricSeries, len(charts))
		for i := range charts {
			out[i] = chartProto(&charts[i], w.Axis)
			charts[i] = metric.Chart{} // the memory can be used again
		}
		return out, more, nil
	}
}

// joined returns the reader of charts whose x axis is another series.
func joined(in *ingestv1.ListMetricsRequest, low, high float64) seriesReader {
	return func(ctx context.Context, from *metric.Store, id string, p request.Page) ([]*ingestv1.MetricSeries, bool, error) {
		series, over, more, err := from.Joined(ctx, id, in.GetKeys(), in.GetX(), p)
		if err != nil {
			return nil, false, err
		}
		out := make([]*ingestv1.MetricSeries, len(series))
		most := min(int(in.GetPoints()), from.MaxBuckets(len(series)))
		for i := range series {
			points, omitted := joinSeries(series[i].Points, over, low, high)
			out[i] = joinedProto(&series[i], points, most)
			out[i].Omitted = &omitted
			series[i].Points = nil // the memory can be used again
		}
		return out, more, nil
	}
}

// ListMetricSummaries implements RunDataService.
func (s *Server) ListMetricSummaries(
	ctx context.Context, in *ingestv1.ListMetricSummariesRequest,
) (*ingestv1.ListMetricSummariesResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	shown, err := s.attempts(ctx, id, in.GetAttempt(), p)
	if err != nil {
		return nil, err
	}
	goals, err := s.Goals(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListMetricSummariesResponse{}
	var more bool
	for _, attempt := range shown {
		var charts []metric.Chart
		charts, more, err = s.Metrics.Showing(attempt, in.Rank, len(shown)).Charts(ctx, id, in.GetKeys(), metric.All(metric.Steps), 0, p)
		if err != nil {
			return nil, err
		}
		for i := range charts {
			one := summaryProto(&charts[i], goals[id])
			if attempt > 0 {
				one.Attempt = &attempt
			}
			if attempt == 0 || one.GetCount() > 0 {
				out.Summaries = append(out.Summaries, one)
			}
		}
	}
	if len(shown) > 1 {
		slices.SortStableFunc(out.GetSummaries(), func(a, b *ingestv1.MetricSummary) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
	}
	return out, request.SetMore(ctx, more)
}

func chartProto(c *metric.Chart, axis metric.Axis) *ingestv1.MetricSeries {
	out := &ingestv1.MetricSeries{Key: c.Key, Rank: c.Rank, Count: new(c.Count), Buckets: bucketProtos(c.Buckets, axis)}
	if c.Count > 0 {
		out.First, out.Last = pointProto(&c.First), pointProto(&c.Last)
	}
	for i := range c.Points {
		out.Points = append(out.Points, pointProto(&c.Points[i]))
	}
	return out
}

// bucketProtos converts buckets. There are up to 24,000 in a response, so that it allocates them together.
func bucketProtos(buckets []metric.Bucket, axis metric.Axis) []*ingestv1.MetricBucket {
	protos, numbers := make([]ingestv1.MetricBucket, len(buckets)), make([][3]float64, len(buckets))
	out := make([]*ingestv1.MetricBucket, len(buckets))
	for i := range buckets {
		b, to, n := &buckets[i], &protos[i], &numbers[i]
		to.From, to.To, to.FirstStep, to.LastStep = positionText(b.From, axis), positionText(b.To, axis), b.FirstStep, b.LastStep
		to.Last, to.Count, to.Nan = b.Last.Value, b.Count, b.Odd
		if b.Numbers() > 0 {
			*n = [3]float64{b.Low.Value, b.High.Value, b.Mean()}
			to.Min, to.Max, to.Mean = &n[0], &n[1], &n[2]
		}
		out[i] = to
	}
	return out
}

func pointProto(p *metric.Seen) *ingestv1.MetricPoint {
	return &ingestv1.MetricPoint{Step: p.Step, Value: p.Value, Ts: micros(p.Micros), Attempt: p.Attempt}
}

// Goals returns the goals of runs, by their ids.
type Goals func(ctx context.Context, runs []string) (map[string]run.Goals, error)

func summaryProto(c *metric.Chart, goals run.Goals) *ingestv1.MetricSummary {
	out := &ingestv1.MetricSummary{Key: c.Key, Rank: c.Rank, Count: c.Count, Nan: c.Odd}
	if c.Count > 0 {
		out.Latest = pointProto(&c.Last)
	}
	if c.Numbers() > 0 {
		out.Min, out.Max = pointProto(&c.Low), pointProto(&c.High)
	}
	switch goals[c.Key] {
	case "minimize":
		out.Best = out.GetMin()
	case "maximize":
		out.Best = out.GetMax()
	}
	return out
}
