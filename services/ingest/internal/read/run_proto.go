package read

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// maxText is the approximate maximum size, in bytes, of the texts in one response, and maxAlone that of the texts of the
// only sample of a response. gRPC limits a message to 4 MiB.
const (
	maxText  = 3 << 20
	maxAlone = 4<<20 - 64<<10
)

// cut marks shortened text.
const cut = "…"

// shorten cuts the longest lines of a page, so that all lines of the page fit into one response. It returns which lines it
// has cut. Live streams send the full lines.
func shorten(lines []logs.Line) (cutLines []bool) {
	cutLines = make([]bool, len(lines))
	total := 0
	for _, l := range lines {
		total += len(l.Text)
	}
	if total <= maxText {
		return cutLines
	}
	share := maxText / len(lines)
	for i := range lines {
		if t := lines[i].Text; len(t) > share {
			lines[i].Text, cutLines[i] = strings.ToValidUTF8(t[:share], "")+cut, true
		}
	}
	return cutLines
}

// shortLineProtos converts the lines of one response.
func shortLineProtos(lines []logs.Line) []*ingestv1.LogLine {
	cutLines := shorten(lines)
	out := make([]*ingestv1.LogLine, len(lines))
	for i := range lines {
		out[i] = lineProto(&lines[i])
		out[i].Truncated = cutLines[i] || lines[i].Truncated
	}
	return out
}

func lineProto(l *logs.Line) *ingestv1.LogLine {
	return &ingestv1.LogLine{Seq: l.Seq, Attempt: l.Attempt, Ts: timestamppb.New(l.At), Text: l.Text, Rank: l.Rank, Node: l.Node}
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
	out := &ingestv1.MetricSeries{Key: s.Key, Rank: s.Rank, Omitted: &s.Omitted}
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

// sampleProtos converts the samples of one response. Their texts begin at the given character. If they do not fit into the
// response, the longest ones are cut at their end. The service does not interpret the field extra, so it is cut only if the
// extra fields of all samples exceed two thirds of the room.
func sampleProtos(samples []evaluation.Sample, from int) []*ingestv1.Sample {
	texts, extras := make([]*text, 0, 3*len(samples)), make([]*text, 0, len(samples))
	needed := 0
	for i := range samples {
		s := &samples[i]
		texts = append(texts, newText(s.User, from), newText(s.Assistant, from), newText(s.Env, from))
		extras = append(extras, newText(s.Extra, from))
		needed += extras[i].size()
	}
	room := maxText
	if len(samples) == 1 {
		room = maxAlone
	}
	extra := level(extras, room/3*2)
	most := level(texts, room-min(needed, room/3*2))
	out := make([]*ingestv1.Sample, len(samples))
	for i, s := range samples {
		out[i] = &ingestv1.Sample{
			Id: s.Place.String(), Step: s.Step, Attempt: s.Attempt, Rank: s.Rank, Index: s.Index, Reward: s.Reward,
		}
		user, assistant, env := texts[3*i], texts[3*i+1], texts[3*i+2]
		if next, cut := cutTogether([]*text{user, assistant, env, extras[i]}, most, most, most, extra); cut {
			out[i].Truncated, out[i].TextNext = true, new(int64(from+next))
		}
		out[i].User, out[i].Assistant, out[i].Env, out[i].Extra = user.json(), assistant.json(), env.json(), extras[i].json()
		if s.Prompt != nil {
			out[i].Prompt = new(hex.EncodeToString(s.Prompt))
		}
	}
	return out
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
		SizeBytes: a.Size, Sha256: a.Digest(), CreatedAt: timestamppb.New(a.CreatedAt), RemovedAt: request.OptionalTime(a.RemovedAt),
	}
}

func downloadProto(a *artifact.Artifact, signed blob.Signed) *commonv1.Download {
	return &commonv1.Download{
		Path: a.Name(), Url: signed.URL, Method: signed.Method, SizeBytes: a.Size, Sha256: a.SHA256, ExpiresAt: timestamppb.New(signed.ExpiresAt),
	}
}

// fileProto converts a file of a run.
func fileProto(f *artifact.File) *ingestv1.RunDownload {
	out := &ingestv1.RunDownload{
		ArtifactId: f.ID, Kind: f.Kind, Format: f.Format, Step: f.Step, Path: f.Place(), SizeBytes: f.Size, Sha256: f.Digest(),
	}
	switch {
	case f.RemovedAt != nil:
		out.Sha256, out.Reason = nil, new(artifact.CodeRemoved)
		return out
	case f.Signed.URL == "":
		out.Reason = new(artifact.CodeNotStored)
		return out
	}
	out.Url, out.Method, out.ExpiresAt = &f.Signed.URL, &f.Signed.Method, timestamppb.New(f.Signed.ExpiresAt)
	return out
}
