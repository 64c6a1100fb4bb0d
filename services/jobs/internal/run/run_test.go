package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const (
	first  = "run_01jd000000000000000000000a"
	second = "run_01jd000000000000000000000b"
	third  = "run_01jd000000000000000000000c"
	fourth = "run_01jd000000000000000000000d"
)

// newPool creates four runs, oldest first: one of alice in prj_1, one of bob in prj_2, one of bob that all users may
// see, and one of alice that has not ended.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, _ := newPools(t)
	return pool
}

// newPools also returns the pool of the owner of the tables.
func newPools(t *testing.T) (pool, owner *pgxpool.Pool) {
	t.Helper()
	cluster := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations})
	pool = cluster.Pool("jobs")
	insert := func(n int, id, owner, project, visibility, state, reason string, ended *time.Time) {
		_, err := pool.Exec(t.Context(), `INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility,
				state, attempts, recipe_lock, bindings, recipe_digest, spec_digest, end_reason, created_at, ended_at)
			VALUES ($1, 'job_' || $1, 'n', $2, $2 || '-name', $3, $3 || '-name', $4, $5, 2, '{"a":1}', '{"b":2}', 'sha256:r', 'sha256:s', $6, $7, $8)`,
			id, owner, project, visibility, state, reason, fixtures.Now().Add(time.Duration(n)*time.Minute), ended)
		require.NoError(t, err)
	}
	end := fixtures.Now().Add(time.Hour)
	insert(1, first, "usr_a", "prj_1", "project", "succeeded", "completed", &end)
	insert(2, second, "usr_b", "prj_2", "project", "failed", "user_error", &end)
	insert(3, third, "usr_b", "prj_2", "all", "stopped", "user_stop", &end)
	insert(4, fourth, "usr_a", "prj_1", "project", "running", "", nil)
	return pool, cluster.OwnerPool("jobs")
}

func TestRunListVisibility(t *testing.T) {
	t.Parallel()
	pool, store := newPool(t), run.Store{}
	for name, c := range map[string]struct {
		scope authn.Scope
		live  bool
		page  request.Page
		want  []string
	}{
		"admin, finished runs":    {authn.Scope{Admin: true, Projects: []string{}}, false, request.Page{Limit: 9}, []string{third, second, first}},
		"admin, all runs":         {authn.Scope{Admin: true, Projects: []string{}}, true, request.Page{Limit: 9}, []string{fourth, third, second, first}},
		"owner":                   {authn.Scope{UserID: "usr_a", Projects: []string{}}, true, request.Page{Limit: 9}, []string{fourth, third, first}},
		"member":                  {authn.Scope{UserID: "usr_c", Projects: []string{"prj_2"}}, true, request.Page{Limit: 9}, []string{third, second}},
		"no role":                 {authn.Scope{UserID: "usr_c", Projects: []string{}}, true, request.Page{Limit: 9}, []string{third}},
		"anonymous":               {authn.Scope{Projects: []string{}}, true, request.Page{Limit: 9}, []string{}},
		"one more than the limit": {authn.Scope{Admin: true, Projects: []string{}}, true, request.Page{Limit: 1, Offset: 1}, []string{third, second}},
	} {
		state := "finished"
		if c.live {
			state = ""
		}
		got, err := store.List(t.Context(), pool, c.scope, run.Filter{State: state}, c.page)
		require.NoError(t, err)
		ids := []string{}
		for _, r := range got {
			ids = append(ids, r.ID)
		}
		require.Equal(t, c.want, ids, name)
		for _, id := range []string{first, second, third, fourth} {
			_, err := store.Get(t.Context(), pool, c.scope, id)
			_, byJob := store.Get(t.Context(), pool, c.scope, "job_"+id)
			require.Equal(t, err == nil, byJob == nil, "%s: Get must return the same result by the id of the job as by the id of the run %s", name, id)
			require.True(t, err == nil || fault.Is(err, fault.Absent), "%v", err)
			if c.live && c.page.Limit == 9 {
				require.Equal(t, err == nil, contains(c.want, id), "%s: Get must agree with List about %s", name, id)
			}
		}
	}
}

func contains(ids []string, id string) bool {
	return slices.Contains(ids, id)
}

func TestServerListAndGetRuns(t *testing.T) {
	t.Parallel()
	s := &run.Server{Pool: newPool(t)}
	all, limit := "all", int32(9)
	list, err := s.ListRuns(alice(t.Context()), &jobsv1.ListRunsRequest{State: &all, Limit: &limit})
	require.NoError(t, err)
	require.Len(t, list.GetRuns(), 3)
	live, ended := list.GetRuns()[0], list.GetRuns()[2]
	require.Equal(t, jobsv1.JobState_JOB_STATE_RUNNING, live.GetState())
	require.Nil(t, live.EndReason, "a run that has not ended must have no end reason")
	require.Nil(t, live.GetEndedAt())
	require.Equal(t, "completed", ended.GetEndReason())
	require.Equal(t, fixtures.Now().Add(time.Hour), ended.GetEndedAt().AsTime())
	require.Equal(t, "job_"+first, ended.GetJobId())
	require.Equal(t, []string{"usr_a-name", "prj_1-name"}, []string{ended.GetOwner(), ended.GetProject()})
	require.JSONEq(t, `{"a":1}`, string(ended.GetRecipeLock()))
	require.JSONEq(t, `{"b":2}`, string(ended.GetBindings()))

	got, err := s.GetRun(alice(t.Context()), &jobsv1.GetRunRequest{RunId: first})
	require.NoError(t, err)
	require.EqualValues(t, 2, got.GetAttempts())
	for id, kind := range map[string]fault.Kind{second: fault.Absent, "run_x": fault.Invalid, "job_" + first: fault.Invalid} {
		_, err := s.GetRun(alice(t.Context()), &jobsv1.GetRunRequest{RunId: id})
		require.True(t, fault.Is(err, kind), "%s: %v", id, err)
	}
	none := int32(0)
	_, err = s.ListRuns(alice(t.Context()), &jobsv1.ListRunsRequest{Limit: &none})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// reporter records the last message.
type reporter struct {
	reporting.Reporter
	message string
}

func (r *reporter) Report(_ context.Context, _ string, attempt int, _, message string) (bool, error) {
	r.message = message
	if attempt != 1 {
		return false, fault.New(fault.Conflict, "stale_attempt", "no")
	}
	return true, nil
}

func TestPeerServerOwnerAndLifecycle(t *testing.T) {
	t.Parallel()
	r := &reporter{}
	pool := newPool(t)
	s := &reporting.PeerServer{Pool: pool, Reporter: r}
	_, err := pool.Exec(t.Context(), `UPDATE run SET visibility_version = 6`)
	require.NoError(t, err)
	for _, id := range []string{second, "job_" + second} {
		got, err := s.GetRunOwner(t.Context(), &jobspeerv1.GetRunOwnerRequest{Id: id})
		require.NoError(t, err)
		require.Equal(t, []string{second, "job_" + second, "usr_b", "prj_2", "prj_2-name", "project"},
			[]string{got.GetRunId(), got.GetJobId(), got.GetOwnerId(), got.GetProjectId(), got.GetProject(), got.GetVisibility()})
		require.EqualValues(t, 6, got.GetVisibilityVersion())
	}
	_, err = s.GetRunOwner(t.Context(), &jobspeerv1.GetRunOwnerRequest{Id: "run_none"})
	require.True(t, fault.Is(err, fault.Absent))
	readable := &jobspeerv1.GetRunOwnerRequest{Id: second, Readable: true}
	_, err = s.GetRunOwner(t.Context(), readable)
	require.True(t, fault.Is(err, fault.Absent), "a call without a user must be refused")
	for subject, ok := range map[string]bool{"usr_b": true, "usr_none": false} {
		ctx := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: subject, Role: authn.RoleOperator})
		_, err = s.GetRunOwner(ctx, readable)
		require.Equal(t, ok, err == nil, "%s: %v", subject, err)
		require.Equal(t, !ok, fault.Is(err, fault.Absent), "%s: %v", subject, err)
	}

	long := make([]byte, 10_000)
	for i := range long {
		long[i] = 'x'
	}
	resp, err := s.ReportLifecycle(t.Context(), &jobspeerv1.ReportLifecycleRequest{RunId: first, Attempt: 1, Message: string(long)})
	require.NoError(t, err)
	require.True(t, resp.GetApplied())
	require.LessOrEqual(t, len(r.message), 4096, "the failure message must be cut to 4096 bytes")
	require.NotEmpty(t, r.message)
	_, err = s.ReportLifecycle(t.Context(), &jobspeerv1.ReportLifecycleRequest{RunId: first, Attempt: 2})
	require.True(t, fault.HasCode(err, "stale_attempt"))
}

// ingest records the close requests.
type ingest struct {
	ingestpeerv1.RunDataPeerServiceClient
	requests []*ingestpeerv1.CloseRunRequest
	err      error
}

func (i *ingest) CloseRun(
	_ context.Context, req *ingestpeerv1.CloseRunRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.CloseRunResponse, error) {
	i.requests = append(i.requests, req)
	return &ingestpeerv1.CloseRunResponse{}, i.err
}

func TestCloser_Work(t *testing.T) {
	t.Parallel()
	in, clk := &ingest{}, clock.NewFake(fixtures.Now())
	c := &run.Closer{Pool: newPool(t), Ingest: in, Clock: clk}
	closing := func(runID string) error {
		return c.Work(t.Context(), &river.Job[run.CloseArgs]{JobRow: &rivertype.JobRow{}, Args: run.CloseArgs{RunID: runID}})
	}
	require.NoError(t, closing(second))
	require.Len(t, in.requests, 1)
	require.Equal(t, []string{second, "failed"}, []string{in.requests[0].GetRunId(), in.requests[0].GetState()})
	require.Equal(t, fixtures.Now().Add(time.Hour), in.requests[0].GetEndedAt().AsTime())
	in.err = errors.New("unavailable")
	require.ErrorIs(t, closing(second), in.err)
	require.NoError(t, closing("run_none"), "the streams of a deleted run need no end")
	ending := &river.Job[run.CloseArgs]{JobRow: &rivertype.JobRow{}, Args: run.CloseArgs{RunID: fourth, Attempt: 3}}
	require.ErrorIs(t, c.Work(t.Context(), ending), in.err)
	in.err = fault.Absentf("run", fourth)
	require.NoError(t, c.Work(t.Context(), ending))
	require.EqualValues(t, 3, in.requests[len(in.requests)-1].GetAttempt())
	require.Empty(t, in.requests[len(in.requests)-1].GetState(), "the run has not ended")
	for attempt, pause := range map[int]time.Duration{1: 2, 2: 4, 3: 8, 4: 15, 5: 15, 19_999: 15} {
		next := c.NextRetry(&river.Job[run.CloseArgs]{JobRow: &rivertype.JobRow{Attempt: attempt}})
		require.Equal(t, fixtures.Now().Add(pause*time.Second), next, "wrong time of the next try after try %d", attempt)
	}
}

// ends are the decided ends of runs. It records what is committed, after the requests that were sent before.
type ends struct {
	decided   map[string]*job.Closing
	committed []string
	in        *ingest
}

func (e *ends) Decided(_ context.Context, runID string) (*job.Closing, error) {
	return e.decided[runID], nil
}

func (e *ends) Commit(_ context.Context, runID string, closed bool) error {
	e.committed = append(e.committed, fmt.Sprintf("%s closed=%v after %d requests", runID, closed, len(e.in.requests)))
	delete(e.decided, runID)
	return nil
}

// A run ends after its streams are closed. If they cannot be closed in time, it ends without that, and the closing is
// tried again.
func TestCloser_Close_thenEnds(t *testing.T) {
	t.Parallel()
	in, clk := &ingest{}, clock.NewFake(fixtures.Now())
	others, decided := &ends{in: in}, &ends{in: in, decided: map[string]*job.Closing{}}
	projected := 0
	c := &run.Closer{
		Pool: newPool(t), Ingest: in, Clock: clk, Ends: []run.Ends{others, decided},
		Project: func(context.Context, string) error { projected++; return errors.New("busy") },
	}
	decide := func() {
		decided.decided[fourth] = &job.Closing{Outcome: job.Outcome{State: job.Succeeded}, At: fixtures.Now(), Until: fixtures.Now().Add(time.Minute)}
	}
	require.NoError(t, c.Close(t.Context(), fourth), "the run has not ended, so there is nothing to close")
	require.Empty(t, in.requests)
	decide()
	require.NoError(t, c.Close(t.Context(), fourth))
	require.Equal(t, "succeeded", in.requests[0].GetState())
	require.Equal(t, fixtures.Now(), in.requests[0].GetEndedAt().AsTime())
	require.Equal(t, []string{fourth + " closed=true after 1 requests"}, decided.committed)
	require.Equal(t, 1, projected)

	decide()
	in.err = errors.New("unavailable")
	require.ErrorIs(t, c.Close(t.Context(), fourth), in.err)
	require.Len(t, decided.committed, 1, "there is time left")
	clk.Advance(time.Minute)
	require.ErrorIs(t, c.Close(t.Context(), fourth), in.err, "the streams must still be closed later")
	require.Equal(t, fourth+" closed=false after 3 requests", decided.committed[1])
	require.Empty(t, others.committed)
	require.Equal(t, 1, projected)
}
