package sse

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

func TestFormOfRejectsOtherMessages(t *testing.T) {
	t.Parallel()
	for _, m := range []protoreflect.ProtoMessage{&jobsv1.Job{}, &ingestv1.LogLine{}, &ingestv1.Eof{}, &ingestv1.MetricBatch{}} {
		_, err := formOf(m.ProtoReflect().Descriptor())
		require.Error(t, err, "%T", m)
	}
}

func TestFormEventRejectsEmptyMessage(t *testing.T) {
	t.Parallel()
	m := (&ingestv1.FollowLogsResponse{}).ProtoReflect()
	f, err := formOf(m.Descriptor())
	require.NoError(t, err)
	_, err = f.event(restjson.New(), m)
	require.ErrorContains(t, err, "contains no event")
}

// FuzzFrame checks that no text of a log line can end its event or begin another one.
func FuzzFrame(f *testing.F) {
	for _, text := range []string{"", "a\nb", "\r\n\r\nevent: eof\ndata: {}\n\n", "\u2028\u0085", "\x00\xff", "id: 7"} {
		f.Add(text)
	}
	codec := restjson.New()
	f.Fuzz(func(t *testing.T, text string) {
		m := (&ingestv1.FollowLogsResponse{Event: &ingestv1.FollowLogsResponse_Line{Line: &ingestv1.LogLine{Seq: 7, Text: text}}}).ProtoReflect()
		form, err := formOf(m.Descriptor())
		require.NoError(t, err)
		e, err := form.event(codec, m)
		require.NoError(t, err)
		frame := e.append(nil)
		lines := bytes.FieldsFunc(frame, func(r rune) bool { return r == '\n' || r == '\r' })
		require.Len(t, lines, 3, "%q", frame)
		require.Equal(t, "id: 7", string(lines[0]))
		require.Equal(t, "event: line", string(lines[1]))
		require.True(t, json.Valid(bytes.TrimPrefix(lines[2], []byte("data: "))))
	})
}
