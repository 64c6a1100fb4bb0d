package sse_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// script is the function that a fake service runs for a stream.
type script[T any] func(send func(T) error, stream grpc.ServerStream) error

type logs struct {
	ingestv1.UnimplementedRunDataServiceServer
	do       script[*ingestv1.FollowLogsResponse]
	requests chan *ingestv1.FollowLogsRequest
}

func (l *logs) FollowLogs(in *ingestv1.FollowLogsRequest, stream grpc.ServerStreamingServer[ingestv1.FollowLogsResponse]) error {
	l.requests <- in
	return l.do(stream.Send, stream)
}

type states struct {
	jobsv1.UnimplementedJobServiceServer
	do script[*jobsv1.WatchJobResponse]
}

func (s *states) WatchJob(_ *jobsv1.WatchJobRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse]) error {
	return s.do(stream.Send, stream)
}

type tables struct {
	jobsv1.UnimplementedJobServiceServer
	do script[*jobsv1.WatchJobsResponse]
}

func (s *tables) WatchJobs(_ *jobsv1.WatchJobsRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobsResponse]) error {
	return s.do(stream.Send, stream)
}

func line(seq int64) *ingestv1.FollowLogsResponse {
	return &ingestv1.FollowLogsResponse{Event: &ingestv1.FollowLogsResponse_Line{Line: &ingestv1.LogLine{Seq: seq, Attempt: 1, Text: "a\nb"}}}
}

func eof(seq int64) *ingestv1.FollowLogsResponse {
	return &ingestv1.FollowLogsResponse{Event: &ingestv1.FollowLogsResponse_Eof{Eof: &ingestv1.Eof{Seq: seq, State: "succeeded"}}}
}

func lineFrame(seq string) string {
	return "id: " + seq + "\nevent: line\ndata: {\"seq\":" + seq + ",\"attempt\":1,\"ts\":null,\"text\":\"a\\nb\",\"rank\":null,\"truncated\":false,\"node\":null}"
}

const eofFrame = "event: eof\ndata: {\"seq\":3,\"state\":\"succeeded\"}"

// harness serves a stream over HTTP.
type harness struct {
	url      string
	clk      *clock.Fake
	requests chan *ingestv1.FollowLogsRequest
	// check replaces the repeated check of the caller.
	check  func(context.Context) error
	stop   func()
	ended  chan struct{}
	stream *sse.Stream
}

func newLogsHarness(t *testing.T, do script[*ingestv1.FollowLogsResponse]) *harness {
	t.Helper()
	svc := &logs{do: do, requests: make(chan *ingestv1.FollowLogsRequest, 16)}
	r := newHarness(t, ingestv1.File_signalbox_ingest_v1_read_proto, "RunDataService", "FollowLogs",
		&ingestv1.FollowLogsRequest{Id: "run_1", After: 7}, func(s *grpc.Server) { ingestv1.RegisterRunDataServiceServer(s, svc) })
	r.requests = svc.requests
	return r
}

func newHarness(t *testing.T, file protoreflect.FileDescriptor, service, method protoreflect.Name, in proto.Message, register func(*grpc.Server)) *harness {
	t.Helper()
	server, pipe := grpc.NewServer(), bufconn.Listen(1<<16)
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(pipe) }()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		require.NoError(t, <-served)
	})

	stop := make(chan struct{})
	r := &harness{
		clk: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)), stop: sync.OnceFunc(func() { close(stop) }), ended: make(chan struct{}, 16),
		check: func(context.Context) error { return nil },
	}
	stream, err := sse.New(file.Services().ByName(service).Methods().ByName(method), conn, restjson.New(), r.clk)
	require.NoError(t, err)
	require.NotNil(t, stream.Request())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := stream.Run(w, req, in, stop, func(ctx context.Context) error { return r.check(ctx) }); err != nil {
			fault.Write(w, err, "req_1")
		}
		r.ended <- struct{}{}
	}))
	t.Cleanup(web.Close)
	t.Cleanup(r.stop)
	r.url, r.stream = web.URL, stream
	return r
}

// reader reads frames of a stream one by one.
type reader struct {
	t    *testing.T
	resp *http.Response
	scan *bufio.Scanner
}

func (r *harness) get(t *testing.T) *reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 1<<20)
	scan.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := strings.Index(string(data), "\n\n"); i >= 0 {
			return i + 2, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return 0, nil, io.ErrUnexpectedEOF
		}
		return 0, nil, nil
	})
	return &reader{t: t, resp: resp, scan: scan}
}

func (r *reader) next() string {
	r.t.Helper()
	require.True(r.t, r.scan.Scan(), "the stream ended: %v", r.scan.Err())
	return r.scan.Text()
}

func (r *reader) end() {
	r.t.Helper()
	require.False(r.t, r.scan.Scan(), "the stream must have ended, but sent another frame: %s", r.scan.Text())
	require.NoError(r.t, r.scan.Err())
}

// open sends the header of an RPC, which shows the gateway that the service has accepted it.
func open(stream grpc.ServerStream) error { return stream.SendHeader(metadata.MD{}) }
