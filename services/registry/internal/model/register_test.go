package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
)

func TestCreateModelVersion_describesArtifact(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	a := d.artifact("art_1", "safetensors", weights(5))
	v, err := d.register(ann(t), m, "art_1")
	require.NoError(t, err)
	require.NoError(t, id.Check(id.ModelVersion, v.GetId()))
	require.True(t, proto.Equal(&registryv1.ModelVersion{
		Id: v.GetId(), ModelId: m.GetId(), Version: 1, Ref: "mdl/team/adder@1", Status: "ready", Lifecycle: "candidate",
		Source: &registryv1.ModelSource{RunId: "run_ann", ArtifactId: "art_1"}, Format: "safetensors", Digest: "sha256:" + a.SHA256,
		SizeBytes: a.Size, Facts: []byte(`{"parameters":5,"tensors":1,"dtype":"u8"}`), CreatedAt: v.GetCreatedAt(),
	}, v), "%v", v)
	got, err := d.GetModelVersion(ann(t), &registryv1.GetModelVersionRequest{ModelId: m.GetId(), Version: 1})
	require.NoError(t, err)
	require.True(t, proto.Equal(v, got), "GetModelVersion returns what CreateModelVersion returned")
}

func TestCreateModelVersion_unsuitableArtifact(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	put := func(artifactID string, change func(a *Artifact)) string {
		change(d.artifact(artifactID, "safetensors", weights(len(d.runs)+1)))
		return artifactID
	}
	cases := map[string]struct {
		artifact, words string
		kind            fault.Kind
	}{
		"eval report":             {put("a1", func(a *Artifact) { a.Kind = "eval_report" }), "contain no weights", fault.Refused},
		"pickle":                  {put("a2", func(a *Artifact) { a.Format = "pickle" }), "use gguf, safetensors or peft", fault.Refused},
		"format in upper case":    {put("a3", func(a *Artifact) { a.Format = "GGUF" }), "use gguf, safetensors or peft", fault.Refused},
		"packed gguf":             {put("a4", func(a *Artifact) { a.Format, a.Packed = "gguf", true }), "one file", fault.Refused},
		"host path":               {put("a5", func(a *Artifact) { a.URI = "/etc/passwd" }), "not in the object store", fault.Refused},
		"path traversal":          {put("a6", func(a *Artifact) { a.URI = "blob://../../etc/passwd" }), "not in the object store", fault.Refused},
		"another store":           {put("a7", func(a *Artifact) { a.URI = "s3://bucket/key" }), "not in the object store", fault.Refused},
		"no digest":               {put("a8", func(a *Artifact) { a.SHA256 = "" }), "not in the object store", fault.Refused},
		"missing object":          {put("a9", func(a *Artifact) { a.URI = blob.URI("runs/ann/none") }), "not in the object store", fault.Refused},
		"unknown artifact":        {"a99", "no such artifact: a99", fault.Absent},
		"artifact of another run": {put("a10", func(a *Artifact) { a.RunID = "run_else" }), "no such artifact", fault.Absent},
	}
	for name, c := range cases {
		_, err := d.register(ann(t), m, c.artifact)
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		require.Contains(t, fault.From(err).Text(), c.words, name)
		require.NotContains(t, fault.From(err).Text(), "runs/", "%s: the error must not contain an object key", name)
	}
	list, err := d.ListModelVersions(ann(t), &registryv1.ListModelVersionsRequest{ModelId: m.GetId()})
	require.NoError(t, err)
	require.Empty(t, list.GetVersions())
}

func TestCreateModelVersion_hiddenRunLooksAbsent(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	a := d.artifact("art_1", "safetensors", weights(5))
	ask := func(runID string) error {
		a.RunID = runID
		_, err := d.CreateModelVersion(ann(t), &registryv1.CreateModelVersionRequest{
			ModelId: m.GetId(), Source: &registryv1.ModelSource{RunId: runID, ArtifactId: "art_1"},
		})
		return err
	}
	hidden, none := ask("run_else"), ask("run_none")
	require.True(t, fault.Is(hidden, fault.Absent))
	require.Equal(t, fault.From(none).Text(), strings.ReplaceAll(fault.From(hidden).Text(), "run_else", "run_none"))
	require.Equal(t, fault.From(none).Code, fault.From(hidden).Code)
	require.NoError(t, ask("run_shown"))
}

func TestCreateModelVersion_mismatchedFileRejected(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	cases := map[string]struct {
		data   []byte
		change func(a *Artifact)
		words  string
	}{
		"another size":   {weights(5), func(a *Artifact) { a.Size++ }, "model.safetensors does not match"},
		"another digest": {weights(6), func(a *Artifact) { a.SHA256 = strings.Repeat("0", 64) }, "model.safetensors does not match"},
		"another format": {weights(7), func(a *Artifact) { a.Format = FormatGGUF }, "not GGUF"},
		"not a tar":      {weights(8), func(a *Artifact) { a.Packed = true }, "tar"},
		"cut weights":    {weights(9)[:len(weights(9))-1], func(*Artifact) {}, "the file has 8 of 9 bytes of tensor data"},
	}
	n := int32(0)
	for name, c := range cases {
		artifactID := fmt.Sprintf("art_%d", n)
		c.change(d.artifact(artifactID, FormatSafetensors, c.data))
		v, err := d.register(ann(t), m, artifactID)
		require.NoError(t, err, "%s: the rejection is a version, not an error", name)
		n++
		require.Equal(t, []any{n, "rejected"}, []any{v.GetVersion(), v.GetStatus()}, name)
		require.Contains(t, v.GetStatusReason(), c.words, name)
		require.JSONEq(t, `{"parameters":0,"tensors":0}`, string(v.GetFacts()), "%s: a rejected version has no facts", name)
	}
	got, err := d.GetModel(ann(t), &registryv1.GetModelRequest{ModelId: m.GetId()})
	require.NoError(t, err)
	require.Nil(t, got.LatestVersion)
}

func TestCreateModelVersion_storeFailure(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	d.artifact("art_1", FormatSafetensors, weights(5))
	whole := d.Blobs
	d.Blobs = unavailableStore{whole}
	_, err := d.register(ann(t), m, "art_1")
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	d.Blobs = whole
	v, err := d.register(ann(t), m, "art_1")
	require.NoError(t, err)
	require.Equal(t, []any{int32(1), "ready"}, []any{v.GetVersion(), v.GetStatus()}, "a failed registration uses no number")
}

func TestCreateModelVersion_concurrentSameBytes(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	for n := range 4 {
		d.artifact(fmt.Sprintf("art_%d", n), FormatSafetensors, weights(5))
	}
	results, statuses, errs := make([]*registryv1.ModelVersion, 8), make([]string, 8), make([]error, 8)
	var wg sync.WaitGroup
	for i := range results {
		ctx, h := as(t, "usr_1", authn.ProjectEditor, "")
		wg.Go(func() {
			results[i], errs[i] = d.register(ctx, m, fmt.Sprintf("art_%d", i%4))
			statuses[i] = strings.Join(h.sent.Get("x-service-status"), "")
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	fresh := 0
	for i, v := range results {
		require.True(t, proto.Equal(results[0], v))
		if statuses[i] == "" {
			fresh++
			continue
		}
		require.Equal(t, "200", statuses[i])
	}
	require.Equal(t, 1, fresh, "one call creates the version, the others find it")
	events, err := event.List(t.Context(), d.pool, SubjectKind, m.GetId(), request.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, events, 2, "events created and version")
	rows, err := audit.List(t.Context(), d.pool, audit.Filter{}, request.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, rows, 2)
}

func TestCreateModelVersion_sameBytesInTwoModels(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	d.artifact("art_1", FormatSafetensors, weights(5))
	for _, name := range []string{"one", "two"} {
		v, err := d.register(ann(t), d.model(name), "art_1")
		require.NoError(t, err)
		require.EqualValues(t, 1, v.GetVersion())
	}
}

func TestCreateModelVersion_idempotencyKey(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	d.artifact("art_1", FormatSafetensors, weights(5))
	d.artifact("art_2", FormatSafetensors, weights(6))
	ctx, _ := as(t, "usr_1", authn.ProjectEditor, "k")
	first, err := d.register(ctx, m, "art_1")
	require.NoError(t, err)
	delete(d.runs, "art_1")
	again, err := d.register(ctx, m, "art_1")
	require.NoError(t, err, "the repeat does not need the artifact")
	require.True(t, proto.Equal(first, again))
	_, err = d.register(ctx, m, "art_2")
	require.True(t, fault.HasCode(err, "idempotency_key") && fault.Is(err, fault.Conflict), "%v", err)
}

func TestModelStore_InsertVersion_rollback(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	d.artifact("art_1", FormatSafetensors, weights(5))
	broken := errors.New("broken")
	err := d.tx(func(ctx context.Context, tx pgx.Tx) error {
		_, fresh, err := d.InsertVersion(ctx, tx, &Version{
			ID: "mv_1", ModelID: m.GetId(), Status: StatusReady, Lifecycle: lifecycleCandidate, Format: FormatGGUF, Digest: "d", Facts: []byte(`{}`),
		})
		require.NoError(t, err)
		require.True(t, fresh)
		return broken
	})
	require.ErrorIs(t, err, broken)
	v, err := d.register(ann(t), m, "art_1")
	require.NoError(t, err)
	require.EqualValues(t, 1, v.GetVersion(), "a rolled back insert uses no number")
}

// unavailableStore is an object store whose reads fail.
type unavailableStore struct{ blob.Store }
