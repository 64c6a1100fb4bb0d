package run_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// The tests of UpdateRun use runs without jobs: runs of deleted jobs can be changed too.

func TestServer_UpdateRun_changesOnlyNamedFields(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	before, err := h.server.GetRun(alice(t.Context()), &jobsv1.GetRunRequest{RunId: first})
	require.NoError(t, err)
	require.Equal(t, "", before.GetNotes())
	require.EqualValues(t, 1, before.GetVersion())

	ctx := edits(alice(t.Context()))
	got, err := h.server.UpdateRun(matching(ctx, `"1"`), &jobsv1.UpdateRunRequest{
		RunId: first, Name: new("baseline"), Tags: []byte(`["Good","lr  Sweep","good"]`), Notes: new("# It works"), Archived: new(true),
	})
	require.NoError(t, err)
	require.Equal(t, []string{`"2"`}, etag(ctx))
	require.Equal(t, "baseline", got.GetName())
	require.Equal(t, []string{"good", "lr sweep"}, got.GetTags())
	require.Equal(t, "# It works", got.GetNotes())
	require.EqualValues(t, 1, got.GetNotesVersion())
	require.True(t, got.GetArchived())
	require.EqualValues(t, 2, got.GetVersion())
	require.Equal(t, 1, h.count(`SELECT count(*) FROM run WHERE id = $1 AND archived_at = $2`, first, fixtures.Now()))

	h.clock.Advance(time.Hour)
	got = h.update(&jobsv1.UpdateRunRequest{RunId: first, Tags: []byte(`[]`)})
	require.Empty(t, got.GetTags())
	require.Equal(t, "# It works", got.GetNotes())
	require.True(t, got.GetArchived())
	require.Equal(t, 1, h.count(`SELECT count(*) FROM run WHERE id = $1 AND archived_at = $2`, first, fixtures.Now()), "the time of archiving must stay")
	got = h.update(&jobsv1.UpdateRunRequest{RunId: first, Archived: new(false), Notes: new("")})
	require.False(t, got.GetArchived())
	require.Equal(t, "", got.GetNotes())
	require.EqualValues(t, 2, got.GetNotesVersion())
	again, err := h.server.GetRun(alice(t.Context()), &jobsv1.GetRunRequest{RunId: first})
	require.NoError(t, err)
	require.Equal(t, got.String(), again.String())
}

// The event and the audit row name what has changed, but do not contain the notes.
func TestServer_UpdateRun_leavesEventAndAuditRow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.update(&jobsv1.UpdateRunRequest{RunId: first, Tags: []byte(`["x"]`), Notes: new("secret thought")})
	var data, after string
	require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT data::text FROM event WHERE subject_kind = 'run' AND subject_id = $1 AND type = 'run.updated'
		AND actor_id = 'usr_a'`, first).Scan(&data))
	require.JSONEq(t, `{"tags": ["x"], "notes_version": 1}`, data)
	require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT to_jsonb(a)::text FROM audit a`).Scan(&after))
	require.Contains(t, after, "run.update")
	require.Contains(t, after, first)
	require.NotContains(t, after, "secret thought")

	same := h.update(&jobsv1.UpdateRunRequest{RunId: first, Name: new("n"), Tags: []byte(`["X"]`), Notes: new("secret thought"), Archived: new(false)})
	require.EqualValues(t, 2, same.GetVersion())
	require.Equal(t, 1, h.count(`SELECT count(*) FROM event`), "a request that changes nothing must leave no event")
	require.Equal(t, 1, h.count(`SELECT count(*) FROM run_note`))
}

func TestServer_UpdateRun_refusals(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	owner := alice(t.Context())
	many := `["` + strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz0123456", ""), `","`) + `"]`
	for name, c := range map[string]struct {
		ctx  context.Context
		req  *jobsv1.UpdateRunRequest
		kind fault.Kind
	}{
		"no right":        {user(t.Context(), "usr_c", "prj_1", authn.ProjectViewer), &jobsv1.UpdateRunRequest{RunId: first}, fault.Forbidden},
		"hidden run":      {user(t.Context(), "usr_c"), &jobsv1.UpdateRunRequest{RunId: first}, fault.Absent},
		"seen by all":     {user(t.Context(), "usr_c"), &jobsv1.UpdateRunRequest{RunId: third}, fault.Forbidden},
		"no such run":     {owner, &jobsv1.UpdateRunRequest{RunId: "run_01jd000000000000000000000z"}, fault.Absent},
		"malformed ID":    {owner, &jobsv1.UpdateRunRequest{RunId: "run_x"}, fault.Invalid},
		"old version":     {matching(owner, `"7"`), &jobsv1.UpdateRunRequest{RunId: first, Name: new("late")}, fault.Conflict},
		"tags no list":    {owner, &jobsv1.UpdateRunRequest{RunId: first, Tags: []byte(`{"a":1}`)}, fault.Invalid},
		"tags null":       {owner, &jobsv1.UpdateRunRequest{RunId: first, Tags: []byte(`null`)}, fault.Invalid},
		"number as a tag": {owner, &jobsv1.UpdateRunRequest{RunId: first, Tags: []byte(`[1]`)}, fault.Invalid},
		"bad tag":         {owner, &jobsv1.UpdateRunRequest{RunId: first, Tags: []byte(`["a,b"]`)}, fault.Invalid},
		"33 tags":         {owner, &jobsv1.UpdateRunRequest{RunId: first, Tags: []byte(many)}, fault.Invalid},
	} {
		_, err := h.server.UpdateRun(edits(c.ctx), c.req)
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
	}
	require.Zero(t, h.count(`SELECT count(*) FROM run WHERE version <> 1 OR name <> 'n'`))
	_, err := h.server.UpdateRun(edits(user(t.Context(), "usr_c", "prj_1", authn.ProjectEditor)), &jobsv1.UpdateRunRequest{RunId: first, Name: new("mine")})
	require.NoError(t, err, "editors of the project may change its runs")
}

func TestStore_SaveFacts_rejectsOlderVersion(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	err := pg.InTx(t.Context(), h.pool, func(ctx context.Context, tx pgx.Tx) error {
		r, err := run.Store{}.Lock(ctx, tx, access.ServiceScope(), first)
		require.NoError(t, err)
		r.Name, r.Version = "late", r.Version-1
		return run.Store{}.SaveFacts(ctx, tx, r, fixtures.Now())
	})
	require.True(t, fault.HasCode(err, request.CodeStale), "%v", err)
	require.Zero(t, h.count(`SELECT count(*) FROM run WHERE name = 'late'`))
}

// A change that waits for another one must see the notes that the other one has written.
func TestStore_Lock_readsNotesOfConcurrentChange(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tx, err := h.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `UPDATE run SET notes_version = 1, version = 2 WHERE id = $1`, first)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `INSERT INTO run_note (run_id, version, text, author_id, author, created_at) VALUES ($1, 1, 'theirs', '', '', now())`, first)
	require.NoError(t, err)
	done := make(chan *jobsv1.Run, 1)
	go func() {
		out, err := h.server.UpdateRun(edits(alice(t.Context())), &jobsv1.UpdateRunRequest{RunId: first, Name: new("renamed"), Notes: new("theirs")})
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	require.Eventually(t, func() bool {
		return h.count(`SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()`) > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	out := <-done
	require.Equal(t, "theirs", out.GetNotes())
	require.EqualValues(t, 1, out.GetNotesVersion(), "the same notes must not become a new version")
	require.EqualValues(t, 3, out.GetVersion())
}

func TestServer_ListRunNotes_keepsNewestVersions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for i := range 53 {
		h.update(&jobsv1.UpdateRunRequest{RunId: first, Notes: new(fmt.Sprint("text ", i+1))})
		h.clock.Advance(time.Second)
	}
	list, err := h.server.ListRunNotes(alice(t.Context()), &jobsv1.ListRunNotesRequest{RunId: first, Limit: new(int32(500))})
	require.NoError(t, err)
	require.Len(t, list.GetNotes(), 50, "older versions must be deleted")
	newest, oldest := list.GetNotes()[0], list.GetNotes()[49]
	require.EqualValues(t, 53, newest.GetVersion())
	require.EqualValues(t, 4, oldest.GetVersion())
	require.Equal(t, "usr_a-name", newest.GetAuthor())
	require.Equal(t, fixtures.Now().Add(52*time.Second), newest.GetCreatedAt().AsTime())
	require.Nil(t, newest.Text, "the list must not contain the texts")
	list, err = h.server.ListRunNotes(alice(t.Context()), &jobsv1.ListRunNotesRequest{RunId: first, Limit: new(int32(1)), Offset: new(int32(1))})
	require.NoError(t, err)
	require.EqualValues(t, 52, list.GetNotes()[0].GetVersion())

	one, err := h.server.GetRunNotes(alice(t.Context()), &jobsv1.GetRunNotesRequest{RunId: first, Version: 4})
	require.NoError(t, err)
	require.Equal(t, "text 4", one.GetText())
	for _, version := range []int32{3, 54} {
		_, err = h.server.GetRunNotes(alice(t.Context()), &jobsv1.GetRunNotesRequest{RunId: first, Version: version})
		require.True(t, fault.Is(err, fault.Absent), "%d: %v", version, err)
	}
	stranger := user(t.Context(), "usr_c")
	_, err = h.server.ListRunNotes(stranger, &jobsv1.ListRunNotesRequest{RunId: first})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = h.server.GetRunNotes(stranger, &jobsv1.GetRunNotesRequest{RunId: first, Version: 4})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestNormalTag(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"a": "a", " LR\t Sweep ": "lr sweep", "Übung": "übung", "基线": "基线", "v1.2/x:y-z_0": "v1.2/x:y-z_0", strings.Repeat("ä", 64): strings.Repeat("ä", 64),
		"": "", "  ": "", "a,b": "", "a\x00b": "", "a\u202eb": "", "\xff": "", strings.Repeat("ä", 65): "",
	} {
		got, ok := run.NormalTag(given)
		require.Equal(t, want != "", ok, "%q", given)
		if ok {
			require.Equal(t, want, got)
		}
	}
}
