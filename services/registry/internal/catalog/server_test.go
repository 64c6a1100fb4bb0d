package catalog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/catalog"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/recipe"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// store keeps objects in memory.
type store struct {
	blob.Store

	kept map[string][]byte
}

func (s store) Put(_ context.Context, key string, r io.Reader, _ int64, _ string) error {
	raw, err := io.ReadAll(r)
	s.kept[key] = raw
	return err
}

func (s store) Stat(_ context.Context, key string) (blob.Info, error) {
	raw, ok := s.kept[key]
	if !ok {
		return blob.Info{}, blob.Absent(key)
	}
	return blob.Info{Key: key, Size: int64(len(raw))}, nil
}

func (s store) Get(ctx context.Context, key string) (io.ReadCloser, blob.Info, error) {
	info, err := s.Stat(ctx, key)
	return io.NopCloser(bytes.NewReader(s.kept[key])), info, err
}

const manifest = `{"api":"service/v1","name":"sft/tiny","version":"VERSION","title":"t","description":"d","state":"STATE","resumable":true,
	"framework":{"name":"numpy","runtime_id":"np-1","image":"img@sha256:1"},"entrypoint":["python","-m","tiny"],"requirements":"requirements.txt",
	"params_schema":{"type":"object"},"inputs":[{"name":"train","kind":"dataset","required":true}]}`

func recipes(version, state string) fstest.MapFS {
	text := bytes.ReplaceAll(bytes.ReplaceAll([]byte(manifest), []byte("VERSION"), []byte(version)), []byte("STATE"), []byte(state))
	return fstest.MapFS{"sft/tiny/recipe.json": {Data: text}, "sft/tiny/requirements.txt": {Data: []byte("numpy==2\n")}}
}

// harness is a server with its database and its object store.
type harness struct {
	*catalog.Server

	t    *testing.T
	kept map[string][]byte
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	d := &harness{t: t, kept: map[string][]byte{}}
	clk := clock.NewFake(fixtures.Now())
	d.Server, err = catalog.New(pool, store{kept: d.kept}, d.seeder(pool, recipes("1.0", "active")),
		audit.NewLog(clk, id.NewSource(clk, rand.Reader), "registry"), slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	return d
}

func (d *harness) seeder(pool *pgxpool.Pool, files fstest.MapFS) *recipe.Seeder {
	return &recipe.Seeder{
		Pool: pool, Blobs: store{kept: d.kept}, Files: files, ManifestName: "recipe.json", Clock: clock.NewFake(fixtures.Now()),
		Log: slog.New(slog.DiscardHandler), Done: make(chan struct{}),
	}
}

func (d *harness) tx(fn func(ctx context.Context, tx pgx.Tx) error) {
	d.t.Helper()
	require.NoError(d.t, pg.InTx(d.t.Context(), d.Pool, fn))
}

// dataset stores a dataset of project team with version v1.
func (d *harness) dataset(name, visibility string, protected bool, state dataset.State) {
	d.t.Helper()
	s := &dataset.Dataset{
		Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: visibility}, ID: "ds_" + name, Name: name, Format: "jsonl",
		Protected: protected, CreatedAt: fixtures.Now(),
	}
	v := &dataset.Version{
		ID: "dsv_" + name, DatasetID: s.ID, Version: "v1", State: dataset.StateUploading, Digest: "sha256:" + name, Bytes: 3, Count: 1, CreatorID: "usr_1",
		Manifest: []dataset.File{{Path: "a.jsonl", Size: 3, SHA256: "ab"}}, CreatedAt: fixtures.Now(),
	}
	d.tx(func(ctx context.Context, tx pgx.Tx) error {
		if err := d.Datasets.Insert(ctx, tx, s); err != nil {
			return err
		}
		if _, err := d.Datasets.InsertVersion(ctx, tx, v); err != nil || state != dataset.StateReady {
			return err
		}
		now := fixtures.Now()
		v.CommittedAt = &now
		_, err := d.Datasets.Commit(ctx, tx, v)
		return err
	})
}

// model stores a model of project team with one version.
func (d *harness) model(name string, status model.Status) {
	d.t.Helper()
	m := &model.Model{
		Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"}, ID: "mdl_" + name, Name: name, Task: "chat", CreatedAt: fixtures.Now(),
	}
	v := &model.Version{
		ID: "mv_" + name, ModelID: m.ID, Status: status, Lifecycle: "candidate", Format: model.FormatGGUF, Digest: "sha256:ab", Size: 9, URI: "blob://x", File: "m.gguf",
		Facts: []byte(`{}`), CreatedAt: fixtures.Now(),
	}
	d.tx(func(ctx context.Context, tx pgx.Tx) error {
		if err := d.Models.Insert(ctx, tx, m); err != nil {
			return err
		}
		_, _, err := d.Models.InsertVersion(ctx, tx, v)
		return err
	})
}

func as(t *testing.T, subject string, in ...authn.ProjectRole) context.Context {
	t.Helper()
	return authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: subject, Role: authn.RoleOperator, Projects: in})
}

func inTeam(role string) authn.ProjectRole { return authn.ProjectRole{Project: "prj_1", Role: role} }

func TestGetCatalogRecipe_unavailableUntilSeeded(t *testing.T) {
	t.Parallel()
	d := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.GetCatalogRecipe(ctx, &registrypeerv1.GetCatalogRecipeRequest{Name: "sft/tiny"})
	require.True(t, fault.Is(err, fault.Unavailable) && fault.HasCode(err, "catalog"), "before the catalog is seeded, a recipe must be unavailable, not absent: %v", err)
	require.NoError(t, d.Seeder.RunOnce(t.Context()))
	_, err = d.GetCatalogRecipe(as(t, "usr_1"), &registrypeerv1.GetCatalogRecipeRequest{Name: "sft/tiny"})
	require.NoError(t, err)
	_, err = d.GetCatalogRecipe(as(t, "usr_1"), &registrypeerv1.GetCatalogRecipeRequest{Name: "sft/none"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestGetCatalogRecipe_returnsAllVersions(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.NoError(t, d.Seeder.RunOnce(t.Context()))
	require.NoError(t, d.seeder(d.Pool, recipes("2.0", "withdrawn")).RunOnce(t.Context()))
	out, err := d.GetCatalogRecipe(as(t, "usr_1"), &registrypeerv1.GetCatalogRecipeRequest{Name: "sft/tiny"})
	require.NoError(t, err)
	require.Len(t, out.GetVersions(), 2, "withdrawn versions too, because a job refers to the version in its lock")
	require.Equal(t, []string{"active", "withdrawn"}, []string{out.GetVersions()[0].GetRecipe().GetState(), out.GetVersions()[1].GetRecipe().GetState()})
	v := out.GetVersions()[0]
	require.Equal(t, []string{"python", "-m", "tiny"}, v.GetEntrypoint(), "the entrypoint comes from the recipe")
	require.Equal(t, []string{"train"}, v.GetRequiredDatasets())
	sum := sha256.Sum256([]byte("numpy==2\n"))
	require.True(t, proto.Equal(&jobsv1.EnvironmentSpec{Requirements: "numpy==2\n", Digest: "sha256:" + hex.EncodeToString(sum[:]), Sdk: true}, v.GetEnvironment()))
	require.Equal(t, []any{"1.0", "np-1", "img@sha256:1", true},
		[]any{v.GetRecipe().GetVersion(), v.GetRecipe().GetFramework().GetRuntimeId(), v.GetRecipe().GetFramework().GetImage(), v.GetRecipe().GetResumable()})
	key, ok := blob.ParseURI(v.GetPackage().GetUri())
	require.True(t, ok)
	tree := sha256.Sum256(d.kept[key])
	require.Equal(t, hex.EncodeToString(tree[:]), v.GetPackage().GetSha256(), "the package names the stored tree")
	require.EqualValues(t, len(d.kept[key]), v.GetPackage().GetSizeBytes())
	require.True(t, v.GetPackage().GetUnpack())
}

func TestResolveBindings_permissions(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.dataset("hidden", "team", false, dataset.StateReady)
	d.dataset("shown", "all", false, dataset.StateReady)
	d.dataset("guarded", "all", true, dataset.StateReady)
	d.dataset("uploading", "all", false, dataset.StateUploading)
	d.model("good", model.StatusReady)
	d.model("bad", model.StatusRejected)
	ref := func(name string) string { return "ds/team/" + name + "@v1" }
	refs := map[string]string{"a": ref("hidden"), "b": ref("shown"), "c": ref("guarded"), "d": ref("uploading"), "e": ref("none"), "f": "no reference"}
	for name, c := range map[string]struct {
		ctx                        context.Context
		model                      string
		bound, unknown, unreadable []string
	}{
		"stranger":         {as(t, "usr_9"), "", []string{"b"}, []string{ref("hidden"), ref("uploading"), ref("none"), "no reference"}, []string{ref("guarded")}},
		"viewer":           {as(t, "usr_9", inTeam(authn.ProjectViewer)), "", []string{"a", "b"}, []string{ref("uploading"), ref("none"), "no reference"}, []string{ref("guarded")}},
		"editor":           {as(t, "usr_9", inTeam(authn.ProjectEditor)), "mdl/team/good@1", []string{"a", "b", "c"}, []string{ref("uploading"), ref("none"), "no reference"}, nil},
		"owner":            {as(t, "usr_1"), "mdl/team/good@latest", []string{"a", "b", "c"}, []string{ref("uploading"), ref("none"), "no reference"}, nil},
		"rejected model":   {as(t, "usr_1"), "mdl/team/bad@1", []string{"a", "b", "c"}, []string{ref("uploading"), ref("none"), "no reference", "mdl/team/bad@1"}, nil},
		"hidden model":     {as(t, "usr_9"), "mdl/team/good@1", []string{"b"}, []string{ref("hidden"), ref("uploading"), ref("none"), "no reference", "mdl/team/good@1"}, []string{ref("guarded")}},
		"dataset as model": {as(t, "usr_1"), ref("shown"), []string{"a", "b", "c"}, []string{ref("uploading"), ref("none"), "no reference", ref("shown")}, nil},
		"anonymous":        {t.Context(), "", nil, []string{ref("hidden"), ref("shown"), ref("guarded"), ref("uploading"), ref("none"), "no reference"}, nil},
	} {
		out, err := d.ResolveBindings(c.ctx, &registrypeerv1.ResolveBindingsRequest{Datasets: refs, Model: c.model})
		require.NoError(t, err, name)
		var bound []string
		for _, in := range out.GetDatasets() {
			bound = append(bound, in.GetName())
		}
		require.Equal(t, c.bound, bound, "%s: the bindings must be ordered by name", name)
		require.Equal(t, c.unknown, out.GetUnknown(), "%s: hidden, absent, not ready and malformed references form one list", name)
		require.Equal(t, c.unreadable, out.GetUnreadable(), name)
		require.Equal(t, name == "editor" || name == "owner", out.GetModel() != nil, name)
	}
	noted := func() (n int) {
		require.NoError(t, d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'dataset.bind' AND target_id = 'ds_guarded'`).Scan(&n))
		return n
	}
	require.Zero(t, noted(), "a submission with an unknown or unreadable reference must write no audit entry")
	for range 2 {
		_, err := d.ResolveBindings(as(t, "usr_1"), &registrypeerv1.ResolveBindingsRequest{Datasets: map[string]string{"b": ref("shown"), "c": ref("guarded")}})
		require.NoError(t, err)
	}
	require.Equal(t, 2, noted(), "each binding of the protected dataset must write one audit entry")
}

func TestResolveSubmission_oneCallThatWritesNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.NoError(t, d.Seeder.RunOnce(t.Context()))
	d.dataset("guarded", "team", true, dataset.StateReady)
	d.tx(func(ctx context.Context, tx pgx.Tx) error {
		return d.Bundles.Insert(ctx, tx, &codepackage.Bundle{
			Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"}, ID: "pkg_good", SHA256: "ab", Size: 3,
			State: codepackage.StateAccepted, CreatedAt: fixtures.Now(),
		})
	})
	in := &registrypeerv1.ResolveSubmissionRequest{
		Recipe: "sft/tiny", PackageId: "pkg_good",
		Bindings: &registrypeerv1.ResolveBindingsRequest{Datasets: map[string]string{"train": "ds/team/guarded@latest", "extra": "ds/team/none@1"}},
	}
	out, err := d.ResolveSubmission(as(t, "usr_1"), in)
	require.NoError(t, err)
	require.Equal(t, "1.0", out.GetVersions()[0].GetRecipe().GetVersion())
	require.Equal(t, "blob://projects/prj_1/packages/ab", out.GetPackage().GetUri())
	require.Equal(t, "ds/team/guarded@v1", out.GetBindings().GetDatasets()[0].GetRef())
	require.True(t, out.GetBindings().GetProtected())
	require.Equal(t, []string{"ds/team/none@1"}, out.GetBindings().GetUnknown())
	var rows int
	require.NoError(t, d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit`).Scan(&rows))
	require.Zero(t, rows, "no audit entry must be written, because the submission may still be refused")

	in.Recipe = "sft/none"
	out, err = d.ResolveSubmission(as(t, "usr_1"), in)
	require.NoError(t, err)
	require.Empty(t, out.GetVersions())
	_, err = d.ResolveSubmission(as(t, "usr_9"), in)
	require.True(t, fault.HasCode(err, "package"), "%v", err)
	in.PackageId = ""
	out, err = d.ResolveSubmission(as(t, "usr_9"), in)
	require.NoError(t, err)
	require.Nil(t, out.GetPackage())
	require.Empty(t, out.GetBindings().GetDatasets(), "the dataset must not be resolved for a caller who cannot see it")
}

func TestResolveBindings_exactInputs(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.dataset("sums", "team", false, dataset.StateReady)
	d.model("adder", model.StatusReady)
	out, err := d.ResolveBindings(as(t, "usr_1"), &registrypeerv1.ResolveBindingsRequest{
		Datasets: map[string]string{"train": "ds/team/sums@latest"}, Model: "mdl/team/adder@latest",
	})
	require.NoError(t, err)
	require.True(t, proto.Equal(&jobsv1.DatasetInput{
		Name: "train", Ref: "ds/team/sums@v1", Digest: "sha256:sums",
		Files: []*jobsv1.ObjectRef{{Path: "a.jsonl", Uri: "blob://projects/prj_1/blobs/ab", SizeBytes: 3, Sha256: "ab"}},
	}, out.GetDatasets()[0]), "%v", out.GetDatasets()[0])
	require.True(t, proto.Equal(&jobsv1.ModelInput{
		Ref: "mdl/team/adder@1", Digest: "sha256:ab", Format: "gguf", Files: []*jobsv1.ObjectRef{{Path: "m.gguf", Uri: "blob://x", SizeBytes: 9, Sha256: "ab"}},
	}, out.GetModel()), "%v", out.GetModel())
}

func TestCatalog_databaseDownIsNotAbsent(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.NoError(t, d.Seeder.RunOnce(t.Context()))
	d.Pool.Close()
	_, err := d.GetCatalogRecipe(as(t, "usr_1"), &registrypeerv1.GetCatalogRecipeRequest{Name: "sft/tiny"})
	require.False(t, err == nil || fault.Is(err, fault.Absent), "%v", err)
	for _, in := range []*registrypeerv1.ResolveBindingsRequest{{Datasets: map[string]string{"a": "ds/team/sums@v1"}}, {Model: "mdl/team/adder@1"}} {
		_, err = d.ResolveBindings(as(t, "usr_1"), in)
		require.Error(t, err)
	}
}

func TestResolvePackage_requiresVisibleAcceptedPackage(t *testing.T) {
	t.Parallel()
	d := open(t)
	keep := func(name string, state codepackage.State, gate, text string) string {
		b := &codepackage.Bundle{
			Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"}, ID: "pkg_" + name, SHA256: "ab", Size: 3,
			State: state, Gate: gate, Text: text, CreatedAt: fixtures.Now(),
		}
		d.tx(func(ctx context.Context, tx pgx.Tx) error { return d.Bundles.Insert(ctx, tx, b) })
		return b.ID
	}
	good, bad := keep("good", codepackage.StateAccepted, "", ""), keep("bad", codepackage.StateRefused, "sensitive_file", "sensitive_file: a key")
	waiting := keep("waiting", codepackage.StateUploading, "", "")
	resolve := func(subject, id string) (*jobsv1.ObjectRef, error) {
		out, err := d.ResolvePackage(as(t, subject), &registrypeerv1.ResolvePackageRequest{PackageId: id})
		return out.GetObject(), err
	}
	got, err := resolve("usr_1", good)
	require.NoError(t, err)
	require.Equal(t, []any{"blob://projects/prj_1/packages/ab", int64(3), true}, []any{got.GetUri(), got.GetSizeBytes(), got.GetUnpack()})
	_, err = resolve("usr_1", bad)
	require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "sensitive_file"), "%v", err)
	_, err = resolve("usr_1", waiting)
	require.True(t, fault.HasCode(err, "package"), "%v", err)
	_, hidden := resolve("usr_9", good)
	_, absent := resolve("usr_9", "pkg_none")
	require.Equal(t, "package: no such package: pkg_good", fault.From(hidden).Text())
	require.Equal(t, "package: no such package: pkg_none", fault.From(absent).Text())
}
