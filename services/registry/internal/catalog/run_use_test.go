package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

func TestServer_FindRunUses(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, sql := range []string{
		`INSERT INTO model (id, name, owner_id, owner_name, project_id, project, visibility, description, task, created_at)
			SELECT i, i, 'u', 'o', i, 'p', v, '', 'chat', now() FROM (VALUES ('seen', 'all'), ('hidden', 'team')) v (i, v)`,
		`INSERT INTO model_version (id, model_id, version, status, lifecycle, run_id, artifact_id, format, digest, size_bytes, uri, file, packed, facts,
			created_at) SELECT m.id || n, m.id, n, 'ready', 'candidate', 'run' || n, '', 'gguf', m.id || n, 0, '', '', false, '{}', now() FROM model m, generate_series(1, 2) n`,
		`INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, created_at, deleted_at)
			SELECT i, i, 'u', 'o', 'p', 'p', 'all', 'serving', now(), d FROM (VALUES ('live', NULL), ('gone', now())) v (i, d)`,
		`INSERT INTO revision (id, deployment_id, number, state, model_id, model_version, serving, serving_digest, plan, work_id, desired, created_at)
			SELECT id || n, id, n, 'stopped', 'seen', 1, '{}', '', '{}', id || n, 'gone', now() FROM deployment, generate_series(1, 2) n`,
	} {
		_, err := d.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	ctx := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator})
	find := func(runID string) (names []string, hidden int32) {
		out, err := d.FindRunUses(ctx, &registrypeerv1.FindRunUsesRequest{RunId: runID})
		require.NoError(t, err)
		for _, u := range out.GetUses() {
			names = append(names, u.GetKind()+" "+u.GetName())
		}
		return names, out.GetHidden()
	}
	names, hidden := find("run1")
	require.Equal(t, []string{"model_version mdl/p/seen@1", "deployment live"}, names)
	require.EqualValues(t, 1, hidden)
	names, hidden = find("run2")
	require.Equal(t, []string{"model_version mdl/p/seen@2"}, names)
	require.EqualValues(t, 1, hidden)
	names, hidden = find("none")
	require.Empty(t, names)
	require.Zero(t, hidden)
}

func TestServer_FindArtifactsInUse(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, sql := range []string{
		`INSERT INTO model (id, name, owner_id, owner_name, project_id, project, visibility, description, task, created_at, deleted_at)
			SELECT i, i, 'u', 'o', i, 'p', 'team', '', 'chat', now(), d FROM (VALUES ('live', NULL), ('deleted', now())) v (i, d)`,
		`INSERT INTO model_version (id, model_id, version, status, lifecycle, run_id, artifact_id, format, digest, size_bytes, uri, file, packed, facts,
			created_at) SELECT id || n, id, n, 'ready', 'archived', 'run_1', 'art_' || id || n, 'gguf', id || n, 0, '', '', false, '{}', now() FROM model, generate_series(1, 2) n`,
	} {
		_, err := d.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	find := func(run string, artifacts ...string) []string {
		out, err := d.FindArtifactsInUse(t.Context(), &registrypeerv1.FindArtifactsInUseRequest{RunIds: []string{run}, ArtifactIds: artifacts})
		require.NoError(t, err)
		return out.GetArtifactIds()
	}
	require.ElementsMatch(t, []string{"art_live1", "art_deleted2"}, find("run_1", "art_live1", "art_deleted2", "art_free"),
		"archived versions and those of deleted models count while they have a row")
	require.Empty(t, find("run_1", "art_free"))
	require.Empty(t, find("run_2", "art_live1"), "the artifact belongs to another run")
}
