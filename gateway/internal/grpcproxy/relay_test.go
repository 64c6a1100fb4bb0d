package grpcproxy_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/signalbox-dev/signalbox/gateway/internal/grpcproxy"
	"github.com/signalbox-dev/signalbox/gen/route"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// gate implements grpcproxy.Gate and counts the calls and the releases. The function admit, if set, decides about each
// call.
type gate struct {
	conn  grpc.ClientConnInterface
	admit func(ctx context.Context, rt route.Route) (context.Context, error)
	limit time.Duration

	mu         sync.Mutex
	over, seen int
}

func (g *gate) Admit(ctx context.Context, rt route.Route, _ http.Header, _ string) (context.Context, func(), error) {
	g.mu.Lock()
	g.seen++
	g.mu.Unlock()
	if g.admit != nil {
		var err error
		if ctx, err = g.admit(ctx, rt); err != nil {
			return ctx, nil, err
		}
	}
	return ctx, func() { g.mu.Lock(); g.over++; g.mu.Unlock() }, nil
}

func (g *gate) Limit(route.Route) time.Duration { return g.limit }

// counts returns the numbers of calls to Admit and of released calls.
func (g *gate) counts() [2]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return [2]int{g.seen, g.over}
}

func (g *gate) Conn(string) grpc.ClientConnInterface { return g.conn }

// jobs is the fake service behind the gRPC proxy.
type jobs struct {
	jobsv1.UnimplementedJobServiceServer
	ingestv1.UnimplementedRunDataServiceServer
	got    chan metadata.MD
	get    func(ctx context.Context) (*jobsv1.Job, error)
	follow func(ctx context.Context, send func(*ingestv1.FollowLogsResponse) error) error
}

func (j *jobs) GetJob(ctx context.Context, _ *jobsv1.GetJobRequest) (*jobsv1.Job, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	j.got <- md
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-service-set-cookie", "secret=1", "x-service-more", "true"))
	return j.get(ctx)
}

func (j *jobs) FollowLogs(_ *ingestv1.FollowLogsRequest, s grpc.ServerStreamingServer[ingestv1.FollowLogsResponse]) error {
	return j.follow(s.Context(), s.Send)
}

// harness is a gRPC proxy between a client and a fake service.
type harness struct {
	gate   *gate
	jobs   *jobs
	client *grpc.ClientConn
}

func newHarness(t *testing.T, limit time.Duration) *harness {
	t.Helper()
	r := &harness{gate: &gate{limit: limit}, jobs: &jobs{got: make(chan metadata.MD, 16)}}
	back, pipe := grpc.NewServer(grpc.MaxRecvMsgSize(16<<20)), bufconn.Listen(1<<16)
	jobsv1.RegisterJobServiceServer(back, r.jobs)
	ingestv1.RegisterRunDataServiceServer(back, r.jobs)
	served := make(chan error, 2)
	go func() { served <- back.Serve(pipe) }()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	require.NoError(t, err)
	r.gate.conn = conn
	table := []route.Route{
		{Kind: route.RPC, RPC: "signalbox.jobs.v1.JobService/GetJob", Service: "jobs"},
		{Kind: route.Stream, RPC: "signalbox.ingest.v1.RunDataService/FollowLogs", Service: "ingest"},
		{Kind: route.Raw, RPC: "signalbox.jobs.v1.JobService/StopJob", Handler: "x"},
	}
	front := &http.Server{Handler: grpcproxy.New(table, r.gate, clock.Real(), slog.New(slog.DiscardHandler)), ReadHeaderTimeout: time.Minute}
	front.Protocols = new(http.Protocols)
	front.Protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = front.Serve(l); served <- nil }()
	r.client, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = r.client.Close()
		_ = front.Close()
		_ = conn.Close()
		back.Stop()
		require.NoError(t, <-served)
		require.NoError(t, <-served)
	})
	return r
}

func job(context.Context) (*jobsv1.Job, error) { return &jobsv1.Job{Id: "job_1"}, nil }

func TestMethodOutsideTableUnimplemented(t *testing.T) {
	t.Parallel()
	r := newHarness(t, time.Minute)
	r.jobs.get = job
	for _, method := range []string{
		"/signalbox.jobs.v1.JobService/ListJobs", "/signalbox.jobs.v1.JobService/StopJob", "/signalbox.jobs.v1.JobService/getjob", "/signalbox.jobs.v1.JobService/GetJob/",
		"/signalbox.jobs.peer.v1.WorkService/PutWork", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.health.v1.Health/Check", "/x/y",
	} {
		err := r.client.Invoke(t.Context(), method, &jobsv1.GetJobRequest{}, &jobsv1.Job{})
		require.Equal(t, codes.Unimplemented, status.Code(err), method)
	}
	require.Zero(t, r.gate.counts(), "the caller is not checked")
	require.Empty(t, r.jobs.got, "no service is called")
}

func TestOnlyListedMetadataPasses(t *testing.T) {
	t.Parallel()
	r := newHarness(t, time.Minute)
	r.jobs.get = job
	ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k", "x-service-confirm", "sha256:ab", "authorization", "Bearer x",
		"x-service-caller", "forged", "x-user-id", "admin", "cookie", "a=b", "grpc-metadata-x", "y", "x-forwarded-for", "6.6.6.6", "blob-bin", "\x00\x01")
	var header, trailer metadata.MD
	out, err := jobsv1.NewJobServiceClient(r.client).GetJob(ctx, &jobsv1.GetJobRequest{JobId: "job_1"}, grpc.Header(&header), grpc.Trailer(&trailer))
	require.NoError(t, err)
	require.Equal(t, "job_1", out.GetId())
	got := <-r.jobs.got
	for _, own := range []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"} {
		delete(got, own)
	}
	agent := got.Get("x-service-user-agent")
	require.Len(t, agent, 1)
	delete(got, "x-service-user-agent")
	require.Equal(t, metadata.MD{"idempotency-key": {"k"}, "x-service-confirm": {"sha256:ab"}}, got)
	for _, md := range []metadata.MD{header, trailer} {
		require.Empty(t, md.Get("x-service-set-cookie"))
		require.Empty(t, md.Get("x-service-more"))
	}
	require.Equal(t, [2]int{1, 1}, r.gate.counts())
}

func TestRefusedCallDoesNotReachService(t *testing.T) {
	t.Parallel()
	r := newHarness(t, time.Minute)
	r.gate.admit = func(ctx context.Context, rt route.Route) (context.Context, error) {
		return ctx, fault.New(fault.Unauthenticated, "token_revoked", "no more, %s", rt.Service)
	}
	_, err := jobsv1.NewJobServiceClient(r.client).GetJob(t.Context(), &jobsv1.GetJobRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.Equal(t, []string{"token_revoked", "no more, jobs"}, []string{fault.From(err).Code, fault.From(err).Msg})
	require.Empty(t, r.jobs.got)
	require.Equal(t, [2]int{1, 0}, r.gate.counts(), "the function over is not called for a refused call")
}

func TestMessageSizeLimit(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	r := newHarness(t, time.Minute)
	r.jobs.get = job
	client := jobsv1.NewJobServiceClient(r.client)
	const overhead = 1 + 4 // the field's tag and the length of its text
	_, err := client.GetJob(t.Context(), &jobsv1.GetJobRequest{JobId: strings.Repeat("x", limit-overhead)})
	require.NoError(t, err)
	_, err = client.GetJob(t.Context(), &jobsv1.GetJobRequest{JobId: strings.Repeat("x", limit-overhead+1)})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.True(t, fault.Is(err, fault.TooLarge))
	require.Len(t, r.jobs.got, 1)
}

// In a protobuf message, an empty string field is the same as an absent field. REST reports an absent field as missing,
// so the proxy does too.
func TestUnsetFieldsReportedMissing(t *testing.T) {
	t.Parallel()
	r := newHarness(t, time.Minute)
	short := func(loc ...any) fault.Field { return fault.At(fault.TypeStringShort, "too short", loc...) }
	r.jobs.get = func(context.Context) (*jobsv1.Job, error) {
		return nil, fault.InvalidFields(short("job_id"), fault.At(fault.TypeStringPattern, "no match", "job_id"), short("other"),
			fault.At(fault.TypeStringLong, "too long", "job_id"), short("job_id", "x"), short())
	}
	faults := func(job string) []string {
		_, err := jobsv1.NewJobServiceClient(r.client).GetJob(t.Context(), &jobsv1.GetJobRequest{JobId: job})
		var got []string
		for _, f := range fault.From(err).Fields {
			got = append(got, f.Type+" "+fault.Path(f.Loc))
		}
		return got
	}
	rest := []string{"string_too_short other", "string_too_long job_id", "string_too_short job_id.x", "string_too_short "}
	require.Equal(t, append([]string{"missing job_id"}, rest...), faults(""))
	require.Equal(t, append([]string{"string_too_short job_id", "string_pattern_mismatch job_id"}, rest...), faults("x"))
}

func TestClientCancelEndsServiceCall(t *testing.T) {
	t.Parallel()
	r := newHarness(t, time.Minute)
	entered, freed := make(chan struct{}), make(chan struct{})
	r.jobs.get = func(ctx context.Context) (*jobsv1.Job, error) {
		close(entered)
		<-ctx.Done()
		close(freed)
		return nil, ctx.Err()
	}
	ctx, leave := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := jobsv1.NewJobServiceClient(r.client).GetJob(ctx, &jobsv1.GetJobRequest{})
		failed <- err
	}()
	<-entered
	leave()
	require.Equal(t, codes.Canceled, status.Code(<-failed))
	<-freed
}

func TestCallLimitDoesNotBoundStreams(t *testing.T) {
	t.Parallel()
	r := newHarness(t, time.Nanosecond) // this time limit of a call expires at once
	r.jobs.get = job
	_, err := jobsv1.NewJobServiceClient(r.client).GetJob(t.Context(), &jobsv1.GetJobRequest{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	r.jobs.follow = func(_ context.Context, send func(*ingestv1.FollowLogsResponse) error) error {
		for i := range int64(3) {
			if err := send(&ingestv1.FollowLogsResponse{Event: &ingestv1.FollowLogsResponse_Line{Line: &ingestv1.LogLine{Seq: i + 1, Text: rand.Text()}}}); err != nil {
				return err
			}
		}
		return fault.New(fault.Dependency, "store", "the store failed")
	}
	s, err := ingestv1.NewRunDataServiceClient(r.client).FollowLogs(t.Context(), &ingestv1.FollowLogsRequest{})
	require.NoError(t, err)
	for i := range int64(3) {
		m, err := s.Recv()
		require.NoError(t, err)
		require.Equal(t, i+1, m.GetLine().GetSeq())
	}
	_, err = s.Recv()
	require.NotErrorIs(t, err, io.EOF)
	require.Equal(t, "store", fault.From(err).Code, "the fault follows the messages")
}

func TestCutStreamReportsGateFault(t *testing.T) {
	t.Parallel()
	r := newHarness(t, time.Minute)
	why, entered, freed := fault.New(fault.Unauthenticated, "token_revoked", "no more"), make(chan struct{}), make(chan struct{})
	r.gate.admit = func(ctx context.Context, _ route.Route) (context.Context, error) {
		ctx, cut := context.WithCancelCause(ctx)
		go func() { <-entered; cut(why) }()
		return ctx, nil
	}
	r.jobs.follow = func(ctx context.Context, _ func(*ingestv1.FollowLogsResponse) error) error {
		close(entered)
		<-ctx.Done()
		close(freed)
		return ctx.Err()
	}
	s, err := ingestv1.NewRunDataServiceClient(r.client).FollowLogs(t.Context(), &ingestv1.FollowLogsRequest{})
	require.NoError(t, err)
	_, err = s.Recv()
	require.Equal(t, "token_revoked", fault.From(err).Code, "the client gets the reason, not the cancellation")
	<-freed
}
