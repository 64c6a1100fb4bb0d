package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const (
	runID = "run_01k00000000000000000000001"
	jobID = "job_01k00000000000000000000001"
)

func owner() *run.Owner {
	return &run.Owner{RunID: runID, JobID: jobID, OwnerID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"}
}

func open(t *testing.T) *run.Store {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	return &run.Store{Pool: base.Pool("ingest"), Clock: clock.NewFake(fixtures.Now())}
}

func TestStore_Find_byRunAndJobID(t *testing.T) {
	t.Parallel()
	s := open(t)
	got, err := s.Find(t.Context(), runID)
	require.NoError(t, err)
	require.Nil(t, got, "a missing row is not an error")
	require.NoError(t, s.Upsert(t.Context(), owner()))
	for _, name := range []string{runID, jobID} {
		got, err := s.Find(t.Context(), name)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(owner(), got))
	}
	moved := owner()
	moved.ProjectID, moved.Project, moved.Visibility = "prj_2", "other", "all"
	require.NoError(t, s.Upsert(t.Context(), moved))
	require.NoError(t, s.Upsert(t.Context(), moved))
	got, err = s.Find(t.Context(), jobID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(moved, got), "Upsert updates the owner")
}

func TestClose_onlyOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, err := s.Progress(t.Context(), runID)
	require.True(t, fault.Is(err, fault.Absent))
	require.NoError(t, s.Upsert(t.Context(), owner()))
	p, err := s.Progress(t.Context(), runID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(run.Progress{Owner: *owner()}, p))
	closeRun := func(state string, now time.Time) bool {
		var first bool
		require.NoError(t, pg.InTx(t.Context(), s.Pool.(pg.Beginner), func(ctx context.Context, tx pgx.Tx) error {
			var err error
			first, err = run.Close(ctx, tx, runID, state, nil, now)
			return err
		}))
		return first
	}
	require.True(t, closeRun("succeeded", fixtures.Now()))
	require.False(t, closeRun("failed", fixtures.Now().Add(time.Hour)))
	p, err = s.Progress(t.Context(), runID)
	require.NoError(t, err)
	require.Equal(t, "succeeded", p.State)
	require.True(t, fixtures.Now().Equal(*p.ClosedAt))
}

// memoryOwners implements Rows in memory.
type memoryOwners struct {
	kept          map[string]*run.Owner
	err           error
	found, stored int // the numbers of calls
}

func (r *memoryOwners) Find(_ context.Context, id string) (*run.Owner, error) {
	r.found++
	return r.kept[id], r.err
}

func (r *memoryOwners) Upsert(_ context.Context, o *run.Owner) error {
	r.stored++
	r.kept[o.RunID], r.kept[o.JobID] = o, o
	return nil
}

func TestRuns_Readable_access(t *testing.T) {
	t.Parallel()
	user := func(subject, role string, projects ...authn.ProjectRole) *authn.Caller {
		return &authn.Caller{Kind: authn.KindUser, Subject: subject, Role: role, Projects: projects}
	}
	cases := map[string]struct {
		caller     *authn.Caller
		visibility string
		reads      bool
	}{
		"owner":          {user("usr_1", authn.RoleOperator), "team", true},
		"stranger":       {user("usr_2", authn.RoleOperator), "team", false},
		"visible to all": {user("usr_2", authn.RoleOperator), "all", true},
		"member":         {user("usr_2", authn.RoleOperator, authn.ProjectRole{Project: "prj_1", Role: authn.ProjectViewer}), "team", true},
		"other member":   {user("usr_2", authn.RoleOperator, authn.ProjectRole{Project: "prj_2", Role: authn.ProjectOwner}), "team", false},
		"admin":          {user("usr_3", authn.RoleAdmin), "team", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := owner()
			o.Visibility = c.visibility
			calls := 0
			runs := &run.Runs{Rows: &memoryOwners{kept: map[string]*run.Owner{}}, FetchOwner: func(_ context.Context, id string, readable bool) (*run.Owner, error) {
				require.True(t, readable)
				calls++
				if !c.reads {
					return nil, fault.Absentf("run", id)
				}
				return o, nil
			}}
			ctx := authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), c.caller)
			for _, id := range []string{jobID, runID} {
				got, err := runs.Readable(ctx, id)
				if c.reads {
					require.NoError(t, err)
					require.Equal(t, runID, got)
					continue
				}
				require.True(t, fault.Is(err, fault.Absent), "a hidden run looks absent: %v", err)
			}
			if c.reads {
				require.Equal(t, 1, calls, "the jobs service is called only for the first request")
			}
		})
	}
}

// The time of a response must not show whether a run exists that the caller may not read.
func TestRuns_Readable_sameWorkForHiddenAndAbsent(t *testing.T) {
	t.Parallel()
	hidden := owner()
	hidden.Visibility = "team"
	rows := &memoryOwners{kept: map[string]*run.Owner{runID: hidden, jobID: hidden}}
	var asked []string
	runs := &run.Runs{Rows: rows, FetchOwner: func(_ context.Context, id string, readable bool) (*run.Owner, error) {
		require.True(t, readable, "the jobs service must check the caller, too")
		asked = append(asked, id)
		return nil, fault.Absentf("run", id)
	}}
	ctx := authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleOperator})
	const absentRun, absentJob = "run_01k00000000000000000000009", "job_01k00000000000000000000009"
	for _, id := range []string{runID, jobID, absentRun, absentJob} {
		_, err := runs.Readable(ctx, id)
		require.True(t, fault.Is(err, fault.Absent), "%s: %v", id, err)
	}
	require.Equal(t, []string{runID, jobID, absentRun, absentJob}, asked)
	require.Equal(t, 4, rows.found, "each lookup runs one query")
	require.Zero(t, rows.stored)
	// An outdated copy is replaced when the jobs service lets the caller read the run.
	shared := *hidden
	shared.Visibility = "all"
	runs.FetchOwner = func(context.Context, string, bool) (*run.Owner, error) { return &shared, nil }
	_, err := runs.Readable(ctx, runID)
	require.NoError(t, err)
	require.Equal(t, 1, rows.stored)
}

func TestRuns_Readable_errors(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	absent := func(context.Context, string, bool) (*run.Owner, error) { return nil, fault.Absentf("run", "x") }
	runs := &run.Runs{Rows: &memoryOwners{}, FetchOwner: absent}
	for _, id := range []string{"", "run_", "x", "art_01k00000000000000000000001", runID + "0", "run_01K00000000000000000000001", "job_1"} {
		_, err := runs.Readable(t.Context(), id)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", id, err)
	}
	_, err := runs.Readable(t.Context(), jobID)
	require.True(t, fault.Is(err, fault.Absent))
	require.Contains(t, fault.From(err).Text(), jobID)
	require.NotContains(t, fault.From(err).Text(), "run", "the error names the job, not its run")
	_, err = (&run.Runs{Rows: &memoryOwners{err: down}, FetchOwner: absent}).Readable(t.Context(), runID)
	require.ErrorIs(t, err, down)
}
