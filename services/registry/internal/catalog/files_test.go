package catalog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

const manyFiles = 10_000

// large stores a dataset of project team whose version v1 has 10,000 files.
func (d *harness) large(name string) {
	d.t.Helper()
	s := &dataset.Dataset{
		Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"}, ID: "ds_" + name, Name: name, Format: "jsonl",
		CreatedAt: fixtures.Now(),
	}
	now := fixtures.Now()
	v := &dataset.Version{
		ID: "dsv_" + name, DatasetID: s.ID, Version: "v1", State: dataset.StateUploading, Digest: "sha256:" + name, Bytes: manyFiles, Count: manyFiles,
		CreatorID: "usr_1", CreatedAt: now, CommittedAt: &now,
	}
	for n := range manyFiles {
		v.Manifest = append(v.Manifest, dataset.File{Path: fmt.Sprintf("%s-%05d.jsonl", name, n), Size: 1, SHA256: fmt.Sprintf("%064d", n)})
	}
	d.tx(func(ctx context.Context, tx pgx.Tx) error {
		if err := d.Datasets.Insert(ctx, tx, s); err != nil {
			return err
		}
		if _, err := d.Datasets.InsertVersion(ctx, tx, v); err != nil {
			return err
		}
		_, err := d.Datasets.Commit(ctx, tx, v)
		return err
	})
}

// pages is the stream of ListBindingFiles.
type pages struct {
	grpc.ServerStream
	ctx   context.Context
	files map[string][]*jobsv1.ObjectRef
	most  int // the size of the largest message
}

func (p *pages) Context() context.Context { return p.ctx }

func (p *pages) Send(m *registrypeerv1.BindingFiles) error {
	p.files[m.GetName()] = append(p.files[m.GetName()], m.GetFiles()...)
	p.most = max(p.most, proto.Size(m))
	return nil
}

func TestResolveBindings_filesOfLargeDatasetsApart(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.NoError(t, d.Seeder.RunOnce(t.Context()))
	refs := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		d.large(name)
		refs[name] = "ds/team/" + name + "@v1"
	}
	in := &registrypeerv1.ResolveBindingsRequest{Datasets: refs}
	before, err := d.ResolveBindings(as(t, "usr_1"), in)
	require.NoError(t, err)
	require.False(t, before.GetFilesApart(), "the response must contain the files if the caller does not set files_apart")
	require.Greater(t, proto.Size(before), rpc.MaxMessage, "the response with all files must be too large for one message")

	in.FilesApart = true
	out, err := d.ResolveSubmission(as(t, "usr_1"), &registrypeerv1.ResolveSubmissionRequest{Recipe: "sft/tiny", Bindings: in})
	require.NoError(t, err)
	require.True(t, out.GetBindings().GetFilesApart())
	require.Less(t, proto.Size(out), 10<<10)
	require.Equal(t, "sha256:b", out.GetBindings().GetDatasets()[1].GetDigest())

	got := &pages{ctx: as(t, "usr_1"), files: map[string][]*jobsv1.ObjectRef{}}
	require.NoError(t, d.ListBindingFiles(&registrypeerv1.ListBindingFilesRequest{Datasets: refs}, got))
	require.Less(t, got.most, rpc.MaxMessage/2)
	for i, name := range []string{"a", "b", "c"} {
		require.Len(t, got.files[name], manyFiles)
		require.True(t, proto.Equal(before.GetDatasets()[i].GetFiles()[manyFiles-1], got.files[name][manyFiles-1]))
	}
	err = d.ListBindingFiles(&registrypeerv1.ListBindingFilesRequest{Datasets: refs}, &pages{ctx: as(t, "usr_9", inTeam(authn.ProjectViewer)), files: map[string][]*jobsv1.ObjectRef{}})
	require.NoError(t, err, "a member of the project can list the files")
	err = d.ListBindingFiles(&registrypeerv1.ListBindingFilesRequest{Datasets: refs}, &pages{ctx: as(t, "usr_9")})
	require.True(t, fault.HasCode(err, "binding_changed"), "a caller who cannot see the datasets gets a conflict: %v", err)
}

func TestResolveBindings_smallDatasetWithItsFiles(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.dataset("shown", "all", false, dataset.StateReady)
	out, err := d.ResolveBindings(as(t, "usr_1"), &registrypeerv1.ResolveBindingsRequest{
		Datasets: map[string]string{"a": "ds/team/shown@v1"}, FilesApart: true,
	})
	require.NoError(t, err)
	require.False(t, out.GetFilesApart(), "the response must contain the files of a small dataset")
	require.Len(t, out.GetDatasets()[0].GetFiles(), 1)
}

// packed stores a dataset whose version v1 has a pack, and returns the key of the pack.
func (d *harness) packed(name string) string {
	d.t.Helper()
	d.dataset(name, "all", false, dataset.StateReady)
	_, err := d.Pool.Exec(d.t.Context(), `UPDATE dataset_version SET packs = '[{"sha256": "cd", "size": 9}]', alone = '[]' WHERE id = $1`, "dsv_"+name)
	require.NoError(d.t, err)
	return "projects/prj_1/packs/ds_" + name + "/cd"
}

func TestResolveBindings_missingPack(t *testing.T) {
	t.Parallel()
	d := open(t)
	key := d.packed("shown")
	resolve := func() *jobsv1.ObjectRef {
		out, err := d.ResolveBindings(as(t, "usr_1"), &registrypeerv1.ResolveBindingsRequest{Datasets: map[string]string{"a": "ds/team/shown@v1"}})
		require.NoError(t, err)
		require.Len(t, out.GetDatasets()[0].GetFiles(), 1)
		return out.GetDatasets()[0].GetFiles()[0]
	}
	require.Equal(t, "a.jsonl", resolve().GetPath(), "the input has the file itself while the pack is missing")
	d.kept[key] = []byte("tar")
	want := &jobsv1.ObjectRef{Path: "cd.tar", Uri: "blob://" + key, SizeBytes: 9, Sha256: "cd", Unpack: true}
	require.True(t, proto.Equal(want, resolve()))
	d.Blobs = unavailable{d.Blobs}
	require.True(t, proto.Equal(want, resolve()), "resolving must succeed without the object store")
}

// unavailable is an object store whose Stat fails.
type unavailable struct{ blob.Store }

func (unavailable) Stat(context.Context, string) (blob.Info, error) {
	return blob.Info{}, fault.New(fault.Dependency, blob.CodeStore, "the object store is unavailable")
}
