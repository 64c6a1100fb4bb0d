package sse_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEventsInOrderThenEof(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, func(send func(*ingestv1.FollowLogsResponse) error, _ grpc.ServerStream) error {
		for _, m := range []*ingestv1.FollowLogsResponse{line(1), line(2), eof(3)} {
			if err := send(m); err != nil {
				return err
			}
		}
		return nil
	})
	got := r.get(t)
	require.Equal(t, http.StatusOK, got.resp.StatusCode)
	require.Equal(t, "text/event-stream", got.resp.Header.Get("Content-Type"))
	require.Equal(t, "no", got.resp.Header.Get("X-Accel-Buffering"))
	require.Equal(t, "retry: 2000", got.next())
	require.Equal(t, lineFrame("1"), got.next())
	require.Equal(t, lineFrame("2"), got.next())
	require.Equal(t, "id: 3\n"+eofFrame, got.next())
	got.end()
	require.Equal(t, int64(7), (<-r.requests).GetAfter())
}

func TestStreamWithoutEofMessageEndsWithEof(t *testing.T) {
	t.Parallel()
	svc := &states{do: func(send func(*jobsv1.WatchJobResponse) error, _ grpc.ServerStream) error {
		return send(&jobsv1.WatchJobResponse{Seq: 4, Job: &jobsv1.Job{Id: "job_1", State: jobsv1.JobState_JOB_STATE_RUNNING}})
	}}
	r := newHarness(t, jobsv1.File_signalbox_jobs_v1_job_service_proto, "JobService", "WatchJob", &jobsv1.WatchJobRequest{Id: "job_1"},
		func(s *grpc.Server) { jobsv1.RegisterJobServiceServer(s, svc) })
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	frame := got.next()
	require.True(t, strings.HasPrefix(frame, "id: 4\nevent: job\ndata: {\"id\":\"job_1\""), frame)
	require.Contains(t, frame, `"state":"running"`)
	require.Equal(t, "id: 4\nevent: eof\ndata: {\"seq\":4}", got.next())
	got.end()
}

// The data of an event is the message of the list, so the id is beside it. A stream without an eof event is endless: if the
// service ends it, the client reconnects.
func TestStreamWithSeqBesideOneof(t *testing.T) {
	t.Parallel()
	svc := &tables{do: func(send func(*jobsv1.WatchJobsResponse) error, _ grpc.ServerStream) error {
		for _, m := range []*jobsv1.WatchJobsResponse{
			{Seq: 4, Event: &jobsv1.WatchJobsResponse_Reset_{Reset_: &jobsv1.JobsReset{Reason: "start"}}},
			{Seq: 5, Event: &jobsv1.WatchJobsResponse_Job{Job: &jobsv1.Job{Id: "job_1"}}},
			{Seq: 6, Event: &jobsv1.WatchJobsResponse_Gone{Gone: &jobsv1.GoneJob{Id: "job_1"}}},
		} {
			if err := send(m); err != nil {
				return err
			}
		}
		return nil
	}}
	r := newHarness(t, jobsv1.File_signalbox_jobs_v1_job_service_proto, "JobService", "WatchJobs", &jobsv1.WatchJobsRequest{},
		func(s *grpc.Server) { jobsv1.RegisterJobServiceServer(s, svc) })
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	require.Equal(t, "id: 4\nevent: reset\ndata: {\"reason\":\"start\"}", got.next())
	frame := got.next()
	require.True(t, strings.HasPrefix(frame, "id: 5\nevent: job\ndata: {\"id\":\"job_1\""), frame)
	require.Equal(t, "id: 6\nevent: gone\ndata: {\"id\":\"job_1\"}", got.next())
	got.end()
}

// A client stores the id of every event. If eof had the id 0, the client would later read the whole stream again.
func TestEofKeepsCursorWithoutNewEvents(t *testing.T) {
	t.Parallel()
	svc := &states{do: func(func(*jobsv1.WatchJobResponse) error, grpc.ServerStream) error { return nil }}
	r := newHarness(t, jobsv1.File_signalbox_jobs_v1_job_service_proto, "JobService", "WatchJob", &jobsv1.WatchJobRequest{Id: "job_1", After: 8},
		func(s *grpc.Server) { jobsv1.RegisterJobServiceServer(s, svc) })
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	require.Equal(t, "id: 8\nevent: eof\ndata: {\"seq\":8}", got.next())
	got.end()
}

func TestFailureBeforeFirstEventIsPlainError(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, func(func(*ingestv1.FollowLogsResponse) error, grpc.ServerStream) error {
		return fault.Absentf("run", "run_1")
	})
	got := r.get(t)
	body, err := io.ReadAll(got.resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, got.resp.StatusCode)
	require.JSONEq(t, `{"detail":"no such run: run_1"}`, string(body))
	require.Equal(t, "application/json", got.resp.Header.Get("Content-Type"))
}

func TestFailureAfterFirstEventIsEvent(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, func(send func(*ingestv1.FollowLogsResponse) error, _ grpc.ServerStream) error {
		if err := send(line(1)); err != nil {
			return err
		}
		return fault.New(fault.Dependency, "store", "the store failed")
	})
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	require.Equal(t, lineFrame("1"), got.next())
	require.Equal(t, "event: error\ndata: {\"detail\":\"the store failed\",\"code\":\"store\"}", got.next())
	got.end()
}

func TestCutStreamEndsWithoutEof(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"clean end without eof": nil,
		"draining service":      fault.New(fault.Unavailable, "draining", "the server is stopping"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLogsHarness(t, func(send func(*ingestv1.FollowLogsResponse) error, _ grpc.ServerStream) error {
				if err := send(line(1)); err != nil {
					return err
				}
				return end
			})
			got := r.get(t)
			require.Equal(t, "retry: 2000", got.next())
			require.Equal(t, lineFrame("1"), got.next())
			if end != nil {
				require.Equal(t, "retry: 1000", got.next(), "the client reconnects soon")
			}
			got.end()
		})
	}
}

func TestStopEndsStreamWithReconnectHint(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, waiting(nil))
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	r.stop()
	require.Equal(t, "retry: 1000", got.next())
	got.end()
}

// waiting returns a script that opens its stream and sends nothing until the channel release is closed.
func waiting(release <-chan struct{}) script[*ingestv1.FollowLogsResponse] {
	return func(send func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		if err := open(stream); err != nil {
			return err
		}
		select {
		case <-release:
			return send(eof(3))
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func TestIdleStreamSendsHeartbeats(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := newLogsHarness(t, waiting(release))
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	for range 2 {
		require.NoError(t, r.clk.Await(t.Context(), 2))
		r.clk.Advance(sse.Heartbeat)
		require.Equal(t, ":", got.next())
	}
	close(release)
	require.Equal(t, "id: 3\n"+eofFrame, got.next())
	got.end()
}

func TestSilentServiceTimesOutBeforeOpening(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, func(_ func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	opened := make(chan *reader, 1)
	go func() { opened <- r.get(t) }()
	<-r.requests
	require.NoError(t, r.clk.Await(t.Context(), 1))
	r.clk.Advance(sse.Recheck)
	select {
	case <-opened:
		require.FailNow(t, "the stream was opened before the service accepted it")
	default:
	}
	r.clk.Advance(sse.Heartbeat)
	got := <-opened
	require.Equal(t, http.StatusServiceUnavailable, got.resp.StatusCode)
	require.Equal(t, "application/json", got.resp.Header.Get("Content-Type"))
}

func TestCallerIsRechecked(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, waiting(nil))
	results := make(chan error)
	r.check = func(context.Context) error { return <-results }
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	for _, result := range []error{
		nil, fault.New(fault.Unavailable, "", "auth is unreachable"),
		fault.New(fault.Unauthenticated, "token_revoked", "Could not validate credentials"),
	} {
		require.NoError(t, r.clk.Await(t.Context(), 2))
		r.clk.Advance(sse.Recheck)
		results <- result
	}
	for got.scan.Scan() && got.scan.Text() == ":" { // the third check coincides with a heartbeat
	}
	require.Equal(t, "event: error\ndata: {\"detail\":\"Could not validate credentials\",\"code\":\"token_revoked\"}", got.scan.Text())
	got.end()
	<-r.ended
}

func TestChangedAccessClosesStream(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, waiting(nil))
	r.check = func(context.Context) error { return fault.New(fault.Unavailable, bearer.CodeAccessChanged, "changed") }
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	require.NoError(t, r.clk.Await(t.Context(), 2))
	r.clk.Advance(sse.Recheck)
	got.end()
	<-r.ended
}

func TestClientLeavingFreesService(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	r := newLogsHarness(t, func(_ func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		if err := open(stream); err != nil {
			return err
		}
		<-stream.Context().Done()
		close(left)
		return stream.Context().Err()
	})
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	require.NoError(t, got.resp.Body.Close())
	<-left
	<-r.ended
}

func TestBurstLosesNoEvents(t *testing.T) {
	t.Parallel()
	const n = 5000
	r := newLogsHarness(t, func(send func(*ingestv1.FollowLogsResponse) error, _ grpc.ServerStream) error {
		for i := range int64(n) {
			if err := send(line(i + 1)); err != nil {
				return err
			}
		}
		return send(eof(n + 1))
	})
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	for i := range n {
		frame := got.next()
		require.True(t, strings.HasPrefix(frame, "id: "+strconv.Itoa(i+1)+"\n"), frame)
		_, data, _ := strings.Cut(frame, "data: ")
		require.True(t, json.Valid([]byte(data)), data)
	}
	require.Contains(t, got.next(), "event: eof")
	got.end()
}

func TestNewStreamRejectsUnaryMethod(t *testing.T) {
	t.Parallel()
	unary := jobsv1.File_signalbox_jobs_v1_job_service_proto.Services().ByName("JobService").Methods().ByName("GetJob")
	_, err := sse.New(unary, nil, restjson.New(), clock.Real())
	require.ErrorContains(t, err, "a stream message must have")
}

func TestLimitTake(t *testing.T) {
	t.Parallel()
	var l sse.Limit
	var releases []func()
	for range sse.MaxPerCredential {
		release, ok := l.Take("a")
		require.True(t, ok)
		releases = append(releases, release)
	}
	_, ok := l.Take("a")
	require.False(t, ok)
	_, ok = l.Take("b")
	require.True(t, ok)
	releases[0]()
	releases[0]() // a second release has no effect
	_, ok = l.Take("a")
	require.True(t, ok)
	_, ok = l.Take("a")
	require.False(t, ok)
}
