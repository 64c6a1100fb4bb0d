package registry_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/recipes"
)

func TestRecipeServer_builtInRecipes(t *testing.T) {
	t.Parallel()
	h := open(t)
	list, err := h.recipes.ListRecipes(h.as(ann()), &registryv1.ListRecipesRequest{})
	require.NoError(t, err)
	var names []string
	for _, r := range list.GetRecipes() {
		names = append(names, r.GetName())
	}
	require.Equal(t, []string{"custom/custom", "demo/chat-tiny", "pref/dpo", "rl/grpo", "sft/full", "sft/lora"}, names)
	r, err := h.recipes.GetRecipe(h.as(ann()), &registryv1.GetRecipeRequest{Namespace: "demo", Name: "chat-tiny"})
	require.NoError(t, err)
	require.True(t, proto.Equal(list.GetRecipes()[1], r))
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, r.GetDigest())
	require.Contains(t, string(r.GetParamsSchema()), "optim.lr")
	require.Equal(t, []string{"val/exact_match", "train/loss"}, r.GetCharts())
	lock, err := h.recipes.GetRecipeLock(h.as(ann()), &registryv1.GetRecipeLockRequest{
		Namespace: "demo", Name: "chat-tiny", Version: r.GetVersion(),
	})
	require.NoError(t, err)
	require.Equal(t, "service/v1", lock.GetApi())
	require.Equal(t, r.GetDigest(), lock.GetDigest())
	require.Equal(t, "numpy-cpu-py311", lock.GetFramework().GetRuntimeId())
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`, lock.GetLockedAt())
	require.Regexp(t, `^sha256:`, lock.GetCatalogDigest())
	require.Regexp(t, `^sha256:`, lock.GetParamsSchemaDigest())

	_, err = h.recipes.GetRecipe(h.as(ann()), &registryv1.GetRecipeRequest{Namespace: "demo", Name: "none"})
	refused(t, err, fault.Absent, "demo/none")
	_, err = h.recipes.GetRecipeVersion(h.as(ann()), &registryv1.GetRecipeVersionRequest{Namespace: "demo", Name: "chat-tiny", Version: "9.9.9"})
	refused(t, err, fault.Absent, "demo/chat-tiny has no version 9.9.9")
}

func TestGetCatalogRecipe_returnsPackage(t *testing.T) {
	t.Parallel()
	h := open(t)
	out, err := h.catalog.GetCatalogRecipe(h.as(ann()), &registrypeerv1.GetCatalogRecipeRequest{Name: "demo/chat-tiny"})
	require.NoError(t, err)
	require.Len(t, out.GetVersions(), 1)
	v := out.GetVersions()[0]
	require.Equal(t, []string{"python", "-m", "chat_tiny.train"}, v.GetEntrypoint())
	require.Equal(t, []string{"train"}, v.GetRequiredDatasets())
	require.Equal(t, "sha256:"+sum([]byte(v.GetEnvironment().GetRequirements())), v.GetEnvironment().GetDigest())
	require.True(t, v.GetEnvironment().GetSdk())
	require.True(t, v.GetPackage().GetUnpack())
	key, ok := blob.ParseURI(v.GetPackage().GetUri())
	require.True(t, ok)
	body, info, err := h.blobs.Get(t.Context(), key)
	require.NoError(t, err)
	defer func() { require.NoError(t, body.Close()) }()
	require.Equal(t, v.GetPackage().GetSha256(), info.SHA256)
	in := tar.NewReader(body)
	found := map[string]string{}
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		data, err := io.ReadAll(in)
		require.NoError(t, err)
		found[e.Name] = string(data)
		require.Zero(t, e.ModTime.Unix())
	}
	want, err := fs.ReadFile(recipes.FS(), "demo/chat-tiny/chat_tiny/train.py")
	require.NoError(t, err)
	require.Equal(t, string(want), found["chat_tiny/train.py"])
	require.Contains(t, found, "recipe.json")

	_, err = h.catalog.GetCatalogRecipe(h.as(ann()), &registrypeerv1.GetCatalogRecipeRequest{Name: "demo/none"})
	refused(t, err, fault.Absent, "demo/none")
}

// oneRecipe returns a catalog with one recipe of the given version and code.
func oneRecipe(version, code string) fstest.MapFS {
	manifest := `{"api":"service/v1","name":"a/b","version":"` + version + `","title":"t","description":"d",` +
		`"framework":{"name":"n","runtime_id":"r"},"entrypoint":["x"],"params_schema":{"type":"object"},"state":"active"}`
	return fstest.MapFS{"a/b/recipe.json": {Data: []byte(manifest)}, "a/b/x.py": {Data: []byte(code)}}
}

func TestRecipeDigest_changesWithCodeNotRestart(t *testing.T) {
	t.Parallel()
	h := build(t)
	lock := func() *registryv1.RecipeLockDocument {
		l, err := h.recipes.GetRecipeLock(h.as(ann()), &registryv1.GetRecipeLockRequest{Namespace: "a", Name: "b", Version: "1.9.0"})
		require.NoError(t, err)
		return l
	}
	restart := func(files fs.FS) (stop func()) {
		h.files = files
		stop = h.start(h.bus)
		h.connect(h.bus)
		return stop
	}
	stop := restart(oneRecipe("1.9.0", "print(1)"))
	first := lock()
	stop()
	stop = restart(oneRecipe("1.9.0", "print(1)"))
	require.True(t, proto.Equal(first, lock()), "a restart changes nothing")
	stop()
	stop = restart(oneRecipe("1.9.0", "print(2)"))
	require.NotEqual(t, first.GetDigest(), lock().GetDigest(), "a recipe with other code has another digest")
	stop()
	restart(oneRecipe("1.10.0", "print(3)"))
	newest, err := h.recipes.GetRecipe(h.as(ann()), &registryv1.GetRecipeRequest{Namespace: "a", Name: "b"})
	require.NoError(t, err)
	require.Equal(t, "1.10.0", newest.GetVersion(), "versions compare by number, not as text")
	require.NotEqual(t, first.GetCatalogDigest(), lock().GetCatalogDigest())
}

func TestResolveBindings_callerRights(t *testing.T) {
	t.Parallel()
	h := open(t)
	team := member(ann(), "editor")
	data := []byte("{}\n")
	mine := h.dataset(team, "sums", "search")
	h.push(team, mine, "v1", data)
	shared := h.dataset(ann(), "shared", "")
	h.push(ann(), shared, "v1", data)
	secret := h.dataset(ann(), "secret", "")
	h.push(ann(), secret, "v1", data)
	_, err := h.db.Pool("registry").Exec(t.Context(), `UPDATE dataset SET protected = true WHERE id = $1`, secret.GetId())
	require.NoError(t, err)
	refs := map[string]string{
		"a": "ds/search/sums@v1", "b": "ds/default/shared@latest", "c": "ds/default/secret@v1", "d": "ds/default/none@v1", "e": "nonsense",
	}
	out, err := h.catalog.ResolveBindings(h.as(bob()), &registrypeerv1.ResolveBindingsRequest{Datasets: refs, Model: "mdl/default/none@1"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"ds/search/sums@v1", "ds/default/none@v1", "nonsense", "mdl/default/none@1"}, out.GetUnknown())
	require.Equal(t, []string{"ds/default/secret@v1"}, out.GetUnreadable())
	require.Len(t, out.GetDatasets(), 1)
	require.Equal(t, "ds/default/shared@v1", out.GetDatasets()[0].GetRef(), "latest resolves to an exact version")

	out, err = h.catalog.ResolveBindings(h.as(team), &registrypeerv1.ResolveBindingsRequest{Datasets: refs})
	require.NoError(t, err)
	require.Len(t, out.GetDatasets(), 3)
	f := out.GetDatasets()[0].GetFiles()[0]
	require.Equal(t, "train.jsonl", f.GetPath())
	key, ok := blob.ParseURI(f.GetUri())
	require.True(t, ok)
	body, _, err := h.blobs.Get(t.Context(), key)
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	require.True(t, bytes.Equal(data, got))
}
