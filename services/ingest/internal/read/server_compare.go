package read

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// The limits of a comparison, so that it fits into a gRPC message.
const (
	maxCompared       = 20     // metrics
	maxComparedPoints = 20_000 // points or buckets of all series
	maxDiffering      = 200    // hyperparameters
	maxDifferingText  = 1 << 20
)

// CompareServer implements RunComparisonService. All fields are required.
type CompareServer struct {
	ingestv1.UnimplementedRunComparisonServiceServer

	Runs        *run.Runs
	Goals       Goals
	Metrics     *metric.Store
	Hparams     *run.HParamStore
	Validations *evaluation.ValidationStore
	Clock       clock.Clock
}

// CompareRuns implements RunComparisonService.
func (s *CompareServer) CompareRuns(ctx context.Context, in *ingestv1.CompareRunsRequest) (*ingestv1.RunComparison, error) {
	if in.GetBands() && in.Points == nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "Value error, bands requires points", "bands"))
	}
	out := &ingestv1.RunComparison{AsOf: timestamppb.New(s.Clock.Now())}
	if err := s.find(ctx, in.GetRunIds(), out); err != nil || len(out.GetRunIds()) == 0 {
		return out, err
	}
	if err := s.params(ctx, out); err != nil {
		return nil, err
	}
	if err := s.metrics(ctx, in, out); err != nil {
		return nil, err
	}
	if in.Prompts == nil {
		return out, nil
	}
	return out, s.prompts(ctx, in, out)
}

// find divides the runs into those that the caller may read and the others.
func (s *CompareServer) find(ctx context.Context, names []string, out *ingestv1.RunComparison) error {
	for i, name := range names {
		if id.Check(id.Run, name) != nil {
			return fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be the id of a run", "run_ids", i))
		}
	}
	for _, name := range names {
		_, err := s.Runs.Readable(ctx, name)
		switch {
		case fault.Is(err, fault.Absent):
			out.Missing = append(out.Missing, name)
		case err != nil:
			return err
		default:
			out.RunIds = append(out.RunIds, name)
		}
	}
	return nil
}

func (s *CompareServer) params(ctx context.Context, out *ingestv1.RunComparison) error {
	found, more, err := s.Hparams.Differing(ctx, out.GetRunIds(), maxDiffering, maxDifferingText)
	if err != nil {
		return err
	}
	out.MoreHparams = more
	for _, d := range found {
		values := make(map[string]any, len(d.Values))
		for runID, value := range d.Values {
			values[runID] = json.RawMessage(value)
			if d.Shortened[runID] {
				values[runID] = value + cut
			}
		}
		data, err := json.Marshal(values)
		if err != nil {
			return fmt.Errorf("encode hyperparameters: %w", err)
		}
		out.Hparams = append(out.Hparams, &ingestv1.ComparedHparam{Key: d.Key, Values: data, Truncated: slices.Sorted(maps.Keys(d.Shortened))})
	}
	return nil
}

// metrics adds the summaries of the metrics and, if the request has points, the series. All series have the same
// window, from the lowest to the highest position of any of them.
func (s *CompareServer) metrics(ctx context.Context, in *ingestv1.CompareRunsRequest, out *ingestv1.RunComparison) error {
	keys := in.GetKeys()
	if len(keys) == 0 {
		var err error
		if keys, err = s.Metrics.Keys(ctx, out.GetRunIds(), maxCompared+1); err != nil || len(keys) == 0 {
			return err
		}
		if out.MoreMetrics = len(keys) > maxCompared; out.GetMoreMetrics() {
			keys = keys[:maxCompared]
		}
	}
	c := &comparison{keys: keys, byKey: map[string]*ingestv1.ComparedMetric{}, window: metric.Window{From: math.MaxInt64, To: math.MinInt64, Aligned: true}}
	if in.GetX() == "time" {
		c.window.Axis = metric.Times
	}
	if err := s.summaries(ctx, out.GetRunIds(), c, in.Points != nil); err != nil {
		return err
	}
	if in.Points != nil && c.series > 0 {
		room := maxComparedPoints
		if in.GetBands() {
			c.charts = map[string][]metric.Chart{}
			room /= 2
		}
		points := min(int(in.GetPoints()), max(1, room/c.series))
		if err := s.addSeries(ctx, out.GetRunIds(), c, points); err != nil {
			return err
		}
		c.bands(points)
	}
	out.Metrics = c.sorted()
	return nil
}

// prompts adds the samples of the prompts for which at least two runs have one.
func (s *CompareServer) prompts(ctx context.Context, in *ingestv1.CompareRunsRequest, out *ingestv1.RunComparison) error {
	runs := out.GetRunIds()
	var order [][32]byte
	samples := map[[32]byte]map[string]evaluation.Prompt{}
	for _, runID := range runs {
		found, err := s.Validations.Prompts(ctx, runID, in.Step)
		if err != nil {
			return err
		}
		for _, p := range found {
			if samples[p.Digest] == nil {
				samples[p.Digest] = map[string]evaluation.Prompt{}
				order = append(order, p.Digest)
			}
			samples[p.Digest][runID] = p
		}
	}
	most := min(shownPrompt, maxText/4/len(runs)/int(in.GetPrompts())) // a character may take four bytes
	for _, digest := range order {
		if len(out.GetPrompts()) == int(in.GetPrompts()) {
			break
		}
		if len(samples[digest]) < min(2, len(runs)) {
			continue
		}
		compared := &ingestv1.ComparedPrompt{}
		for _, runID := range runs {
			p, ok := samples[digest][runID]
			if !ok {
				continue
			}
			sample, err := s.Validations.Sample(ctx, runID, p, shownPrompt*longestChar)
			if err != nil {
				return err
			}
			if sample == nil {
				continue
			}
			compared.Prompt, compared.Truncated = plain(sample.User, shownPrompt)
			one := &ingestv1.ComparedSample{RunId: runID, Step: sample.Step, Reward: sample.Reward}
			if sample.Assistant != nil {
				var text string
				text, one.Truncated = plain(sample.Assistant, most)
				one.Assistant = &text
			}
			compared.Samples = append(compared.Samples, one)
		}
		out.Prompts = append(out.Prompts, compared)
	}
	return nil
}

// shownPrompt is the maximum number of characters of a prompt in a comparison, and longestChar is the number of characters
// of JSON that encoders write for one character at most: two escapes.
const (
	shownPrompt = 2000
	longestChar = len(`\ud83d\ude00`)
)

// plain returns the text of the beginning of a JSON value: that of a string, or else the JSON itself, in which only those
// characters are escaped that must be. If the value or its text is not complete, plain reports that and adds cut.
func plain(value []byte, most int) (text string, truncated bool) {
	switch {
	case len(value) == 0 || value[0] != '"':
		text, truncated = string(unescaped(value)), !json.Valid(value)
	case json.Unmarshal(value, &text) != nil:
		text, truncated = uncut(value), true
	}
	if utf8.RuneCountInString(text) > most {
		text, truncated = string([]rune(text)[:most]), true
	}
	if truncated {
		text += cut
	}
	return text, truncated
}

// uncut returns the text of the beginning of a JSON string, whose last escape may be incomplete.
func uncut(value []byte) (text string) {
	const longest = len(`\ud83d\ude0`)
	for n := range longest + 1 {
		if n < len(value) && json.Unmarshal(append(slices.Clone(value[:len(value)-n]), '"'), &text) == nil {
			return strings.TrimSuffix(text, "\ufffd") // half of a character
		}
	}
	return ""
}
