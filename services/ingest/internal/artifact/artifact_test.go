package artifact

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

const sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestUpload_Key_anyPathGivesValidKey(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"out/model.gguf": "model.gguf", "model.gguf": "model.gguf", `c:\out\m.tar`: "m.tar", "../../x": "x", "..": "object", ".": "object",
		"": "object", "/": "_", ".hidden": "hidden", "a b\x00ü": "a_b__", "x/": "x", strings.Repeat("a", 300) + ".gguf": strings.Repeat("a", 95) + ".gguf",
		strings.Repeat(".", 300): "object", "a/" + strings.Repeat(".b", 60): "b" + strings.Repeat(".b", 49),
	}
	for path, want := range cases {
		u := &Upload{RunID: "run_1", Attempt: 3, Kind: "hf_export", Path: path, SHA256: sum}
		require.Equal(t, "runs/run_1/3/hf_export/"+sum+"/"+want, u.Key(), path)
		require.NoError(t, blob.CheckKey(u.Key()), path)
	}
}

// objects is an object store in memory.
type objects map[string]blob.Info

func (o objects) Stat(_ context.Context, key string) (blob.Info, error) {
	if info, ok := o[key]; ok {
		return info, nil
	}
	return blob.Info{}, blob.Absent(key)
}

func (o objects) SignPut(context.Context, string, blob.SignOptions) (blob.Signed, error) {
	return blob.Signed{}, errors.New("unexpected call of SignPut")
}

func TestRegistrar_Inspect_ownUploadsOnly(t *testing.T) {
	t.Parallel()
	good := "runs/run_1/1/checkpoint/" + sum + "/m.tar"
	swapped := "runs/run_1/2/checkpoint/" + sum + "/m.tar"
	r := &Registrar{Holds: &heldKeys{}, Blobs: objects{good: {Size: 4, SHA256: sum}, swapped: {Size: 4, SHA256: strings.Repeat("0", 64)}}}
	size := int64(4)
	a, err := r.Inspect(t.Context(), &report.Artifact{RunID: "run_1", Kind: "checkpoint", Path: blob.URI(good), Size: &size}, true)
	require.NoError(t, err)
	require.Equal(t, sum, a.SHA256)
	require.True(t, a.Packed())
	require.Equal(t, blob.URI(good), a.URI())
	for path, code := range map[string]string{
		blob.URI(swapped): "digest_mismatch", blob.URI(good) + "x": "not_uploaded", blob.URI("runs/run_10/1/checkpoint/" + sum + "/m.tar"): "path",
		blob.URI("runs/run_1/checkpoint/" + sum + "/m.tar"): "path", "/local": "path",
	} {
		_, err := r.Inspect(t.Context(), &report.Artifact{RunID: "run_1", Kind: "checkpoint", Path: path}, true)
		require.True(t, fault.HasCode(err, code) && fault.Is(err, fault.Refused), "%s: %v", path, err)
	}
	a, err = r.Inspect(t.Context(), &report.Artifact{RunID: "run_1", Kind: "checkpoint", Path: "/local/m.tar", Size: &size}, false)
	require.NoError(t, err)
	require.Empty(t, a.URI())
	require.False(t, a.Packed())
}
