package registry_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// ggufFile returns a small GGUF file. Each salt gives a file with different bytes.
func ggufFile(salt string) []byte {
	var b bytes.Buffer
	le := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	text := func(s string) { le(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	le(uint32(3))
	le(uint64(1))
	le(uint64(3))
	text("general.architecture")
	le(uint32(8))
	text("llama")
	text("general.name")
	le(uint32(8))
	text(salt)
	text("llama.context_length")
	le(uint32(4))
	le(uint32(128))
	text("output.weight")
	le(uint32(2))
	le(uint64(4))
	le(uint64(3))
	le(uint32(0))
	le(uint64(0))
	b.Write(make([]byte, 64))
	return b.Bytes()
}

// exportFile returns a tar file of a Hugging Face folder.
func exportFile(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"config.json", "generation_config.json", "model.safetensors"} {
		data, ok := files[name]
		if !ok {
			continue
		}
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func safetensorsFile() []byte {
	header := `{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}`
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), make([]byte, 24)...)
}

// artifact creates a run owned by the given caller with one artifact.
func (h *harness) artifact(c *authn.Caller, format string, packed bool, data []byte) *registryv1.ModelSource {
	h.t.Helper()
	run, art := h.ids.New(id.Run), h.ids.New(id.Artifact)
	key := "runs/" + run + "/1/merged_model/" + sum(data) + "/model." + format
	require.NoError(h.t, h.blobs.Put(h.t.Context(), key, bytes.NewReader(data), int64(len(data)), sum(data)))
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	h.runs.owners[run] = &jobspeerv1.RunOwner{RunId: run, OwnerId: c.Subject, ProjectId: teamProjectID, Project: "search", Visibility: "team"}
	h.runs.artifacts[art] = &ingestpeerv1.GetArtifactResponse{
		Artifact: &ingestv1.Artifact{
			Id: art, RunId: run, Kind: "merged_model", Format: format, Path: blob.URI(key), SizeBytes: int64(len(data)), Sha256: new(sum(data)),
		},
		Uri: blob.URI(key), Packed: packed,
	}
	return &registryv1.ModelSource{RunId: run, ArtifactId: art}
}

func (h *harness) model(c *authn.Caller, name string) *registryv1.Model {
	h.t.Helper()
	m, err := h.models.CreateModel(h.as(c), &registryv1.CreateModelRequest{Name: name})
	require.NoError(h.t, err)
	return m
}

// version registers an artifact as a model version.
func (h *harness) version(c *authn.Caller, m *registryv1.Model, source *registryv1.ModelSource) *registryv1.ModelVersion {
	h.t.Helper()
	v, err := h.models.CreateModelVersion(h.as(c), &registryv1.CreateModelVersionRequest{ModelId: m.GetId(), Source: source})
	require.NoError(h.t, err)
	return v
}

func TestCreateModelVersion_fromArtifact(t *testing.T) {
	t.Parallel()
	h := open(t)
	m := h.model(ann(), "adder")
	require.Equal(t, "chat", m.GetTask())
	data := ggufFile("one")
	source := h.artifact(ann(), "gguf", false, data)
	v := h.version(ann(), m, source)
	require.Equal(t, "ready", v.GetStatus())
	require.Equal(t, "candidate", v.GetLifecycle())
	require.Equal(t, "sha256:"+sum(data), v.GetDigest())
	require.Equal(t, "mdl/default/adder@1", v.GetRef())
	var facts map[string]any
	require.NoError(t, json.Unmarshal(v.GetFacts(), &facts))
	require.Equal(t, "llama", facts["architecture"])
	require.InDelta(t, 12, facts["parameters"], 0)
	require.InDelta(t, 128, facts["context_length"], 0)

	// The same bytes give the same version, even if they come from another artifact.
	for _, again := range []*registryv1.ModelSource{source, h.artifact(ann(), "gguf", false, data)} {
		var header metadata.MD
		same, err := h.models.CreateModelVersion(h.as(ann()), &registryv1.CreateModelVersionRequest{ModelId: m.GetId(), Source: again}, grpc.Header(&header))
		require.NoError(t, err)
		require.True(t, proto.Equal(v, same))
		require.Equal(t, []string{"200"}, header.Get("x-service-status"))
	}
	second := h.version(ann(), m, h.artifact(ann(), "gguf", false, ggufFile("two")))
	require.Equal(t, int32(2), second.GetVersion())
	got, err := h.models.GetModel(h.as(bob()), &registryv1.GetModelRequest{ModelId: m.GetId()})
	require.NoError(t, err)
	require.Equal(t, int32(2), got.GetLatestVersion())
	list, err := h.models.ListModelVersions(h.as(bob()), &registryv1.ListModelVersionsRequest{ModelId: m.GetId(), Limit: proto.Int32(1)})
	require.NoError(t, err)
	require.Len(t, list.GetVersions(), 1)
	one, err := h.models.GetModelVersion(h.as(bob()), &registryv1.GetModelVersionRequest{ModelId: m.GetId(), Version: 1})
	require.NoError(t, err)
	require.True(t, proto.Equal(v, one))

	out, err := h.catalog.ResolveBindings(h.as(ann()), &registrypeerv1.ResolveBindingsRequest{Model: "mdl/default/adder@latest"})
	require.NoError(t, err)
	require.Equal(t, "mdl/default/adder@2", out.GetModel().GetRef())
	require.Equal(t, "model.gguf", out.GetModel().GetFiles()[0].GetPath())
}

func TestCreateModelVersion_packedExport(t *testing.T) {
	t.Parallel()
	h := open(t)
	m := h.model(ann(), "adder")
	config := []byte(`{"model_type":"llama","max_position_embeddings":128,"vocab_size":260}`)
	v := h.version(ann(), m, h.artifact(ann(), "safetensors", true, exportFile(t, map[string][]byte{
		"config.json": config, "model.safetensors": safetensorsFile(),
	})))
	require.Equal(t, "ready", v.GetStatus(), v.GetStatusReason())
	require.JSONEq(t, `{"architecture":"llama","parameters":6,"tensors":1,"dtype":"f32","context_length":128,"vocab_size":260}`, string(v.GetFacts()))
	out, err := h.catalog.ResolveBindings(h.as(ann()), &registrypeerv1.ResolveBindingsRequest{Model: v.GetRef()})
	require.NoError(t, err)
	require.True(t, out.GetModel().GetFiles()[0].GetUnpack())
}

func TestCreateModelVersion_invalidFileRejected(t *testing.T) {
	t.Parallel()
	h := open(t)
	m := h.model(ann(), "adder")
	cases := map[string]struct {
		format string
		packed bool
		data   []byte
		words  string
	}{
		"not GGUF":      {"gguf", false, []byte("this is not a model"), "not GGUF"},
		"cut gguf":      {"gguf", false, ggufFile("cut")[:60], "longer than the file"},
		"not tar":       {"safetensors", true, []byte("nothing of a tar file"), "tar"},
		"no config":     {"safetensors", true, exportFile(t, map[string][]byte{"model.safetensors": safetensorsFile()}), "config.json"},
		"short weights": {"safetensors", false, safetensorsFile()[:80], "bytes"},
	}
	for name, c := range cases {
		v := h.version(ann(), m, h.artifact(ann(), c.format, c.packed, c.data))
		require.Equal(t, "rejected", v.GetStatus(), name)
		require.Contains(t, v.GetStatusReason(), c.words, name)
	}
	got, err := h.models.GetModel(h.as(ann()), &registryv1.GetModelRequest{ModelId: m.GetId()})
	require.NoError(t, err)
	require.Nil(t, got.LatestVersion, "a rejected version is not the latest version")
	out, err := h.catalog.ResolveBindings(h.as(ann()), &registrypeerv1.ResolveBindingsRequest{Model: "mdl/default/adder@1"})
	require.NoError(t, err)
	require.Len(t, out.GetUnknown(), 1)
}

func TestCreateModelVersion_rejections(t *testing.T) {
	t.Parallel()
	h := open(t)
	m := h.model(ann(), "adder")
	create := func(c *authn.Caller, s *registryv1.ModelSource) error {
		_, err := h.models.CreateModelVersion(h.as(c), &registryv1.CreateModelVersionRequest{ModelId: m.GetId(), Source: s})
		return err
	}
	mine := h.artifact(ann(), "gguf", false, ggufFile("mine"))
	theirs := h.artifact(bob(), "gguf", false, ggufFile("theirs"))
	refused(t, create(bob(), mine), fault.Forbidden, "only by its owner")
	refused(t, create(ann(), theirs), fault.Absent, "no such run: "+theirs.GetRunId())
	refused(t, create(ann(), &registryv1.ModelSource{RunId: mine.GetRunId(), ArtifactId: theirs.GetArtifactId()}), fault.Absent, "no such artifact")
	refused(t, create(ann(), &registryv1.ModelSource{RunId: "run_none", ArtifactId: "x"}), fault.Absent, "no such run: run_none")
	refused(t, create(ann(), h.artifact(ann(), "pickle", false, []byte("x"))), fault.Refused, "use gguf, safetensors or peft")
	refused(t, create(ann(), h.artifact(ann(), "gguf", true, []byte("y"))), fault.Refused, "one file")
	report := h.artifact(ann(), "gguf", false, []byte("z"))
	h.runs.artifacts[report.GetArtifactId()].Artifact.Kind = "eval_report"
	refused(t, create(ann(), report), fault.Refused, "no weights")
	local := h.artifact(ann(), "gguf", false, []byte("w"))
	h.runs.artifacts[local.GetArtifactId()].Uri = "/tmp/model.gguf"
	refused(t, create(ann(), local), fault.Refused, "object store")
	_, err := h.models.CreateModel(h.as(ann()), &registryv1.CreateModelRequest{Name: "adder"})
	refused(t, err, fault.Conflict, "already has a model adder")
	_, err = h.models.GetModelVersion(h.as(ann()), &registryv1.GetModelVersionRequest{ModelId: m.GetId(), Version: 1})
	refused(t, err, fault.Absent, "no such model version")
	list, err := h.models.ListModels(h.as(ann()), &registryv1.ListModelsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetModels(), 1)
}
