package shape_test

import (
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/shape"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// FuzzQuery: what the strict reading lets through, the generated handlers read without a fault, and it
// can go over the wire.
func FuzzQuery(f *testing.F) {
	for _, raw := range []string{
		"", "state=queued&attempt=1", "name=%00", "name=%ff", "created_at=2026-11-21T03:00:00Z", "accuracy=1e5&complete=true", "a;b", "step=-0", "warnings=a&warnings=",
	} {
		f.Add(raw)
	}
	messages := []proto.Message{&jobsv1.Job{}, &ingestv1.ValidationRound{}, &jobsv1.Node{}}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, kind := range messages {
			every := shape.Of(kind.ProtoReflect().Descriptor())
			values, refused := every.Query(raw)
			if refused != nil {
				require.NotEmpty(t, refused.Fields)
				continue
			}
			m := kind.ProtoReflect().New().Interface()
			require.NoError(t, runtime.PopulateQueryParameters(m, values, utilities.NewDoubleArray(nil)), raw)
			_, err := proto.Marshal(m)
			require.NoError(t, err, raw)
			m.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				require.Contains(t, values, string(fd.Name()))
				return true
			})
		}
	})
}
