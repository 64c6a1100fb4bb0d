package model

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

const (
	baseConfig    = `{"model_type":"qwen2","hidden_size":64}`
	adapterConfig = `{"peft_type":"LORA","r":8,"base_model_name_or_path":"base"}`
)

// named returns the manifest of files that are given as names and contents in turn.
func named(parts ...string) (files []*registryv1.ManifestFile) {
	for i := 0; i < len(parts); i += 2 {
		sum := sha256.Sum256([]byte(parts[i+1]))
		files = append(files, &registryv1.ManifestFile{Path: parts[i], SizeBytes: int64(len(parts[i+1])), Sha256: hex.EncodeToString(sum[:])})
	}
	return files
}

// put stores the objects of files that are given as names and contents in turn.
func (d *serverHarness) put(m *registryv1.Model, parts ...string) {
	d.t.Helper()
	for i, f := range named(parts...) {
		key := "projects/prj_1/models/" + m.GetId() + "/" + f.GetSha256()
		require.NoError(d.t, d.blobs.Put(d.t.Context(), key, strings.NewReader(parts[2*i+1]), f.GetSizeBytes(), f.GetSha256()))
	}
}

// create creates a version of files that are given as names and contents in turn.
func (d *serverHarness) create(ctx context.Context, m *registryv1.Model, base string, pickle bool, parts ...string) (*registryv1.ModelVersion, error) {
	return d.CreateModelVersion(ctx, &registryv1.CreateModelVersionRequest{ModelId: m.GetId(), Files: named(parts...), Base: base, AllowPickle: pickle})
}

func (d *serverHarness) sign(ctx context.Context, m *registryv1.Model, pickle bool, parts ...string) (*registryv1.SignModelUploadsResponse, error) {
	return d.SignModelUploads(ctx, &registryv1.SignModelUploadsRequest{ModelId: m.GetId(), Files: named(parts...), AllowPickle: pickle})
}

func admin(t *testing.T) context.Context {
	t.Helper()
	ctx, _ := as(t, "usr_9", "", "")
	authn.CallerOf(ctx).Role = authn.RoleAdmin
	return ctx
}

func TestCreateModelVersion_files(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("base")
	parts := []string{"model.safetensors", string(weights(5)), "config.json", baseConfig, "tokenizer/vocab.txt", "a b"}

	signed, err := d.sign(ann(t), m, false, parts...)
	require.NoError(t, err)
	require.Equal(t, "safetensors", signed.GetFormat())
	require.Len(t, signed.GetUploads(), 3)
	_, err = d.create(ann(t), m, "", false, parts...)
	require.True(t, fault.Is(err, fault.Refused), "%v", err)
	require.ErrorContains(t, err, "has not been uploaded")

	d.put(m, parts[:2]...)
	signed, err = d.sign(ann(t), m, false, parts...)
	require.NoError(t, err)
	require.Len(t, signed.GetUploads(), 2, "only what is missing is uploaded")
	require.Equal(t, "config.json", signed.GetUploads()[0].GetPath())

	d.put(m, parts...)
	v, err := d.create(ann(t), m, "", false, parts...)
	require.NoError(t, err)
	require.Equal(t, "ready", v.GetStatus(), v.GetStatusReason())
	require.Nil(t, v.GetSource())
	require.Nil(t, v.Base)
	require.False(t, v.GetPickle())
	require.EqualValues(t, len(parts[1])+len(parts[3])+len(parts[5]), v.GetSizeBytes())
	require.JSONEq(t, `{"architecture":"qwen2","parameters":5,"tensors":1,"dtype":"u8","embedding_length":64}`, string(v.GetFacts()))

	ctx, h := as(t, "usr_1", authn.ProjectEditor, "")
	again, err := d.create(ctx, m, "", false, parts[2], parts[3], parts[0], parts[1], parts[4], parts[5])
	require.NoError(t, err)
	require.Equal(t, v.GetId(), again.GetId(), "the order of the files does not matter")
	require.NotEmpty(t, h.sent, "the status is 200")

	d.checkFiles(m, "config.json", "model.safetensors", "tokenizer/vocab.txt")
	found, err := d.Server.Store.Version(t.Context(), d.pool, m.GetId(), 1)
	require.NoError(t, err)
	for _, o := range ToObjects(found) {
		key, ok := blob.ParseURI(o.GetUri())
		require.True(t, ok)
		info, err := d.blobs.Stat(t.Context(), key)
		require.NoError(t, err, "executors find the object of %s", o.GetPath())
		require.Equal(t, o.GetSha256(), info.SHA256)
		require.False(t, o.GetUnpack())
	}
}

// checkFiles checks the pages of the files of version 1, and of their downloads.
func (d *serverHarness) checkFiles(m *registryv1.Model, paths ...string) {
	d.t.Helper()
	one := int32(1)
	for i, path := range paths {
		offset := int32(i)
		files, err := d.ListModelFiles(ann(d.t), &registryv1.ListModelFilesRequest{ModelId: m.GetId(), Version: 1, Limit: &one, Offset: &offset})
		require.NoError(d.t, err)
		require.Len(d.t, files.GetFiles(), 1)
		require.Equal(d.t, path, files.GetFiles()[0].GetPath())
		downloads, err := d.ListModelDownloads(ann(d.t), &registryv1.ListModelDownloadsRequest{ModelId: m.GetId(), Version: 1, Limit: &one, Offset: &offset})
		require.NoError(d.t, err)
		require.Len(d.t, downloads.GetFiles(), 1)
		require.Equal(d.t, path, downloads.GetFiles()[0].GetPath())
		require.NotEmpty(d.t, downloads.GetFiles()[0].GetUrl())
	}
	offset := int32(len(paths))
	files, err := d.ListModelFiles(ann(d.t), &registryv1.ListModelFilesRequest{ModelId: m.GetId(), Version: 1, Offset: &offset})
	require.NoError(d.t, err)
	require.Empty(d.t, files.GetFiles())
}

// The digest of a single file is that of the file, as for an artifact.
func TestCreateModelVersion_singleFile(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("single")
	d.put(m, "w.safetensors", string(weights(5)))
	v, err := d.create(ann(t), m, "", false, "w.safetensors", string(weights(5)))
	require.NoError(t, err)
	require.Equal(t, "sha256:"+named("", string(weights(5)))[0].GetSha256(), v.GetDigest())
	a := d.artifact("art_1", "safetensors", weights(5))
	same, err := d.register(ann(t), m, a.ID)
	require.NoError(t, err)
	require.Equal(t, v.GetId(), same.GetId(), "the same bytes are one version")
}

func TestCreateModelVersion_invalidFiles(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("bad")
	parts := []string{"model.safetensors", string(weights(5)[:12]), "config.json", baseConfig}
	d.put(m, parts...)
	v, err := d.create(ann(t), m, "", false, parts...)
	require.NoError(t, err)
	require.Equal(t, "rejected", v.GetStatus())
	require.Contains(t, v.GetStatusReason(), "model.safetensors")
	require.Nil(t, d.now(m).LatestVersion, "a rejected version is not the latest")

	cases := map[string]struct {
		files []*registryv1.ManifestFile
		words string
		kind  fault.Kind
	}{
		"no weights":  {named("config.json", baseConfig), "no weights", fault.Refused},
		"path":        {named("../model.gguf", "x"), "must be relative", fault.Refused},
		"twice":       {append(named("model.gguf", "x"), named("model.gguf", "y")...), "duplicate path", fault.Refused},
		"too large":   {[]*registryv1.ManifestFile{{Path: "model.gguf", SizeBytes: 1<<20 + 1}}, "save the model in smaller parts", fault.TooLarge},
		"long paths":  {named("model.gguf", "x", strings.Repeat("a/", 16<<10)+"b", "y"), "paths of the files", fault.Refused},
		"other bytes": {[]*registryv1.ManifestFile{{Path: "m.safetensors", SizeBytes: 9, Sha256: named("", parts[1])[0].GetSha256()}}, "the manifest states 9 bytes", fault.Refused},
	}
	for name, c := range cases {
		_, err := d.CreateModelVersion(ann(t), &registryv1.CreateModelVersionRequest{ModelId: m.GetId(), Files: c.files})
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		require.ErrorContains(t, err, c.words, name)
		if name != "other bytes" {
			_, err = d.SignModelUploads(ann(t), &registryv1.SignModelUploadsRequest{ModelId: m.GetId(), Files: c.files})
			require.ErrorContains(t, err, c.words, name)
		}
	}
	_, err = d.CreateModelVersion(ann(t), &registryv1.CreateModelVersionRequest{ModelId: m.GetId()})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = d.CreateModelVersion(ann(t), &registryv1.CreateModelVersionRequest{
		ModelId: m.GetId(), Files: named("model.gguf", "x"), Source: &registryv1.ModelSource{RunId: "run_ann", ArtifactId: "art_1"},
	})
	require.ErrorContains(t, err, "not both")
}

func (d *serverHarness) now(m *registryv1.Model) *registryv1.Model {
	d.t.Helper()
	got, err := d.GetModel(ann(d.t), &registryv1.GetModelRequest{ModelId: m.GetId()})
	require.NoError(d.t, err)
	return got
}

func TestCreateModelVersion_adapter(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	base, other, m := d.model("base"), d.model("other"), d.model("adapter")
	whole := []string{"config.json", baseConfig, "model.safetensors", string(weights(9))}
	d.put(base, whole...)
	_, err := d.create(ann(t), base, "mdl/team/base@1", false, whole...)
	require.ErrorContains(t, err, "only adapters")
	_, err = d.create(ann(t), base, "", false, whole...)
	require.NoError(t, err)

	parts := []string{"adapter_config.json", adapterConfig, "adapter_model.safetensors", string(weights(3))}
	d.put(m, parts...)
	for given, words := range map[string]string{
		"base": "not the reference", "mdl/team/base@2": "no such model version", "mdl/team/none@1": "no such model version", "ds/team/base@1": "not the reference",
	} {
		_, err = d.create(ann(t), m, given, false, parts...)
		require.True(t, fault.Is(err, fault.Refused), "%s: %v", given, err)
		require.ErrorContains(t, err, words)
	}
	v, err := d.create(ann(t), m, "mdl/team/base@latest", false, parts...)
	require.NoError(t, err)
	require.Equal(t, "peft", v.GetFormat())
	require.Equal(t, "mdl/team/base@1", v.GetBase(), "the reference is exact")
	require.JSONEq(t, `{"parameters":3,"tensors":1,"dtype":"u8","adapter_type":"LORA","adapter_rank":8,"base_model":"base"}`, string(v.GetFacts()))

	d.put(other, parts...)
	v, err = d.create(ann(t), other, "", false, parts...)
	require.NoError(t, err)
	require.Nil(t, v.Base)
	named := []string{"adapter_config.json", `{"r":4,"base_model_name_or_path":"mdl/team/base@1"}`, "adapter_model.safetensors", string(weights(3))}
	d.put(other, named...)
	v, err = d.create(ann(t), other, "", false, named...)
	require.NoError(t, err)
	require.Equal(t, "mdl/team/base@1", v.GetBase(), "the recipes write the reference into the configuration")
	_, err = d.create(ann(t), other, "garbage", false, named...)
	require.ErrorContains(t, err, "not the reference", "also if the version exists")
	_, err = d.create(ann(t), m, "mdl/team/adapter@1", false, append(parts, "README.md", "x")...)
	require.ErrorContains(t, err, "in the format safetensors", "an adapter cannot be a base")
}

// Bytes that were rejected under one name, or by an older version of the service, can be valid.
func TestCreateModelVersion_rejectedBytesAgain(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("again")
	data := string(weights(5))
	d.put(m, "w.gguf", data)
	v, err := d.create(ann(t), m, "", false, "w.gguf", data)
	require.NoError(t, err)
	require.Equal(t, "rejected", v.GetStatus())
	same, err := d.create(ann(t), m, "", false, "w.gguf", data)
	require.NoError(t, err)
	require.Equal(t, v.GetId(), same.GetId(), "an invalid version is created once")
	good, err := d.create(ann(t), m, "", false, "w.safetensors", data)
	require.NoError(t, err)
	require.Equal(t, "ready", good.GetStatus())
	require.EqualValues(t, 2, good.GetVersion())
	for _, name := range []string{"w.gguf", "w.safetensors"} {
		again, err := d.create(ann(t), m, "", false, name, data)
		require.NoError(t, err)
		require.Equal(t, good.GetId(), again.GetId(), "the ready version counts")
	}
}

// An adapter that a run made belongs to the version from which the run started.
func TestCreateModelVersion_adapterOfRun(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adapter")
	a := d.artifact("art_1", "peft", folderOf(t, "adapter_config.json", adapterConfig, "adapter_model.safetensors", string(weights(3))))
	_, err := d.register(ann(t), m, a.ID)
	require.ErrorContains(t, err, "must be a folder")
	a.Packed = true
	v, err := d.register(ann(t), m, a.ID)
	require.NoError(t, err)
	require.Equal(t, "ready", v.GetStatus(), v.GetStatusReason())
	require.Equal(t, "mdl/team/base@3", v.GetBase())
	got, err := d.GetModelVersion(ann(t), &registryv1.GetModelVersionRequest{ModelId: m.GetId(), Version: 1})
	require.NoError(t, err)
	require.Equal(t, "mdl/team/base@3", got.GetBase())
}

// Uploaded objects are kept for HoldFor, and as long as a version refers to them. Other models do not share them.
func TestSignModelUploads_holdsObjects(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m, other := d.model("kept"), d.model("other")
	parts := []string{"w.safetensors", string(weights(5))}
	sum := named(parts...)[0].GetSha256()
	key := "projects/prj_1/models/" + m.GetId() + "/" + sum
	unused := func() []string {
		keys, err := db.UnusedObjects(t.Context(), d.pool, []string{key})
		require.NoError(t, err)
		return keys
	}
	require.NotEmpty(t, unused())
	_, err := d.sign(ann(t), m, false, parts...)
	require.NoError(t, err)
	require.Empty(t, unused(), "an upload has time")
	_, err = d.pool.Exec(t.Context(), `UPDATE object_hold SET held_until = now() - interval '1 hour'`)
	require.NoError(t, err)
	require.NotEmpty(t, unused())
	d.put(m, parts...)
	_, err = d.create(ann(t), m, "", false, parts...)
	require.NoError(t, err)
	_, err = d.pool.Exec(t.Context(), `DELETE FROM object_hold`)
	require.NoError(t, err)
	require.Empty(t, unused(), "a version refers to the object")
	_, err = d.create(ann(t), other, "", false, parts...)
	require.ErrorContains(t, err, "has not been uploaded", "knowing the digest does not give the bytes of another model")
}

func TestSignModelUploads_rights(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("mine")
	viewer, _ := as(t, "usr_2", authn.ProjectViewer, "")
	_, err := d.sign(viewer, m, false, "m.gguf", "x")
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	stranger, _ := as(t, "usr_3", "", "")
	_, err = d.sign(stranger, m, false, "m.gguf", "x")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

// A store that fails is an error of the request, and never a rejected version.
func TestCreateModelVersion_filesOfFailingStore(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("m")
	parts := []string{"w.safetensors", string(weights(5))}
	d.put(m, parts...)
	d.Blobs = failingReads{d.blobs}
	_, err := d.create(ann(t), m, "", false, parts...)
	require.ErrorContains(t, err, "the disk is gone")
	require.NoError(t, pg.InTx(t.Context(), d.pool, func(ctx context.Context, tx pgx.Tx) error {
		v, err := d.Server.Store.ByDigest(ctx, tx, m.GetId(), "sha256:"+named(parts...)[0].GetSha256())
		require.Nil(t, v)
		return err
	}))
}

func TestSignModelUploads_failingStore(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("m")
	d.Blobs = failingReads{d.blobs}
	_, err := d.sign(ann(t), m, false, "model.gguf", "x")
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
}

func (failingReads) Stat(context.Context, string) (blob.Info, error) {
	return blob.Info{}, fault.New(fault.Dependency, blob.CodeStore, "the disk is gone")
}

type failingReads struct{ blob.Store }

func (failingReads) OpenKnown(context.Context, blob.Info) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 2)), brokenReader{})), nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) {
	return 0, fault.New(fault.Dependency, blob.CodeStore, "the disk is gone")
}

// folderOf returns the tar file of files that are given as names and contents in turn.
func folderOf(t *testing.T, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: parts[i], Size: int64(len(parts[i+1])), Mode: 0o644}))
		_, err := w.Write([]byte(parts[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}
