package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

func TestPromoteModelVersion_oneInProduction(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 3)
	v, err := s.promote(1, false)
	require.NoError(t, err)
	require.Equal(t, []string{"production", "usr_1"}, []string{v.GetLifecycle(), v.GetPromotedBy()})
	require.NotNil(t, v.GetPromotedAt())
	require.Equal(t, map[string]int32{"production": 1}, s.now().GetAliases())
	_, err = s.promote(1, false)
	require.NoError(t, err, "promoting the production version again changes nothing")
	_, err = s.promote(2, false)
	require.NoError(t, err)
	require.Equal(t, "candidate production candidate", s.lifecycles())
	_, err = s.promote(3, true)
	require.NoError(t, err)
	require.Equal(t, "candidate archived production", s.lifecycles())
	require.Equal(t, map[string]int32{"production": 3}, s.now().GetAliases())
	require.Equal(t, []string{"promoted 3 was 2", "archived 2", "promoted 2 was 1", "promoted 1"}, s.history(nil))
	_, err = s.promote(2, false)
	require.True(t, fault.HasCode(err, "version_archived") && fault.Is(err, fault.Conflict), "%v", err)
	_, err = s.pool.Exec(t.Context(), `UPDATE model_version SET lifecycle = 'production' WHERE version = 1`)
	require.ErrorContains(t, err, "model_version_production_key", "the database must also allow only one version in production")
	_, err = s.pool.Exec(t.Context(), `UPDATE model_version SET status = 'rejected', status_reason = 'malformed header' WHERE version = 1`)
	require.NoError(t, err)
	_, err = s.promote(1, false)
	require.True(t, fault.HasCode(err, "version_not_ready"), "%v", err)
	require.Contains(t, fault.From(err).Text(), "malformed header")
	_, err = s.promote(9, false)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestPromoteModelVersion_concurrent(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 4)
	errs := make(chan error, 16)
	for n := range 16 {
		go func() { _, err := s.promote(int32(1+n%4), false); errs <- err }()
	}
	for range 16 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 1, strings.Count(s.lifecycles(), "production"))
	last := s.history(nil)[0]
	require.Contains(t, last, "promoted "+fmt.Sprint(s.now().GetAliases()["production"]), "the newest history entry is the last promotion")
}

func TestArchiveModelVersion_inUseNamesUsers(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 2)
	s.deployment("dep_1", "chat")
	s.revision("dep_1", "rev_1", 1, "running")
	_, err := s.archive(1)
	require.True(t, fault.HasCode(err, "version_in_use") && fault.Is(err, fault.Conflict), "%v", err)
	require.Equal(t, "version 1 is in use by revision 5 of deployment chat (dep_1)", fault.From(err).Text())
	_, err = s.pool.Exec(t.Context(), `UPDATE revision SET desired = 'gone'; UPDATE deployment SET promoted_revision_id = 'rev_1'`)
	require.NoError(t, err)
	_, err = s.archive(1)
	require.ErrorContains(t, err, "dep_1", "a promoted revision counts as a user even if its engine is stopped")
	s.revision("pg_1", "rev_on_pg", 2, "running")
	_, err = s.archive(2)
	require.ErrorContains(t, err, "version 2 is in use by playground session pg_1")
	_, err = s.pool.Exec(t.Context(), `UPDATE revision SET desired = 'gone'; UPDATE deployment SET promoted_revision_id = NULL`)
	require.NoError(t, err)
	s.jobs["mdl/team/m@2"] = []string{"job_7", "job_8"}
	_, err = s.archive(2)
	require.ErrorContains(t, err, "version 2 is in use by job job_7, job job_8")
	v, err := s.archive(1)
	require.NoError(t, err)
	require.Equal(t, "archived", v.GetLifecycle())
	_, err = s.archive(1)
	require.NoError(t, err, "archiving again changes nothing")
	require.Equal(t, []string{"archived 1"}, s.history(nil))

	// Archiving as part of a promotion checks the users too.
	_, err = s.promote(2, false)
	require.NoError(t, err)
	s.artifact("c", FormatSafetensors, weights(9))
	_, err = s.register(ann(t), s.m, "c")
	require.NoError(t, err)
	_, err = s.promote(3, true)
	require.ErrorContains(t, err, "job_7")
	require.Equal(t, "archived production candidate", s.lifecycles(), "the failed promotion changes nothing")
}

func TestArchiveModelVersion_hidesFromResolve(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 2)
	resolve := func(word string) int32 {
		_, v, err := s.Server.Store.Resolve(t.Context(), s.pool, access.ServiceScope(), ref.Ref{Kind: ref.Model, Project: "team", Name: "m", Version: word})
		require.NoError(t, err)
		if v == nil {
			return 0
		}
		return v.Number
	}
	_, err := s.promote(1, false)
	require.NoError(t, err)
	_, err = s.alias("champion", 2)
	require.NoError(t, err)
	for word, want := range map[string]int32{"1": 1, "2": 2, "latest": 2, "production": 1, "champion": 2, "3": 0, "01": 0, "nobody": 0} {
		require.Equal(t, want, resolve(word), word)
	}
	_, err = s.archive(2)
	require.NoError(t, err)
	for word, want := range map[string]int32{"2": 0, "latest": 1, "champion": 0} {
		require.Equal(t, want, resolve(word), word)
	}
	require.Equal(t, int32(1), s.now().GetLatestVersion(), "an archived version is not the latest one")
	require.Equal(t, map[string]int32{"production": 1}, s.now().GetAliases(), "archiving deletes the aliases of the version")
	require.Equal(t, []string{"archived 2", "alias_deleted 2 was 2 champion", "alias_set 2 champion", "promoted 1"}, s.history(nil))
	v, err := s.UnarchiveModelVersion(ann(t), &registryv1.UnarchiveModelVersionRequest{ModelId: s.m.GetId(), Version: 2})
	require.NoError(t, err)
	require.Equal(t, "candidate", v.GetLifecycle())
	require.Equal(t, int32(2), resolve("latest"))
	require.Equal(t, int32(2), s.now().GetLatestVersion())
	_, err = s.archive(1)
	require.NoError(t, err, "the production version can be archived")
	require.Empty(t, s.now().GetAliases())
	require.Equal(t, "archived candidate", s.lifecycles())
}

func TestSetModelAlias(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 2)
	m, err := s.alias("champion", 1)
	require.NoError(t, err)
	require.Equal(t, map[string]int32{"champion": 1}, m.GetAliases())
	_, err = s.alias("champion", 1)
	require.NoError(t, err)
	_, err = s.alias("champion", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"alias_set 2 was 1 champion", "alias_set 1 champion"}, s.history(nil))
	for _, name := range []string{"production", "latest"} {
		_, err = s.alias(name, 1)
		require.True(t, fault.HasCode(err, "alias_reserved") && fault.Is(err, fault.Conflict), "%v", err)
		_, err = s.DeleteModelAlias(ann(t), &registryv1.DeleteModelAliasRequest{ModelId: s.m.GetId(), Alias: name})
		require.True(t, fault.HasCode(err, "alias_reserved"), "%v", err)
	}
	_, err = s.alias("x", 3)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = s.DeleteModelAlias(ann(t), &registryv1.DeleteModelAliasRequest{ModelId: s.m.GetId(), Alias: "champion"})
	require.NoError(t, err)
	_, err = s.DeleteModelAlias(ann(t), &registryv1.DeleteModelAliasRequest{ModelId: s.m.GetId(), Alias: "champion"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	for n := range maxAliases {
		_, err = s.alias("a"+strings.Repeat("b", n), 1)
		require.NoError(t, err)
	}
	_, err = s.alias("one-more", 1)
	require.True(t, fault.HasCode(err, "aliases"), "%v", err)
	_, err = s.alias("a", 2)
	require.NoError(t, err, "existing aliases can move at the limit")
}

func TestListModelHistory_atTime(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 2)
	clk := s.Server.Clock.(*clock.Fake)
	_, err := s.promote(1, false)
	require.NoError(t, err)
	then := clk.Now()
	clk.Advance(time.Hour)
	_, err = s.promote(2, false)
	require.NoError(t, err)
	require.Equal(t, []string{"promoted 1"}, s.history(&then))
	before := then.Add(-time.Second)
	require.Empty(t, s.history(&before))
	limit, offset := int32(1), int32(1)
	found, err := s.ListModelHistory(ann(t), &registryv1.ListModelHistoryRequest{ModelId: s.m.GetId(), Limit: &limit, Offset: &offset})
	require.NoError(t, err)
	require.Len(t, found.GetEntries(), 1)
	require.Equal(t, int32(1), found.GetEntries()[0].GetVersion())
	require.Equal(t, "it is better", found.GetEntries()[0].GetNote())
}

func TestDeleteModel_baseOfAdapters(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 1)
	other, err := s.CreateModel(ann(t), &registryv1.CreateModelRequest{Name: "other", Project: "team"})
	require.NoError(t, err)
	exec := func(sql string, args ...any) {
		_, err := s.pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec(`INSERT INTO model_version SELECT (jsonb_populate_record(v, jsonb_build_object('id', 'mv_adapter', 'model_id', $1::text, 'base', 'mdl/team/m@1'))).*
		FROM model_version v`, other.GetId())
	remove := func() error {
		_, err := s.DeleteModel(ann(t), &registryv1.DeleteModelRequest{ModelId: s.m.GetId()})
		return err
	}
	require.ErrorContains(t, remove(), "model m is in use by adapter mdl/team/other@1")
	exec(`UPDATE model SET project_id = 'prj_9' WHERE id = $1`, other.GetId())
	require.ErrorContains(t, remove(), "model m is in use by an adapter in another project")
	exec(`UPDATE model_version SET base = 'mdl/team/m-2@1' WHERE id = 'mv_adapter'`)
	require.NoError(t, remove())
}

func TestDeleteModel_keepsReferencedRows(t *testing.T) {
	t.Parallel()
	for name, referred := range map[string]bool{"unreferenced": false, "referenced by an old revision": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newModelHarness(t, 1)
			_, err := s.promote(1, false)
			require.NoError(t, err)
			_, err = s.PutModelCard(ann(t), &registryv1.PutModelCardRequest{ModelId: s.m.GetId(), Version: 1, Content: "x"})
			require.NoError(t, err)
			drop := func() error {
				_, err := s.DeleteModel(ann(t), &registryv1.DeleteModelRequest{ModelId: s.m.GetId()})
				return err
			}
			if referred {
				s.deployment("dep_1", "chat")
				s.revision("dep_1", "rev_1", 1, "running")
				require.ErrorContains(t, drop(), "model m is in use by revision 5 of deployment chat (dep_1)")
				_, err = s.pool.Exec(t.Context(), `UPDATE revision SET desired = 'gone'`)
				require.NoError(t, err)
			}
			s.jobs["mdl/team/m"] = []string{"job_7"}
			require.ErrorContains(t, drop(), "model m is in use by job job_7")
			clear(s.jobs)
			require.NoError(t, drop())
			require.True(t, fault.Is(drop(), fault.Absent))
			var rows int
			require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM model WHERE id = $1)
				+ (SELECT count(*) FROM model_version WHERE model_id = $1) + (SELECT count(*) FROM model_card WHERE model_id = $1)`,
				s.m.GetId()).Scan(&rows))
			require.Equal(t, map[bool]int{false: 0, true: 3}[referred], rows)
			found, err := s.ListModels(ann(t), &registryv1.ListModelsRequest{})
			require.NoError(t, err)
			for _, m := range found.GetModels() {
				require.NotEqual(t, s.m.GetId(), m.GetId())
			}
			require.NotEqual(t, s.m.GetId(), s.model("m").GetId(), "the name is free again")
		})
	}
}

func TestModelStore_Hold_blocksArchive(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 1)
	tx, err := s.pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Server.Store.Hold(t.Context(), tx, s.m.GetId(), 1))
	s.deployment("dep_1", "chat")
	_, err = tx.Exec(t.Context(), `INSERT INTO revision (id, deployment_id, number, state, model_id, model_version, serving, serving_digest,
		plan, work_id, desired, created_at) VALUES ('rev_1', 'dep_1', 1, 'pending', $1, 1, '{}', '', '{}', 'w', 'running', now())`, s.m.GetId())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { _, err := s.archive(1); done <- err }()
	require.Eventually(t, func() bool {
		var waiting int
		err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorContains(t, <-done, "dep_1", "the archive waits for the new revision and then sees it")
	for number, code := range map[int32]string{2: "version_gone"} {
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return s.Server.Store.Hold(t.Context(), tx, s.m.GetId(), number) })
		require.True(t, fault.HasCode(err, code), "%v", err)
	}
}
