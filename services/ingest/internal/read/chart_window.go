package read

import (
	"math"
	"strconv"
	"strings"
	"time"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/timestamp"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

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
			if err != nil || strings.Trim(*bound.text, "+-.0123456789eE") != "" { // ParseFloat also reads 0x1p3, 1_000, inf and NaN
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
