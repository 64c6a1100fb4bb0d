package read

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// maxText is the approximate maximum size, in bytes, of the texts in one response. gRPC limits a message to 4 MiB.
const maxText = 3 << 20

// cut marks shortened text.
const cut = "…"

// shorten cuts the longest lines of a page, so that all lines of the page fit into one response. Live streams send the
// full lines.
func shorten(lines []logs.Line) []logs.Line {
	total := 0
	for _, l := range lines {
		total += len(l.Text)
	}
	if total <= maxText {
		return lines
	}
	share := maxText / len(lines)
	for i := range lines {
		if t := lines[i].Text; len(t) > share {
			lines[i].Text = strings.ToValidUTF8(t[:share], "") + cut
		}
	}
	return lines
}

func lineProto(l *logs.Line) *ingestv1.LogLine {
	return &ingestv1.LogLine{Seq: l.Seq, Attempt: l.Attempt, Ts: timestamppb.New(l.At), Text: l.Text, Rank: l.Rank}
}

func lineProtos(lines []logs.Line) []*ingestv1.LogLine {
	out := make([]*ingestv1.LogLine, len(lines))
	for i := range lines {
		out[i] = lineProto(&lines[i])
	}
	return out
}

func micros(us int64) *timestamppb.Timestamp { return timestamppb.New(time.UnixMicro(us)) }

// pointBytes is about the size of an encoded point.
const pointBytes = 32

func seriesProtos(list []metric.Series) ([]*ingestv1.MetricSeries, error) {
	out := make([]*ingestv1.MetricSeries, len(list))
	for i := range list {
		var err error
		if out[i], err = seriesProto(&list[i]); err != nil {
			return nil, err
		}
		list[i].Points = nil // the memory can be used again
	}
	return out, nil
}

// seriesProto converts a series. It encodes the points into the unknown fields of the message, under the field number
// of points, so that every receiver decodes them as points. As Go structs, the points of a long series would occupy
// four times as much memory, some 11 MB.
func seriesProto(s *metric.Series) (*ingestv1.MetricSeries, error) {
	number := (&ingestv1.MetricSeries{}).ProtoReflect().Descriptor().Fields().ByName("points").Number()
	var point []byte
	encoded := make([]byte, 0, len(s.Points)*pointBytes)
	message := &ingestv1.MetricPoint{Ts: &timestamppb.Timestamp{}}
	for _, p := range s.Points {
		at := time.UnixMicro(p.Micros)
		message.Step, message.Value, message.Attempt = p.Step, p.Value, p.Attempt
		message.Ts.Seconds, message.Ts.Nanos = at.Unix(), int32(at.Nanosecond())
		var err error
		if point, err = (proto.MarshalOptions{}).MarshalAppend(point[:0], message); err != nil {
			return nil, fmt.Errorf("encode a point of the series: %w", err)
		}
		encoded = protowire.AppendTag(encoded, number, protowire.BytesType)
		encoded = protowire.AppendBytes(encoded, point)
	}
	out := &ingestv1.MetricSeries{Key: s.Key, Rank: s.Rank}
	out.ProtoReflect().SetUnknown(encoded)
	return out, nil
}

func batchProto(b *metric.Batch) *ingestv1.MetricBatch {
	out := &ingestv1.MetricBatch{Seq: b.Seq, Points: make([]*ingestv1.KeyedPoint, len(b.Points))}
	for i, p := range b.Points {
		out.Points[i] = &ingestv1.KeyedPoint{Key: p.Key, Step: p.Step, Value: p.Value, Ts: micros(p.Micros)}
	}
	return out
}

func roundProto(r *evaluation.Round) *ingestv1.ValidationRound {
	return &ingestv1.ValidationRound{
		Step: r.Step, Attempt: r.Attempt, Rank: r.Rank, AvgReward: r.AvgReward, Accuracy: r.Accuracy, Samples: r.Samples,
		Chunks: r.Chunks, TotalChunks: r.Total, Complete: r.Chunks == r.Total, Ts: timestamppb.New(r.At), MeanReward: r.MeanReward,
	}
}

// maxExtra is the part of a response, in bytes, that is reserved for the extra fields of samples.
const maxExtra = 2 << 20

// sampleProtos converts the samples of one response. If the samples do not fit into maxText, long texts are cut at
// their end. The service does not interpret the field extra, so it is cut only if the extra fields of all samples
// exceed maxExtra.
func sampleProtos(samples []evaluation.Sample) []*ingestv1.Sample {
	texts, extras := 0, 0
	for _, s := range samples {
		texts += len(s.User) + len(s.Assistant) + len(s.Env)
		extras += len(s.Extra)
	}
	text, extra := texts, extras
	if texts+extras > maxText {
		const fields = 3
		if extras > maxExtra {
			extra = maxExtra / len(samples)
		}
		text = (maxText - min(extras, maxExtra)) / len(samples) / fields
	}
	out := make([]*ingestv1.Sample, len(samples))
	for i, s := range samples {
		out[i] = &ingestv1.Sample{
			Step: s.Step, Attempt: s.Attempt, Rank: s.Rank, Index: s.Index, User: shown(s.User, text), Assistant: shown(s.Assistant, text),
			Env: shown(s.Env, text), Reward: s.Reward, Extra: shown(s.Extra, extra),
		}
		if s.Prompt != nil {
			out[i].Prompt = new(hex.EncodeToString(s.Prompt))
		}
	}
	return out
}

// shown returns the given JSON. If the JSON is longer than the given maximum, shown instead returns a JSON string that
// contains its beginning and ends with the mark "…".
func shown(raw []byte, most int) []byte {
	if len(raw) <= most {
		return raw
	}
	const quoting = 3 // in a JSON string, text with quotation marks can be twice as long, or longer
	text, err := json.Marshal(strings.ToValidUTF8(string(raw[:most/quoting]), "") + cut)
	if err != nil {
		return nil
	}
	return text
}

// shownArtifactProto converts an artifact for users.
func shownArtifactProto(a *artifact.Artifact) *ingestv1.Artifact {
	m := artifactProto(a)
	if m.Path = a.Shown(); a.Withheld {
		m.Sha256 = nil
	}
	return m
}

func artifactProto(a *artifact.Artifact) *ingestv1.Artifact {
	return &ingestv1.Artifact{
		Id: a.ID, RunId: a.RunID, Attempt: a.Attempt, Kind: a.Kind, Format: a.Format, Step: a.Step, Path: a.Path, Name: a.Title(),
		SizeBytes: a.Size, Sha256: a.Digest(), CreatedAt: timestamppb.New(a.CreatedAt),
	}
}

func downloadProto(a *artifact.Artifact, signed blob.Signed) *commonv1.Download {
	return &commonv1.Download{
		Path: a.Name(), Url: signed.URL, Method: signed.Method, SizeBytes: a.Size, Sha256: a.SHA256, ExpiresAt: timestamppb.New(signed.ExpiresAt),
	}
}
