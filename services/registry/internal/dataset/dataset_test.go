package dataset_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func file(path string, size int64) dataset.File {
	return dataset.File{Path: path, Size: size, SHA256: strings.Repeat("0", 64)}
}

func TestDataset_Readable(t *testing.T) {
	t.Parallel()
	d := &dataset.Dataset{Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Visibility: "all"}}
	stranger := &authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Role: authn.RoleOperator}
	owner := &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator}
	require.True(t, d.Readable(stranger))
	d.Protected = true
	require.False(t, d.Readable(stranger))
	require.True(t, d.Readable(owner))
}

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	return pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
}

func inTx(t *testing.T, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) error {
	t.Helper()
	return pg.InTx(t.Context(), pool, func(_ context.Context, tx pgx.Tx) error { return fn(tx) })
}

func sums(id, project, visibility string) *dataset.Dataset {
	return &dataset.Dataset{
		Owner: access.Owner{UserID: "usr_1", UserName: "ann", ProjectID: "prj_" + project, Project: project, Visibility: visibility},
		ID:    id, Name: "sums", Format: "jsonl", CreatedAt: fixtures.Now(),
	}
}

func TestStore_visibility(t *testing.T) {
	t.Parallel()
	pool, s := open(t), dataset.Store{}
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error { return s.Insert(t.Context(), tx, sums("ds_1", "team", "team")) }))
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error { return s.Insert(t.Context(), tx, sums("ds_2", "shown", "all")) }))
	err := inTx(t, pool, func(tx pgx.Tx) error { return s.Insert(t.Context(), tx, sums("ds_3", "team", "all")) })
	require.True(t, fault.HasCode(err, "dataset_exists"), "%v", err)
	cases := map[string]struct {
		scope authn.Scope
		want  []string
	}{
		"admin":    {access.ServiceScope(), []string{"ds_2", "ds_1"}},
		"owner":    {authn.Scope{UserID: "usr_1", Projects: []string{}}, []string{"ds_2", "ds_1"}},
		"member":   {authn.Scope{UserID: "usr_2", Projects: []string{"prj_team"}}, []string{"ds_2", "ds_1"}},
		"stranger": {authn.Scope{UserID: "usr_2", Projects: []string{"prj_x"}}, []string{"ds_2"}},
	}
	for name, c := range cases {
		found, err := s.List(t.Context(), pool, c.scope, access.Filter{}, request.Page{Limit: 50})
		require.NoError(t, err)
		var ids []string
		for _, d := range found {
			ids = append(ids, d.ID)
		}
		require.Equal(t, c.want, ids, name)
		_, err = s.Get(t.Context(), pool, c.scope, "ds_1")
		require.Equal(t, len(c.want) == 2, err == nil, name)
		require.True(t, err == nil || fault.Is(err, fault.Absent), name)
	}
	for f, want := range map[access.Filter]int{
		{Name: "sums"}: 2, {Name: "sum"}: 0, {Name: "other"}: 0, {Text: "UM"}: 2, {Text: "%"}: 0, {Project: "team"}: 1, {Project: "prj_shown"}: 1,
		{Project: "absent"}: 0, {Name: "sums", Project: "team", Text: "s"}: 1,
	} {
		found, err := s.List(t.Context(), pool, access.ServiceScope(), f, request.Page{Limit: 50})
		require.NoError(t, err)
		require.Len(t, found, want, "%+v", f)
	}
	hidden, err := s.List(t.Context(), pool, authn.Scope{UserID: "usr_2", Projects: []string{"prj_x"}}, access.Filter{Project: "team"}, request.Page{Limit: 50})
	require.NoError(t, err)
	require.Empty(t, hidden, "a filter shows no row that the caller may not see")
}

func TestStore_Resolve_requiresReadyVersion(t *testing.T) {
	t.Parallel()
	pool, s := open(t), dataset.Store{}
	d := sums("ds_1", "team", "team")
	v := &dataset.Version{
		ID: "dsv_1", DatasetID: d.ID, Version: "1.0", State: dataset.StateUploading, Digest: "sha256:x", Bytes: 3, Count: 1,
		Manifest: []dataset.File{file("a", 3)}, CreatorID: "usr_1", CreatedAt: fixtures.Now(),
	}
	resolve := func(scope authn.Scope, version string) *dataset.Version {
		_, found, err := s.Resolve(t.Context(), pool, scope, ref.Ref{Kind: ref.Dataset, Project: "team", Name: "sums", Version: version})
		require.NoError(t, err)
		return found
	}
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error {
		if err := s.Insert(t.Context(), tx, d); err != nil {
			return err
		}
		for _, want := range []bool{true, false} {
			how, err := s.InsertVersion(t.Context(), tx, v)
			fresh := how == dataset.ClaimedNew
			require.NoError(t, err)
			require.Equal(t, want, fresh, "the name can be taken once")
		}
		return nil
	}))
	require.Nil(t, resolve(access.ServiceScope(), "1.0"))
	require.Nil(t, resolve(access.ServiceScope(), "latest"))
	when := fixtures.Now().Add(time.Minute)
	v.CommittedAt = &when
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error {
		for _, want := range []bool{true, false} {
			done, err := s.Commit(t.Context(), tx, v)
			require.NoError(t, err)
			require.Equal(t, want, done, "the version can be committed once")
		}
		return nil
	}))
	v.State, v.SchemaSource = dataset.StateReady, dataset.SchemaNone
	for _, version := range []string{"1.0", "latest"} {
		got := resolve(access.ServiceScope(), version)
		require.Nil(t, got.Manifest, "a resolved version has no manifest")
		got.Manifest = v.Manifest
		require.Empty(t, cmp.Diff(v, got))
		require.Nil(t, resolve(authn.Scope{UserID: "usr_2", Projects: []string{}}, version), "a hidden version looks absent")
	}
	require.Nil(t, resolve(access.ServiceScope(), "2.0"))
	_, err := s.Version(t.Context(), pool, d.ID, "2.0")
	require.True(t, fault.Is(err, fault.Absent))
	list, err := s.Versions(t.Context(), pool, d.ID, request.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Nil(t, list[0].Manifest, "lists contain no manifests")
}
