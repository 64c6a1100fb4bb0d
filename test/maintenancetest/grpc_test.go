package maintenancetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// caller makes calls over REST and over gRPC.
type caller struct {
	t    testing.TB
	base string
	conn *grpc.ClientConn
}

// outcome is the result of a call, in terms that REST and gRPC have in common.
type outcome struct {
	Status int
	Detail string
	Fields []string
}

// methodOf returns the method descriptor of a route.
func methodOf(t testing.TB, rt route.Route) protoreflect.MethodDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(rt.RPC, "/", ".")))
	require.NoError(t, err)
	return d.(protoreflect.MethodDescriptor)
}

// rest calls a route over REST. The function value returns the value of a path variable.
func (c caller) rest(rt route.Route, token string, value func(v routes.Variable) string) outcome {
	c.t.Helper()
	path, body := routes.Load().Fill(rt.Pattern, value), ""
	if rt.Body != "" {
		body = "{}"
	}
	a := do(c.t, c.base, token, rt.Method, path, body)
	out := outcome{Status: a.status}
	if a.status < http.StatusBadRequest {
		return outcome{Status: http.StatusOK}
	}
	var failure struct{ Detail json.RawMessage }
	a.into(c.t, &failure)
	if json.Unmarshal(failure.Detail, &out.Detail) == nil {
		return out
	}
	var entries []struct {
		Loc  []any
		Type string
	}
	require.NoError(c.t, json.Unmarshal(failure.Detail, &entries), a.body)
	for _, e := range entries {
		out.Fields = append(out.Fields, e.Type+" "+fault.Path(e.Loc[1:]))
	}
	slices.Sort(out.Fields)
	return out
}

// grpc makes the same call as rest, but over gRPC.
func (c caller) grpc(rt route.Route, token string, value func(v routes.Variable) string) outcome {
	c.t.Helper()
	md := methodOf(c.t, rt)
	in := dynamicpb.NewMessage(md.Input())
	for _, name := range routes.Names(rt.Pattern) {
		v, _ := routes.Load().Variable(rt.Pattern, name)
		in.Set(md.Input().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOfString(value(v)))
	}
	return outcomeOf(c.invoke(rt, token, in))
}

func (c caller) invoke(rt route.Route, token string, in proto.Message) error {
	ctx := c.t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	out := dynamicpb.NewMessage(methodOf(c.t, rt).Output())
	if rt.Kind != route.Stream {
		return c.conn.Invoke(ctx, "/"+rt.RPC, in, out)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+rt.RPC)
	if err == nil {
		err = stream.SendMsg(in)
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(out)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func outcomeOf(err error) outcome {
	if err == nil {
		return outcome{Status: http.StatusOK}
	}
	f := fault.From(err)
	out := outcome{Status: fault.HTTPStatus(f.Kind)}
	if len(f.Fields) == 0 {
		out.Detail = f.Text()
	}
	for _, field := range f.Fields {
		out.Fields = append(out.Fields, field.Type+" "+fault.Path(field.Loc))
	}
	slices.Sort(out.Fields)
	return out
}

// sessionEnding returns the calls that succeed with an empty message and would end the session that the test
// uses.
func sessionEnding() []string {
	return []string{"signalbox.auth.v1.AuthService/Logout", "signalbox.auth.v1.ProfileService/EndSessions", "signalbox.auth.v1.ProfileService/DeleteSessions"}
}

// stricterJSON returns the calls whose JSON has a rule that the message cannot express. PutHardwareConfig requires the
// lists series and profiles, even if they are empty.
func stricterJSON() []string { return []string{"signalbox.jobs.v1.HardwareService/PutHardwareConfig"} }

// requireSameOutcomes makes each call of the route table, with few exceptions, over REST and over gRPC: without a
// token, without the required role, with malformed ids and with ids that do not exist. Status, detail and fields of
// the errors must be the same.
func requireSameOutcomes(t *testing.T, s *testenv.Installation, admin, operator string) {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(s.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	seen, compared, read, refused := map[string]bool{}, 0, 0, map[int]int{}
	for _, row := range routes.Load().Routes() {
		rt := row.Route
		if rt.Kind == route.Raw || seen[rt.RPC] || slices.Contains(sessionEnding(), rt.RPC) || slices.Contains(stricterJSON(), rt.RPC) {
			continue
		}
		seen[rt.RPC] = true
		c := caller{t, s.URL, conn}
		same := func(what, token string, value func(routes.Variable) string) outcome {
			t.Helper()
			rest, grpc := c.rest(rt, token, value), c.grpc(rt, token, value)
			require.Equal(t, rest, grpc, "%s %s (%s), %s", rt.Method, rt.Pattern, rt.RPC, what)
			compared++
			refused[rest.Status]++
			return rest
		}
		texts := true
		for _, name := range routes.Names(rt.Pattern) {
			texts = texts && methodOf(t, rt).Input().Fields().ByName(protoreflect.Name(name)).Kind() == protoreflect.StringKind
		}
		if !texts {
			// The path parameter is a number, and a gRPC message cannot contain a malformed number. Over gRPC, the test
			// therefore only makes a call without a token.
			require.Equal(t, codes.Unauthenticated, status.Code(c.invoke(rt, "", dynamicpb.NewMessage(methodOf(t, rt).Input()))), rt.RPC)
			continue
		}
		absent := func(v routes.Variable) string { return v.Absent }
		if rt.Credential == "user" {
			require.Equal(t, http.StatusUnauthorized, same("without a token", "", absent).Status, rt.RPC)
			same("with another token", "a.b.c", absent)
		}
		if rt.Role == "admin" {
			require.Equal(t, http.StatusForbidden, same("as an operator", operator, absent).Status, rt.RPC)
		}
		if routes.Endless(rt) {
			continue // only its errors are compared
		}
		same("id that does not exist", admin, absent)
		if len(routes.Names(rt.Pattern)) > 0 {
			same("malformed id", admin, func(routes.Variable) string { return "Nonsense!" })
		} else if rt.Method == http.MethodGet {
			want := http.StatusOK
			if row.Required {
				want = http.StatusUnprocessableEntity // the query is missing
			}
			require.Equal(t, want, same("reading", admin, absent).Status, rt.RPC)
			read++
		}
	}
	require.Equal(t, codes.Unimplemented, status.Code(conn.Invoke(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+admin),
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &emptypb.Empty{}, &emptypb.Empty{})), "the gateway must serve only the calls of the route table")
	t.Logf("%d calls, %d requests, %d reads, responses by status %v", len(seen), compared, read, refused)
	require.Greater(t, compared, 3*len(seen)/2)
	for _, want := range []int{401, 403, 404, 422} {
		require.Positive(t, refused[want], want)
	}
}
