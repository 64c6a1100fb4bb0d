package read

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// mostMessage is gRPC's limit for one message, in bytes.
const mostMessage = 4 << 20

func TestShorten_cutsLongestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", logs.MaxLine/2)
	lines := make([]logs.Line, 0, 500)
	for i := range 500 {
		text := "short"
		if i%2 == 0 {
			text = long
		}
		lines = append(lines, logs.Line{Seq: int64(i + 1), Text: text})
	}
	got := shortLineProtos(lines)
	require.Len(t, got, 500)
	for i, l := range got {
		require.True(t, utf8.ValidString(l.GetText()))
		require.Equal(t, i%2 == 0, l.GetTruncated())
		if i%2 == 1 {
			require.Equal(t, "short", l.GetText())
			continue
		}
		require.True(t, strings.HasSuffix(l.GetText(), cut))
		require.Less(t, len(l.GetText()), len(long))
	}
	require.Less(t, proto.Size(&ingestv1.ListLogsResponse{Lines: got}), mostMessage)
}

func TestShorten_keepsWhatFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", logs.MaxLine)
	got := shortLineProtos([]logs.Line{{Seq: 1, Text: long}, {Seq: 2, Text: "y"}})
	require.Equal(t, long, got[0].GetText())
	require.False(t, got[0].GetTruncated())
	require.Empty(t, shortLineProtos(nil))
	samples := sampleProtos([]evaluation.Sample{{User: []byte(`"` + long + `"`)}}, 0)
	require.Len(t, samples[0].GetUser(), len(long)+2)
	require.Nil(t, samples[0].GetEnv())
}

func TestSampleProtos_longTextsShortened(t *testing.T) {
	t.Parallel()
	long := []byte(`{"a":"` + strings.Repeat(`\"ü`, 1<<18) + `"}`)
	samples := make([]evaluation.Sample, 0, 20)
	for i := range 20 {
		samples = append(samples, evaluation.Sample{Step: 5, Index: int32(i), User: []byte(`"q"`), Assistant: long})
	}
	got := sampleProtos(samples, 0)
	for _, s := range got {
		require.JSONEq(t, `"q"`, string(s.GetUser()), "short values are not changed")
		var text string
		require.NoError(t, json.Unmarshal(s.GetAssistant(), &text))
		require.True(t, strings.HasSuffix(text, cut))
		require.True(t, strings.HasPrefix(string(long), strings.TrimSuffix(text, cut)))
		require.True(t, s.GetTruncated())
		require.EqualValues(t, utf8.RuneCountInString(text)-1, s.GetTextNext())
	}
	require.Less(t, proto.Size(&ingestv1.ListSamplesResponse{Samples: got}), mostMessage)
}

// If a response exceeds the limit, texts are cut first. The field extra, which the service does not interpret, is kept
// whole.
func TestSampleProtos_extraKeptWhole(t *testing.T) {
	t.Parallel()
	text, extra := []byte(`"`+strings.Repeat("x", 1<<18)+`"`), []byte(`{"a":"`+strings.Repeat("y", 90<<10)+`"}`)
	var samples []evaluation.Sample
	for range 20 {
		samples = append(samples, evaluation.Sample{User: text, Extra: extra})
	}
	got := sampleProtos(samples, 0)
	for _, s := range got {
		require.Equal(t, extra, s.GetExtra())
		require.Contains(t, string(s.GetUser()), cut)
		require.True(t, s.GetTruncated())
	}
	require.Less(t, proto.Size(&ingestv1.ListSamplesResponse{Samples: got}), mostMessage)
	for range 20 {
		samples = append(samples, evaluation.Sample{User: text, Extra: extra})
	}
	got = sampleProtos(samples, 0)
	require.Contains(t, string(got[0].GetExtra()), cut, "extra is cut if it does not fit in one response")
	require.Less(t, proto.Size(&ingestv1.ListSamplesResponse{Samples: got}), mostMessage)
}

func TestRoundProto_complete(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for chunks, want := range map[int32]bool{0: false, 1: false, 2: true} {
		r := roundProto(&evaluation.Round{Step: 7, Attempt: 2, Chunks: chunks, Total: 2, Samples: 3, At: at})
		require.Equal(t, want, r.GetComplete())
		require.Equal(t, int64(7), r.GetStep())
		require.True(t, at.Equal(r.GetTs().AsTime()))
	}
}

func TestSeriesProto_timesAndKeys(t *testing.T) {
	t.Parallel()
	points := []metric.Seen{{Step: 1, Value: 2.5, Micros: 1_000_001, Attempt: 3}, {}, {Step: -1, Value: math.NaN(), Micros: -1, Attempt: 1}}
	want := &ingestv1.MetricSeries{Key: "loss", Omitted: new(int64(0)), Points: []*ingestv1.MetricPoint{
		{Step: 1, Value: 2.5, Ts: timestamppb.New(time.UnixMicro(1_000_001)), Attempt: 3},
		{Ts: timestamppb.New(time.UnixMicro(0))},
		{Step: -1, Value: math.NaN(), Ts: timestamppb.New(time.UnixMicro(-1)), Attempt: 1},
	}}
	s, err := seriesProto(&metric.Series{Key: "loss", Points: points})
	require.NoError(t, err)
	raw, err := proto.Marshal(s)
	require.NoError(t, err)
	received := &ingestv1.MetricSeries{}
	require.NoError(t, proto.Unmarshal(raw, received))
	require.True(t, proto.Equal(want, received), "%v", received)
	require.Empty(t, received.ProtoReflect().GetUnknown())
	b := batchProto(&metric.Batch{Seq: 9, Points: []metric.KeyedPoint{{Key: "lr", Point: metric.Point{Step: 4, Value: 0.5, Micros: -1}}}})
	require.Equal(t, int64(9), b.GetSeq())
	require.Equal(t, "lr", b.GetPoints()[0].GetKey())
	require.Equal(t, time.UnixMicro(-1).UTC(), b.GetPoints()[0].GetTs().AsTime())
}

func TestArtifactProto(t *testing.T) {
	t.Parallel()
	step := int64(3)
	a := artifactProto(&artifact.Artifact{ID: "art_1", RunID: "run_1", Kind: "checkpoint", Format: "gguf", Step: &step, Path: "p", Size: 4, SHA256: "aa"})
	require.Equal(t, []any{"art_1", "run_1", "checkpoint", "gguf", int64(3), "p", int64(4), "aa"},
		[]any{a.GetId(), a.GetRunId(), a.GetKind(), a.GetFormat(), a.GetStep(), a.GetPath(), a.GetSizeBytes(), a.GetSha256()})
	require.Nil(t, artifactProto(&artifact.Artifact{}).Step, "a missing step is not step 0")
}
