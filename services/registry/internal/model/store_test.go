package model

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestFileName(t *testing.T) {
	t.Parallel()
	cases := map[string]Artifact{
		"tiny.gguf":         {Path: "out/tiny.gguf", Format: FormatGGUF},
		"model.gguf":        {Path: "out/tiny.bin", Format: FormatGGUF},
		"model.safetensors": {Path: "weights.gguf", Format: FormatSafetensors},
		"model.tar":         {Path: "out/hf", Format: FormatSafetensors, Packed: true},
		"x.safetensors":     {Path: "obj://bucket/x.safetensors", Format: FormatSafetensors},
		"重み 1.safetensors":  {Path: "blob://runs/__1.safetensors", Name: "モデル/重み 1.safetensors", Format: FormatSafetensors},
	}
	for want, a := range cases {
		require.Equal(t, want, fileName(&a))
	}
	for _, path := range []string{"", ".", "..", "/", "a b/c d.ggufx", "a\x00.gguf", ".gguf", "a\\b.gguf", "a\u0085.gguf", "a\xff.gguf", strings.Repeat("a", 251) + ".gguf"} {
		require.Equal(t, "model.gguf", fileName(&Artifact{Path: path, Format: FormatGGUF}), "%q", path)
	}
}

// harness is a database with one model.
type harness struct {
	Store

	t    *testing.T
	pool *pgxpool.Pool
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	b := &harness{t: t, pool: pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")}
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Insert(ctx, tx, sums()) }))
	return b
}

func (b *harness) tx(fn func(ctx context.Context, tx pgx.Tx) error) error {
	return pg.InTx(b.t.Context(), b.pool, fn)
}

func sums() *Model {
	return &Model{
		Owner: access.Owner{UserID: "usr_1", UserName: "ann", ProjectID: "prj_1", Project: "team", Visibility: "team"},
		ID:    "mdl_1", Name: "sums", Task: DefaultTask, CreatedAt: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
	}
}

// add registers a version whose digest is derived from sum.
func (b *harness) add(id, sum string, status Status) (kept *Version, fresh bool) {
	b.t.Helper()
	v := &Version{
		ID: id, ModelID: "mdl_1", Status: status, Lifecycle: lifecycleCandidate, RunID: "run_1", ArtifactID: "art_1", Format: FormatGGUF,
		Digest: "sha256:" + strings.Repeat(sum, 64), Size: 1, URI: "u", File: "m.gguf", Facts: json.RawMessage(`{"tensors": 1}`), CreatedAt: sums().CreatedAt,
	}
	require.NoError(b.t, b.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
		kept, fresh, err = b.InsertVersion(ctx, tx, v)
		return err
	}))
	return kept, fresh
}

func (b *harness) resolve(scope authn.Scope, version string) *Version {
	b.t.Helper()
	_, v, err := b.Resolve(b.t.Context(), b.pool, scope, ref.Ref{Kind: ref.Model, Project: "team", Name: "sums", Version: version})
	require.NoError(b.t, err)
	return v
}

func TestModelStore_InsertVersion_sameDigest(t *testing.T) {
	t.Parallel()
	b := open(t)
	first, fresh := b.add("mv_1", "a", StatusReady)
	require.True(t, fresh)
	require.EqualValues(t, 1, first.Number)
	again, fresh := b.add("mv_2", "a", StatusReady)
	require.False(t, fresh)
	require.Equal(t, "mv_1", again.ID)
	require.JSONEq(t, `{"tensors": 1}`, string(again.Facts))
	second, _ := b.add("mv_3", "b", StatusReady)
	require.EqualValues(t, 2, second.Number, "a repeat uses no number")
	list, err := b.Versions(t.Context(), b.pool, "mdl_1", request.Page{Limit: 50})
	require.NoError(t, err)
	require.Equal(t, []int32{2, 1}, []int32{list[0].Number, list[1].Number})
}

func TestModelStore_Resolve(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.Nil(t, b.resolve(access.ServiceScope(), "latest"), "a model without versions has no latest version")
	b.add("mv_1", "a", StatusReady)
	b.add("mv_2", "b", StatusRejected)
	cases := map[string]string{
		"1": "mv_1", "latest": "mv_1", "2": "", "3": "", "0": "", "-1": "", "x": "", "99999999999": "", "1.0": "", "Latest": "", "+1": "", "01": "",
	}
	for version, want := range cases {
		v := b.resolve(access.ServiceScope(), version)
		if want == "" {
			require.Nil(t, v, version)
			continue
		}
		require.Equal(t, want, v.ID, version)
	}
	require.Nil(t, b.resolve(authn.Scope{UserID: "usr_2", Projects: []string{"prj_2"}}, "1"), "a hidden model looks absent")
	require.NotNil(t, b.resolve(authn.Scope{UserID: "usr_2", Projects: []string{"prj_1"}}, "1"))
	_, err := b.Version(t.Context(), b.pool, "mdl_1", 3)
	require.True(t, fault.Is(err, fault.Absent))
	m, err := b.Get(t.Context(), b.pool, access.ServiceScope(), "mdl_1")
	require.NoError(t, err)
	require.EqualValues(t, 1, *m.Latest, "a rejected version is never the latest")
	require.Equal(t, "mdl/team/sums@1", m.Ref(1))
}

func TestModelStore_Insert_nameUniquePerProject(t *testing.T) {
	t.Parallel()
	b := open(t)
	m := sums()
	m.ID = "mdl_2"
	err := b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Insert(ctx, tx, m) })
	require.True(t, fault.HasCode(err, "model_exists"), "%v", err)
	m.ProjectID, m.Project = "prj_2", "other"
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Insert(ctx, tx, m) }))
	found, err := b.List(t.Context(), b.pool, access.ServiceScope(), access.Filter{Name: "sums"}, request.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, found, 2)
	found, err = b.List(t.Context(), b.pool, authn.Scope{UserID: "usr_9", Projects: []string{"prj_2"}}, access.Filter{Name: "sums"}, request.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "mdl_2", found[0].ID)
}

func TestModelToInput(t *testing.T) {
	t.Parallel()
	v := &Version{Number: 3, File: "m.tar", URI: "u", Size: 9, Digest: "sha256:ab", Packed: true}
	in := ToInput(sums(), v)
	require.Equal(t, "mdl/team/sums@3", in.GetRef())
	require.Equal(t, "ab", in.GetFiles()[0].GetSha256())
	require.True(t, in.GetFiles()[0].GetUnpack())
	require.Nil(t, versionToProto(sums(), v).StatusReason)
	v.StatusReason = "malformed"
	require.Equal(t, "malformed", versionToProto(sums(), v).GetStatusReason())
}
