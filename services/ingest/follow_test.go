package ingest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// close ends the run with the state succeeded.
func (t *training) close() {
	t.r.h.t.Helper()
	_, err := t.r.peer.CloseRun(t.r.h.t.Context(), &ingestpeerv1.CloseRunRequest{RunId: t.run, State: "succeeded"})
	require.NoError(t.r.h.t, err)
}

func TestFollowLogs_everyLineOnceAcrossReconnects(t *testing.T) {
	t.Parallel()
	h := open(t)
	replicas := []*replica{h.replica(ingest.Config{}), h.replica(ingest.Config{})}
	run := replicas[0].train()
	const lines, followers = 300, 12
	var all sync.WaitGroup
	for f := range followers {
		all.Go(func() {
			seen, err := followWithCuts(t.Context(), replicas[f%2], run.run, 7+f)
			if err != nil || seen != lines {
				t.Errorf("follower %d received %d lines: %v", f, seen, err)
			}
		})
	}
	for i := 0; i < lines; i += 3 {
		run.post("logs", fmt.Sprintf("w:%d", i/3+1), fmt.Sprintf(`"chunks":["line %d\nline %d\nline %d\n"]`, i, i+1, i+2))
	}
	run.close()
	all.Wait()
}

// followWithCuts reads a log to its end and returns the number of lines. After each batch of lines, whose size is the
// parameter every, it cancels the stream and opens a new one after the last line that it read.
func followWithCuts(ctx context.Context, r *replica, id string, every int) (int64, error) {
	var last int64
	for {
		cut, cancel := context.WithCancel(ctx)
		stream, err := r.public.FollowLogs(cut, &ingestv1.FollowLogsRequest{Id: id, After: last})
		if err != nil {
			cancel()
			return last, err
		}
		for range every {
			e, err := stream.Recv()
			if err != nil {
				cancel()
				return last, err
			}
			if eof := e.GetEof(); eof != nil {
				cancel()
				if eof.GetSeq() != last || eof.GetState() != "succeeded" {
					return last, fmt.Errorf("received eof %v after line %d", eof, last)
				}
				return last, nil
			}
			if e.GetLine().GetSeq() != last+1 || e.GetLine().GetText() != fmt.Sprintf("line %d", last) {
				cancel()
				return last, fmt.Errorf("unexpected line %v after line %d", e, last)
			}
			last++
		}
		cancel()
	}
}

func TestFollowMetrics(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("metrics", "w:1", points(point("a", 1, 1), point("b", 1, `"NaN"`)))
	stream, err := r.public.FollowMetrics(t.Context(), &ingestv1.FollowMetricsRequest{Id: run.job})
	require.NoError(t, err)
	e, err := stream.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 1, e.GetBatch().GetSeq())
	require.Equal(t, "b", e.GetBatch().GetPoints()[1].GetKey())
	run.post("metrics", "w:2", points(point("c", 2, 3)))
	e, err = stream.Recv()
	require.NoError(t, err)
	require.Equal(t, "c", e.GetBatch().GetPoints()[0].GetKey())
	run.close()
	e, err = stream.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 2, e.GetEof().GetSeq())
	resumed, err := r.public.FollowMetrics(t.Context(), &ingestv1.FollowMetricsRequest{Id: run.run, After: 1})
	require.NoError(t, err)
	e, err = resumed.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 2, e.GetBatch().GetSeq())
}

func TestFollowLogs_runWithoutReports(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	stream, err := r.public.FollowLogs(t.Context(), &ingestv1.FollowLogsRequest{Id: run.run})
	require.NoError(t, err)
	header, err := stream.Header()
	require.NoError(t, err)
	require.NotNil(t, header, "the header arrives before there is anything to read")
	run.close()
	e, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, "succeeded", e.GetEof().GetState())
	_, err = r.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: "run_none"})
	require.True(t, fault.Is(err, fault.Absent))
}

func TestRunData_hiddenRunLooksAbsent(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("logs", "", `"chunks":["secret"]`)
	stranger := as(t.Context(), "usr_stranger")
	_, err := r.public.ListLogs(stranger, &ingestv1.ListLogsRequest{Id: run.run})
	require.Equal(t, "no such run: "+run.run, fault.From(err).Msg)
	_, err = r.public.GetHparams(stranger, &ingestv1.GetHparamsRequest{Id: run.job})
	require.Equal(t, "no such job: "+run.job, fault.From(err).Msg)
	stream, err := r.public.FollowLogs(stranger, &ingestv1.FollowLogsRequest{Id: run.run})
	require.NoError(t, err)
	header, _ := stream.Header()
	require.Nil(t, header, "a hidden run sends no header")
	_, err = stream.Recv()
	require.True(t, fault.Is(err, fault.Absent))
	other := "0"
	if strings.HasSuffix(run.run, other) {
		other = "1"
	}
	absent := run.run[:len(run.run)-1] + other
	_, err = r.public.ListLogs(t.Context(), &ingestv1.ListLogsRequest{Id: absent})
	require.Equal(t, "no such run: "+absent, fault.From(err).Msg)
	for _, id := range []string{"x", "run_", "run_X", "usr_01", "job_1"} {
		_, err = r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: id})
		require.True(t, fault.Is(err, fault.Invalid), id)
	}
}

// While streams are open, a run gets a new owner or its project is hidden. Callers who lost access receive none of the
// later reports. Their streams end with the error that opening a new stream would return.
func TestFollow_endsWhenCallerLosesAccess(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	exec := func(sql, runID string) {
		_, err := h.db.Pool(ingest.Name).Exec(t.Context(), sql, runID)
		require.NoError(t, err)
	}
	const give = `UPDATE run SET owner_id = 'usr_heir', former_owner_id = 'usr_owner'`
	for name, c := range map[string]struct{ before, change string }{
		"new owner": {`UPDATE run SET project = project WHERE id = $1`, give + ` WHERE id = $1`},
		"hidden": {
			give + `, visibility = 'all', visibility_version = 8 WHERE id = $1`,
			`UPDATE run SET visibility = 'team', visibility_version = 9 WHERE id = $1`,
		},
	} {
		run := r.train()
		run.post("logs", "", `"chunks":["one\n"]`)
		run.post("metrics", "", points(point("a", 1, 1)))
		exec(c.before, run.run)
		lines, err := r.public.FollowLogs(t.Context(), &ingestv1.FollowLogsRequest{Id: run.run})
		require.NoError(t, err)
		batches, err := r.public.FollowMetrics(t.Context(), &ingestv1.FollowMetricsRequest{Id: run.job})
		require.NoError(t, err)
		_, err = lines.Recv()
		require.NoError(t, err)
		_, err = batches.Recv()
		require.NoError(t, err)
		exec(c.change, run.run)
		run.post("logs", "", `"chunks":["secret\n"]`)
		run.post("metrics", "", points(point("secret", 1, 1)))
		_, err = lines.Recv()
		require.Equal(t, "no such run: "+run.run, fault.From(err).Msg, name)
		_, err = batches.Recv()
		require.Equal(t, "no such job: "+run.job, fault.From(err).Msg, name)
		require.True(t, fault.Is(err, fault.Absent), name)
		heir, err := r.public.FollowLogs(as(t.Context(), "usr_heir"), &ingestv1.FollowLogsRequest{Id: run.run, After: 1})
		require.NoError(t, err)
		e, err := heir.Recv()
		require.NoError(t, err)
		require.Equal(t, "secret", e.GetLine().GetText())
	}
}

func TestListLogs_pages(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	for n := range 10 {
		run.post("logs", "", fmt.Sprintf(`"chunks":["%d0\n%d1\n%d2\n"]`, n, n, n))
	}
	limit, offset := int32(7), int32(11)
	out, err := r.public.ListLogs(t.Context(), &ingestv1.ListLogsRequest{Id: run.run, Limit: &limit, Offset: &offset})
	require.NoError(t, err)
	require.Len(t, out.GetLines(), 7)
	require.Equal(t, "32", out.GetLines()[0].GetText())
	require.EqualValues(t, 12, out.GetLines()[0].GetSeq())
	offset = 29
	out, err = r.public.ListLogs(t.Context(), &ingestv1.ListLogsRequest{Id: run.run, Limit: &limit, Offset: &offset})
	require.NoError(t, err)
	require.Len(t, out.GetLines(), 1)
}

func TestFollowLogs_pollsWithoutNotifications(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := h.replica(ingest.Config{}).public.FollowLogs(ctx, &ingestv1.FollowLogsRequest{Id: run.run})
	require.NoError(t, err)
	run.post("logs", "", `"chunks":["one"]`)
	_, err = stream.Recv()
	require.NoError(t, err)
	require.Positive(t, terminateListeners(t, h))
	a := run.call(http.MethodPost, "logs", "", run.body(`"chunks":["two"]`))
	require.Equal(t, http.StatusOK, a.status)
	e, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, "two", e.GetLine().GetText())
}

// terminateListeners terminates every database session that listens for notifications, and returns their number.
func terminateListeners(t *testing.T, h *harness) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.db.AdminURL().Reveal())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	var ended int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&ended))
	return ended
}

func TestFollow_closedRunOverManyPages(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	const lines, batches = 1700, 150
	run.post("logs", "", `"chunks":["`+strings.Repeat(`x\n`, lines)+`"]`)
	parallel(batches, func(int) {
		if a := run.call(http.MethodPost, "metrics", "", run.body(points(point("a", 1, 1)))); a.status != http.StatusOK {
			t.Error(string(a.body))
		}
	})
	run.close()
	events := follow(t, r, run.run, 0)
	require.Len(t, events, lines+1)
	require.Equal(t, fmt.Sprintf("eof %d succeeded", lines), events[lines])
	stream, err := r.public.FollowMetrics(t.Context(), &ingestv1.FollowMetricsRequest{Id: run.run})
	require.NoError(t, err)
	for n := int64(1); n <= batches; n++ {
		e, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, n, e.GetBatch().GetSeq())
	}
	e, err := stream.Recv()
	require.NoError(t, err)
	require.EqualValues(t, batches, e.GetEof().GetSeq())
}
