package report

import (
	"math"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// Score is one benchmark result that the run reports.
type Score struct {
	Metric       string
	Value        float64
	N            *int64
	Stderr       *float64
	ConfigDigest string
	SamplesURI   string
}

// Benchmark is a benchmark payload. It contains one or more of the following: a score, the description of an agent
// evaluation, and rollouts of that evaluation.
type Benchmark struct {
	RunID, Name, Version string
	Rank                 *int32
	// Score is nil if the payload has no score.
	Score      *Score
	Evaluation *Evaluation
	Rollouts   []Rollout
}

// ReadBenchmark reads a benchmark payload. A payload with an evaluation or rollouts need not have a score. A score must
// have a metric and a value.
func ReadBenchmark(data []byte) (*Benchmark, error) {
	var p Benchmark
	var s Score
	return &p, decode.Body(data, func(r *decode.Reader) {
		isObject := r.Nested()
		given := map[string]bool{}
		named := func(name string, read func()) func() {
			return func() { given[name] = true; read() }
		}
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{
			"name":          func() { p.Name = r.Text(1, maxWord) },
			"version":       func() { p.Version = label(r) },
			"metric":        named("metric", func() { s.Metric = r.Text(1, maxWord) }),
			"value":         named("value", func() { s.Value = r.Float() }),
			"n":             named("n", func() { s.N = decode.Optional(r, func() int64 { return r.IntIn(0, largestFigure) }) }),
			"stderr":        named("stderr", func() { s.Stderr = decode.Optional(r, r.Float) }),
			"config_digest": named("config_digest", func() { s.ConfigDigest = word(r, maxWord) }),
			"samples_uri":   named("samples_uri", func() { s.SamplesURI = word(r, maxURI) }),
			"evaluation":    func() { p.Evaluation = decode.Optional(r, func() Evaluation { return evaluation(r) }) },
			"rollouts":      func() { p.Rollouts = rollouts(r) },
		}), "run_id", "name")
		if !isObject || (len(given) == 0 && (p.Evaluation != nil || p.Rollouts != nil)) {
			return
		}
		p.Score = &s
		for _, name := range []string{"metric", "value"} {
			if !given[name] {
				r.Wrong(fault.TypeMissing, "Field required", name)
			}
		}
	})
}

// figure reads an optional integer from 0 to the given maximum.
func figure(r *decode.Reader, most int64) *int64 {
	return decode.Optional(r, func() int64 { return r.IntIn(0, most) })
}

// finite reads a number that is neither NaN nor infinite.
func finite(r *decode.Reader) float64 {
	before := r.Faults()
	v := r.Float()
	if (math.IsNaN(v) || math.IsInf(v, 0)) && r.Faults() == before {
		r.Wrong(fault.TypeFinite, "Input should be a finite number")
	}
	return v
}
