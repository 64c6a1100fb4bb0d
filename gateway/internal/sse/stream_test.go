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
	r := logsRig(t, func(send func(*ingestv1.FollowLogsResponse) error, _ grpc.ServerStream) error {
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
	require.Equal(t, int64(7), (<-r.asked).GetAfter())
}

func TestStreamWithoutEofMessageEndsWithOne(t *testing.T) {
	t.Parallel()
	svc := &states{do: func(send func(*jobsv1.WatchJobResponse) error, _ grpc.ServerStream) error {
		return send(&jobsv1.WatchJobResponse{Seq: 4, Job: &jobsv1.Job{Id: "job_1", State: jobsv1.JobState_JOB_STATE_RUNNING}})
	}}
	r := newRig(t, jobsv1.File_signalbox_jobs_v1_job_proto, "JobService", "WatchJob", &jobsv1.WatchJobRequest{Id: "job_1"},
		func(s *grpc.Server) { jobsv1.RegisterJobServiceServer(s, svc) })
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	frame := got.next()
	require.True(t, strings.HasPrefix(frame, "id: 4\nevent: job\ndata: {\"id\":\"job_1\""), frame)
	require.Contains(t, frame, `"state":"running"`)
	require.Equal(t, "id: 4\nevent: eof\ndata: {\"seq\":4}", got.next())
	got.end()
}

// A client stores the id of every event: one of 0 would have it read the whole stream again.
func TestTheEofOfAStreamThatWasReadToItsEndKeepsItsPlace(t *testing.T) {
	t.Parallel()
	svc := &states{do: func(func(*jobsv1.WatchJobResponse) error, grpc.ServerStream) error { return nil }}
	r := newRig(t, jobsv1.File_signalbox_jobs_v1_job_proto, "JobService", "WatchJob", &jobsv1.WatchJobRequest{Id: "job_1", After: 8},
		func(s *grpc.Server) { jobsv1.RegisterJobServiceServer(s, svc) })
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	require.Equal(t, "id: 8\nevent: eof\ndata: {\"seq\":8}", got.next())
	got.end()
}

func TestWhatFailsBeforeTheFirstEventIsAPlainError(t *testing.T) {
	t.Parallel()
	r := logsRig(t, func(func(*ingestv1.FollowLogsResponse) error, grpc.ServerStream) error {
		return fault.Absentf("run", "run_1")
	})
	got := r.get(t)
	body, err := io.ReadAll(got.resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, got.resp.StatusCode)
	require.JSONEq(t, `{"detail":"no such run: run_1"}`, string(body))
	require.Equal(t, "application/json", got.resp.Header.Get("Content-Type"))
}

func TestWhatFailsLaterIsAnEvent(t *testing.T) {
	t.Parallel()
	r := logsRig(t, func(send func(*ingestv1.FollowLogsResponse) error, _ grpc.ServerStream) error {
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

func TestStreamsThatAreCutJustEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"a clean end without eof":   nil,
		"a service that is leaving": fault.New(fault.Unavailable, "draining", "the server is stopping"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := logsRig(t, func(send func(*ingestv1.FollowLogsResponse) error, _ grpc.ServerStream) error {
				if err := send(line(1)); err != nil {
					return err
				}
				return end
			})
			got := r.get(t)
			require.Equal(t, "retry: 2000", got.next())
			require.Equal(t, lineFrame("1"), got.next())
			got.end()
		})
	}
}

// waiting is a service that opens its stream and says nothing until it is told to.
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

func TestSilenceIsFilledWithComments(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := logsRig(t, waiting(release))
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

func TestAServiceThatSaysNothingOpensNoStream(t *testing.T) {
	t.Parallel()
	r := logsRig(t, func(_ func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	opened := make(chan *reader, 1)
	go func() { opened <- r.get(t) }()
	<-r.asked
	require.NoError(t, r.clk.Await(t.Context(), 1))
	r.clk.Advance(sse.Recheck)
	select {
	case <-opened:
		require.FailNow(t, "nobody said that the caller may read")
	default:
	}
	r.clk.Advance(sse.Heartbeat)
	got := <-opened
	require.Equal(t, http.StatusServiceUnavailable, got.resp.StatusCode)
	require.Equal(t, "application/json", got.resp.Header.Get("Content-Type"))
}

func TestCallerIsCheckedAgain(t *testing.T) {
	t.Parallel()
	r := logsRig(t, waiting(nil))
	answers := make(chan error)
	r.check = func(context.Context) error { return <-answers }
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	for _, answer := range []error{
		nil, fault.New(fault.Unavailable, "", "auth is away"),
		fault.New(fault.Unauthenticated, "token_revoked", "Could not validate credentials"),
	} {
		require.NoError(t, r.clk.Await(t.Context(), 2))
		r.clk.Advance(sse.Recheck)
		answers <- answer
	}
	for got.scan.Scan() && got.scan.Text() == ":" { // the third check falls together with a heartbeat
	}
	require.Equal(t, "event: error\ndata: {\"detail\":\"Could not validate credentials\",\"code\":\"token_revoked\"}", got.scan.Text())
	got.end()
	<-r.ended
}

func TestAStreamOfOneWhoReachesOtherThingsJustCloses(t *testing.T) {
	t.Parallel()
	r := logsRig(t, waiting(nil))
	r.check = func(context.Context) error { return fault.New(fault.Unavailable, bearer.CodeReach, "changed") }
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	require.NoError(t, r.clk.Await(t.Context(), 2))
	r.clk.Advance(sse.Recheck)
	got.end()
	<-r.ended
}

func TestClientThatLeavesFreesTheService(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	r := logsRig(t, func(_ func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
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

func TestBurstLosesNothing(t *testing.T) {
	t.Parallel()
	const n = 5000
	r := logsRig(t, func(send func(*ingestv1.FollowLogsResponse) error, _ grpc.ServerStream) error {
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

func TestStreamsThatHaveNoForm(t *testing.T) {
	t.Parallel()
	unary := jobsv1.File_signalbox_jobs_v1_job_proto.Services().ByName("JobService").Methods().ByName("GetJob")
	_, err := sse.New(unary, nil, restjson.New(), clock.Real())
	require.ErrorContains(t, err, "a stream sends")
}

func TestLimitOfOpenStreams(t *testing.T) {
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
	releases[0]() // gives back once
	_, ok = l.Take("a")
	require.True(t, ok)
	_, ok = l.Take("a")
	require.False(t, ok)
}
