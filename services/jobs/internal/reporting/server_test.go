package reporting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

func TestServer_CreateRun(t *testing.T) {
	t.Parallel()
	h := newOutsideHarness(t)
	made := h.create(&jobsv1.CreateRunRequest{
		Name: "notebook", Project: new("search"), Tags: []string{"B", "a", "b"}, Labels: map[string]string{"k": "v"}, SilenceS: new(int32(90)),
	})
	r := made.GetRun()
	require.Equal(t, []string{"notebook", "search", "alice", "JOB_STATE_RUNNING"}, []string{r.GetName(), r.GetProject(), r.GetOwner(), r.GetState().String()})
	require.Equal(t, []string{"a", "b"}, r.GetTags())
	require.Equal(t, map[string]string{"k": "v"}, r.GetLabels())
	require.EqualValues(t, 90, r.GetSilenceS())
	require.Nil(t, r.JobId)
	require.Equal(t, "http://host/api/ingest", made.GetEndpoint())
	require.WithinDuration(t, time.Now().AddDate(0, 0, 30), made.GetTokenExpiresAt().AsTime(), time.Minute)

	grant, err := h.resolve(t.Context(), made)
	require.NoError(t, err)
	require.Equal(t, []string{r.GetId(), "", "usr_alice", "prj_search", "search"},
		[]string{grant.GetRunId(), grant.GetJobId(), grant.GetOwner().GetOwnerId(), grant.GetOwner().GetProjectId(), grant.GetOwner().GetProject()})
	require.EqualValues(t, 1, grant.GetAttempt())
	require.False(t, grant.GetContainer())
	_, err = h.resolve(pg.WithOffset(t.Context(), 31*24*time.Hour), made)
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	require.Equal(t, "1 1", h.text(`SELECT (SELECT count(*) FROM event WHERE type = 'run.created' AND subject_id = $1)
		|| ' ' || (SELECT count(*) FROM audit WHERE action = 'run.create' AND target_id = $1)`, r.GetId()))
	require.Equal(t, "0", h.text(`SELECT count(*)::text FROM event e, audit a WHERE position($1 in e::text || a::text) > 0`, made.GetToken()))
}

// A repeat must return the run, but not the token.
func TestServer_CreateRun_repeat(t *testing.T) {
	t.Parallel()
	h := newOutsideHarness(t)
	ctx := metadata.NewIncomingContext(h.as("alice", ""), metadata.Pairs("idempotency-key", "k"))
	req := &jobsv1.CreateRunRequest{Name: "n"}
	first, err := h.server.CreateRun(ctx, req)
	require.NoError(t, err)
	again, err := h.server.CreateRun(ctx, req)
	require.NoError(t, err)
	require.Equal(t, first.GetRun().String(), again.GetRun().String())
	require.NotEmpty(t, first.GetToken())
	require.Nil(t, again.Token)
	require.Equal(t, "1", h.text(`SELECT count(*)::text FROM run`))
}

func TestServer_CreateRun_refusals(t *testing.T) {
	t.Parallel()
	h := newOutsideHarness(t)
	h.exec(`INSERT INTO run (id, name, owner_id, owner_name, project_id, project, visibility, state, recipe_lock, bindings, recipe_digest, spec_digest,
			created_at, silence_s, heard_at, ended_at, end_reason)
		SELECT 'run_' || n, 'n', 'usr_full', 'full', 'prj_default', 'default', 'all', 'running', '{}', '{}', '', '', now(), 60, now(),
			CASE WHEN n > 1000 THEN now() END, CASE WHEN n > 1000 THEN 'completed' ELSE '' END FROM generate_series(1, 1100) n`)
	for name, c := range map[string]struct {
		user, role, project string
		tags                []string
		kind                fault.Kind
		code                string
	}{
		"unknown project":     {"alice", "", "none", nil, fault.Refused, "project"},
		"hidden project":      {"alice", "", "search", nil, fault.Refused, "project"},
		"viewer":              {"alice", authn.ProjectViewer, "search", nil, fault.Forbidden, "not_editor"},
		"project seen by all": {"alice", "", "open", nil, fault.Forbidden, "not_editor"},
		"bad tag":             {"alice", "", "default", []string{"a,b"}, fault.Invalid, ""},
		"too many unfinished": {"full", "", "default", nil, fault.Conflict, "run_limit"},
	} {
		_, err := h.server.CreateRun(h.as(c.user, c.role), &jobsv1.CreateRunRequest{Name: "n", Project: &c.project, Tags: c.tags})
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		require.True(t, c.code == "" || fault.HasCode(err, c.code), "%s: %v", name, err)
	}
	require.Equal(t, "0", h.text(`SELECT (SELECT count(*) FROM ingest_token) + (SELECT count(*) FROM event) + (SELECT count(*) FROM audit) || ''`))
	h.exec(`UPDATE run SET ended_at = now(), end_reason = 'completed' WHERE id = 'run_1'`)
	_, err := h.server.CreateRun(h.as("full", ""), &jobsv1.CreateRunRequest{Name: "n"})
	require.NoError(t, err)
}
