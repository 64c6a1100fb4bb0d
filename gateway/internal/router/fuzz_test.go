package router_test

import (
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// FuzzQuery checks that the generated handlers parse every accepted query without a fault, and that the
// resulting message can be marshaled.
func FuzzQuery(f *testing.F) {
	for _, raw := range []string{
		"", "state=queued&attempt=1", "name=%00", "name=%ff", "created_at=2026-11-21T03:00:00Z", "accuracy=1e5&complete=true", "a;b", "step=-0", "warnings=a&warnings=",
	} {
		f.Add(raw)
	}
	messages := []proto.Message{&jobsv1.Job{}, &ingestv1.ValidationRound{}, &jobsv1.Node{}}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, kind := range messages {
			every := router.Of(kind.ProtoReflect().Descriptor())
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

// FuzzResume checks that any Last-Event-ID either fills the stream's request or is reported as a fault.
func FuzzResume(f *testing.F) {
	for _, last := range []string{"", "0", "7", "-1", "+1", "007", "010", "1.0", "1e3", "0x1", " 1", "9223372036854775807", "9223372036854775808", "\u0661", "1\x00", "null"} {
		f.Add(last, "after=3")
	}
	rt := &router.Route{
		Route: route.Route{Method: "GET", Pattern: "/api/runs/{id}/logs/stream", RPC: "signalbox.ingest.v1.RunDataService/FollowLogs"}, Vars: []string{"id"},
	}
	form, err := router.NewParams(rt)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, last, query string) {
		in := &ingestv1.FollowLogsRequest{}
		r := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{}}
		r.Header.Set(router.HeaderResume, last)
		refused := form.Fill(in, &router.Match{Route: rt, Values: []string{"run_1"}}, r)
		if refused != nil {
			require.Equal(t, fault.Invalid, refused.Kind)
			require.Contains(t, []any{"query", "header"}, refused.Fields[0].Loc[0])
			return
		}
		require.Equal(t, "run_1", in.GetId())
		require.GreaterOrEqual(t, in.GetAfter(), int64(0))
		if n, err := strconv.ParseInt(last, 10, 64); last != "" {
			require.NoError(t, err)
			require.Equal(t, n, in.GetAfter(), "the header overrides the query")
		}
	})
}
