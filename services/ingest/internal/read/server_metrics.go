package read

import (
	"context"
	"math"
	"strconv"
	"time"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/timestamp"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// ListMetrics implements RunDataService.
func (s *Server) ListMetrics(ctx context.Context, in *ingestv1.ListMetricsRequest) (*ingestv1.ListMetricsResponse, error) {
	if x := in.GetX(); x != "" && x != "step" && x != "time" {
		return s.joined(ctx, in)
	}
	w, err := windowOf(in)
	if err != nil {
		return nil, err
	}
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	if in.Points != nil {
		return s.charts(ctx, id, in, w, p)
	}
	series, more, err := s.Metrics.List(ctx, id, in.GetKeys(), p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListMetricsResponse{}
	if out.Series, err = seriesProtos(series); err != nil {
		return nil, err
	}
	return out, request.SetMore(ctx, more)
}

func (s *Server) charts(
	ctx context.Context, id string, in *ingestv1.ListMetricsRequest, w metric.Window, p request.Page,
) (*ingestv1.ListMetricsResponse, error) {
	charts, more, err := s.Metrics.Charts(ctx, id, in.GetKeys(), w, int(in.GetPoints()), p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListMetricsResponse{Series: make([]*ingestv1.MetricSeries, len(charts))}
	for i := range charts {
		out.Series[i] = chartProto(&charts[i], w.Axis)
		charts[i] = metric.Chart{} // the memory can be used again
	}
	return out, request.SetMore(ctx, more)
}

// ListMetricSummaries implements RunDataService.
func (s *Server) ListMetricSummaries(
	ctx context.Context, in *ingestv1.ListMetricSummariesRequest,
) (*ingestv1.ListMetricSummariesResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	charts, more, err := s.Metrics.Charts(ctx, id, in.GetKeys(), metric.All(metric.Steps), 0, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListMetricSummariesResponse{Summaries: make([]*ingestv1.MetricSummary, len(charts))}
	for i := range charts {
		out.Summaries[i] = summaryProto(&charts[i])
	}
	return out, request.SetMore(ctx, more)
}

// joined returns charts whose x axis is another series.
func (s *Server) joined(ctx context.Context, in *ingestv1.ListMetricsRequest) (*ingestv1.ListMetricsResponse, error) {
	from, to, err := valuesOf(in)
	if err != nil {
		return nil, err
	}
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	series, over, more, err := s.Metrics.Joined(ctx, id, in.GetKeys(), in.GetX(), p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListMetricsResponse{}
	most := min(int(in.GetPoints()), metric.MaxBuckets/max(1, len(series)))
	for i := range series {
		out.Series = append(out.Series, joinedProto(series[i].Key, joinSeries(series[i].Points, over, from, to), most))
		series[i].Points = nil // the memory can be used again
	}
	return out, request.SetMore(ctx, more)
}

// valuesOf returns the window of a request whose x is a series.
func valuesOf(in *ingestv1.ListMetricsRequest) (from, to float64, err error) {
	from, to = math.Inf(-1), math.Inf(1)
	var fields []fault.Field
	wrong := func(name, problem string) {
		fields = append(fields, fault.At(fault.TypeValue, "Value error, "+name+" "+problem, name))
	}
	if in.Points == nil {
		wrong("x", "requires points")
	}
	for _, bound := range []struct {
		name string
		text *string
		into *float64
	}{{"from", in.From, &from}, {"to", in.To, &to}} { //nolint:protogetter // nil means that the bound is absent
		switch {
		case bound.text == nil:
		case in.Points == nil:
			wrong(bound.name, "requires points")
		default:
			v, err := strconv.ParseFloat(*bound.text, 64)
			if err != nil || math.IsNaN(v) {
				wrong(bound.name, "is not a decimal number")
			}
			*bound.into = v
		}
	}
	if len(fields) == 0 && from > to {
		wrong("to", "must not be less than from")
	}
	if len(fields) > 0 {
		return 0, 0, fault.InvalidFields(fields...)
	}
	return from, to, nil
}

// windowOf returns the window of a request whose x is not a series. It returns a 422 error if the window is not valid.
func windowOf(in *ingestv1.ListMetricsRequest) (metric.Window, error) {
	w := metric.All(metric.Steps)
	var fields []fault.Field
	wrong := func(name, problem string) {
		fields = append(fields, fault.At(fault.TypeValue, "Value error, "+problem, name))
	}
	if in.GetX() == "time" {
		w.Axis = metric.Times
	}
	for _, bound := range []struct {
		name, text string
		into       *int64
	}{{"x", in.GetX(), nil}, {"from", in.GetFrom(), &w.From}, {"to", in.GetTo(), &w.To}} {
		switch {
		case bound.text == "":
		case in.Points == nil:
			wrong(bound.name, bound.name+" requires points")
		case bound.into != nil:
			x, ok := position(bound.text, w.Axis, bound.name == "from")
			if !ok {
				wrong(bound.name, bound.name+" is not "+kindOf(w.Axis))
			}
			*bound.into = x
		}
	}
	if len(fields) == 0 && w.From > w.To {
		wrong("to", "to must not be less than from")
	}
	if len(fields) > 0 {
		return w, fault.InvalidFields(fields...)
	}
	return w, nil
}

func kindOf(axis metric.Axis) string {
	if axis == metric.Times {
		return "an RFC 3339 time"
	}
	return "a step: an integer from " + strconv.Itoa(math.MinInt64) + " to " + strconv.Itoa(math.MaxInt64)
}

// position parses a position on an axis. Times are rounded to microseconds; up states whether they are rounded up.
func position(text string, axis metric.Axis, up bool) (x int64, ok bool) {
	if axis == metric.Steps {
		x, err := strconv.ParseInt(text, 10, 64)
		return x, err == nil
	}
	at, ok := timestamp.Parse(text)
	if !ok {
		return 0, false
	}
	x = at.UnixMicro()
	if up && at.Nanosecond()%int(time.Microsecond) != 0 {
		x++
	}
	return x, true
}

// positionText is the opposite of position.
func positionText(x int64, axis metric.Axis) string {
	if axis == metric.Times {
		return time.UnixMicro(x).UTC().Format("2006-01-02T15:04:05.000000-07:00")
	}
	return strconv.FormatInt(x, 10)
}

func chartProto(c *metric.Chart, axis metric.Axis) *ingestv1.MetricSeries {
	out := &ingestv1.MetricSeries{Key: c.Key, Count: new(c.Count)}
	if c.Count > 0 {
		out.First, out.Last = pointProto(&c.First), pointProto(&c.Last)
	}
	for i := range c.Points {
		out.Points = append(out.Points, pointProto(&c.Points[i]))
	}
	for i := range c.Buckets {
		b := &c.Buckets[i]
		bucket := &ingestv1.MetricBucket{
			From: positionText(b.From, axis), To: positionText(b.To, axis), FirstStep: b.FirstStep, LastStep: b.LastStep,
			Last: b.Last.Value, Count: b.Count, Nan: b.Odd,
		}
		if b.Numbers() > 0 {
			bucket.Min, bucket.Max, bucket.Mean = new(b.Low.Value), new(b.High.Value), new(b.Mean())
		}
		out.Buckets = append(out.Buckets, bucket)
	}
	return out
}

func pointProto(p *metric.Seen) *ingestv1.MetricPoint {
	return &ingestv1.MetricPoint{Step: p.Step, Value: p.Value, Ts: micros(p.Micros), Attempt: p.Attempt}
}

func summaryProto(c *metric.Chart) *ingestv1.MetricSummary {
	out := &ingestv1.MetricSummary{Key: c.Key, Count: c.Count, Nan: c.Odd}
	if c.Count > 0 {
		out.Latest = pointProto(&c.Last)
	}
	if c.Numbers() > 0 {
		out.Min, out.Max = pointProto(&c.Low), pointProto(&c.High)
	}
	return out
}
