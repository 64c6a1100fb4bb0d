package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// client returns a gRPC client of the public listener.
func (r *harness) client() *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(r.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// withHeaders returns a context whose calls carry the headers.
func withHeaders(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

func TestGRPCCallWithBearer(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	ctx := withHeaders(t.Context(), "authorization", "Bearer "+userToken, "idempotency-key", "k-1", "x-service-caller", "forged", "x-request-id", "forged", "x-service-refresh", "x")
	var header metadata.MD
	got, err := jobsv1.NewJobServiceClient(r.client()).ListJobs(ctx, &jobsv1.ListJobsRequest{}, grpc.Header(&header))
	require.NoError(t, err)
	require.Equal(t, "job_2", got.GetJobs()[0].GetId())
	require.Empty(t, header.Get("x-service-more"), "a service's metadata for the gateway is not forwarded")

	list := r.all()[1]
	require.Equal(t, authn.KindUser, list.caller.Kind)
	require.Equal(t, "127.0.0.1", list.caller.ClientAddr)
	require.Equal(t, []string{"k-1"}, list.md.Get("idempotency-key"))
	require.Empty(t, list.md.Get("authorization"))
	require.Empty(t, list.md.Get("x-service-refresh"))
	require.NotContains(t, list.md.Get("x-request-id"), "forged")
}

func TestGRPCServiceFaults(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	jobs := jobsv1.NewJobServiceClient(r.client())
	signed := withHeaders(t.Context(), "authorization", "Bearer "+userToken)

	_, err := jobs.GetJob(signed, &jobsv1.GetJobRequest{JobId: "job_9"})
	require.Equal(t, "no such job: job_9", fault.From(err).Msg)
	_, err = jobs.ListJobs(signed, &jobsv1.ListJobsRequest{Limit: new(int32(0))})
	require.Equal(t, []any{"limit"}, fault.From(err).Fields[0].Loc)
	_, err = jobs.ListJobs(withHeaders(signed, "idempotency-key", "again", "idempotency-key", "twice"), &jobsv1.ListJobsRequest{})
	require.Equal(t, fault.Invalid, fault.From(err).Kind)
	_, err = jobsv1.NewFleetServiceClient(r.client()).CreateFleet(signed, &jobsv1.CreateFleetRequest{Name: "f", Kind: jobsv1.FleetKind_FLEET_KIND_AGENT, Pools: []string{"p"}})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}

func TestGRPCCallsRequireAccessToken(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	conn := r.client()
	for name, values := range wrongCredentials() {
		ctx := t.Context()
		for _, v := range values {
			ctx = withHeaders(ctx, "authorization", v)
		}
		_, err := jobsv1.NewJobServiceClient(conn).ListJobs(ctx, &jobsv1.ListJobsRequest{})
		require.Equal(t, codes.Unauthenticated, status.Code(err), name)
	}
	require.Empty(t, r.reached())
	open, err := authv1.NewAuthServiceClient(conn).Login(t.Context(), &authv1.LoginRequest{Username: "a", Password: "b"})
	require.NoError(t, err)
	require.Equal(t, userToken, open.GetToken())
}

func TestGRPCUnlistedMethodsUnimplemented(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	conn := r.client()
	signed := withHeaders(t.Context(), "authorization", "Bearer "+adminToken)
	for _, method := range []string{
		authpeerv1.CredentialService_Authenticate_FullMethodName, authpeerv1.CredentialService_GetCallerKeys_FullMethodName,
		"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", jobsv1.AgentService_MintIngestToken_FullMethodName,
		"/signalbox.jobs.v1.JobService/Nope", "/nope",
	} {
		err := conn.Invoke(signed, method, &emptypb.Empty{}, &emptypb.Empty{})
		require.Equal(t, codes.Unimplemented, status.Code(err), method)
	}
	require.Empty(t, r.all())
}

func TestGRPCStreams(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	data := ingestv1.NewRunDataServiceClient(r.client())
	signed := withHeaders(t.Context(), "authorization", "Bearer "+userToken)
	stream, err := data.FollowLogs(signed, &ingestv1.FollowLogsRequest{Id: "run_1", After: 4})
	require.NoError(t, err)
	first, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, int64(5), first.GetLine().GetSeq())
	last, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, int64(6), last.GetEof().GetSeq())
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)

	absent, err := data.FollowLogs(signed, &ingestv1.FollowLogsRequest{Id: "run_absent"})
	require.NoError(t, err)
	_, err = absent.Recv()
	require.Equal(t, fault.Absent, fault.From(err).Kind)
}

func TestGRPCStreamsAreCut(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(clock.Real().Now())
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Clock = clk })
	data := ingestv1.NewRunDataServiceClient(r.client())
	follow := func(token string) grpc.ServerStreamingClient[ingestv1.FollowLogsResponse] {
		stream, err := data.FollowLogs(withHeaders(t.Context(), "authorization", "Bearer "+token), &ingestv1.FollowLogsRequest{Id: "run_live"})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		return stream
	}
	revoked := follow(userToken)
	r.credentials.revoked.Store(userToken, true)
	require.NoError(t, clk.Await(t.Context(), 1))
	clk.Advance(sse.Recheck)
	_, err := revoked.Recv()
	require.Equal(t, "token_revoked", fault.From(err).Code)

	demoted := follow(adminToken)
	r.credentials.demoted.Store(adminToken, true)
	require.NoError(t, clk.Await(t.Context(), 1))
	clk.Advance(sse.Recheck)
	_, err = demoted.Recv()
	require.Equal(t, "reach_changed", fault.From(err).Code)
	require.Equal(t, fault.Unavailable, fault.From(err).Kind, "a client retries on unavailable")

	stopped := follow(adminToken)
	r.gw.Drain()
	_, err = jobsv1.NewJobServiceClient(r.client()).ListJobs(withHeaders(t.Context(), "authorization", "Bearer "+adminToken), &jobsv1.ListJobsRequest{})
	require.Equal(t, "draining", fault.From(err).Code)
	require.NoError(t, r.stopServing())
	_, err = stopped.Recv()
	require.Equal(t, "draining", fault.From(err).Code)
}

func TestGRPCCallLimits(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.RequestTimeout = 100 * time.Millisecond })
	jobs := jobsv1.NewJobServiceClient(r.client())
	signed := withHeaders(t.Context(), "authorization", "Bearer "+userToken)
	_, err := jobs.GetJob(signed, &jobsv1.GetJobRequest{JobId: "job_slow"})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	_, err = jobs.GetJob(signed, &jobsv1.GetJobRequest{JobId: strings.Repeat("a", 5<<20)})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}

func TestHTTP2ClientsGetTheSameAPI(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/api/jobs?limit=0", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+userToken)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, 2, resp.ProtoMajor)
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}
