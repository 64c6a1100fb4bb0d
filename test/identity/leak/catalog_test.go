package leak

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// do sends a request as the admin. The request must succeed.
func (h *installation) do(ctx context.Context, t *testing.T, method, path string, body, out any) {
	t.Helper()
	require.NoError(t, h.admin.Do(ctx, method, path, body, out), "%s %s", method, path)
}

// create creates an object and returns its id.
func (h *installation) create(ctx context.Context, t *testing.T, path string, body map[string]any) string {
	t.Helper()
	var out struct{ ID string }
	h.do(ctx, t, http.MethodPost, path, body, &out)
	return out.ID
}

// upload is a signed upload request.
type upload struct {
	URL, Method string
	Headers     map[string]string
}

func (h *installation) put(ctx context.Context, t *testing.T, u upload, data []byte) {
	t.Helper()
	require.NoError(t, h.admin.Upload(ctx, u.Method, u.URL, u.Headers, data))
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// catalog calls the changing routes of datasets, environments, rubrics, solutions and packages.
func (h *installation) catalog(ctx context.Context, t *testing.T) {
	t.Helper()
	refs := map[string]string{}
	for _, split := range []string{"train", "held"} {
		l := &e2eflow.Loop{Client: h.admin, Clock: clock.Real(), Timeout: testenv.StageTimeout, Name: h.loop.Name + "-" + split}
		pushed, err := l.PushDataset(ctx, "v1", "a.jsonl", []byte(`{"question": "to be `+split+`"}`+"\n"))
		require.NoError(t, err)
		refs[split], refs["dataset"] = pushed.Ref, pushed.ID
	}
	environment := h.environment(ctx, t)
	rubric := h.create(ctx, t, "/api/rubrics", map[string]any{"name": h.loop.Name})
	criteria := map[string]any{"criteria": []any{map[string]any{"key": "right", "kind": "exact", "weight": 1}}}
	h.do(ctx, t, http.MethodPost, "/api/rubrics/"+rubric+"/versions", map[string]any{"content": criteria}, nil)
	h.do(ctx, t, http.MethodPost, "/api/rubrics/"+rubric+"/versions/1/publish", nil, nil)

	_, version, err := h.loop.Lock(ctx, e2eflow.Recipe)
	require.NoError(t, err)
	h.create(ctx, t, "/api/solutions", map[string]any{"manifest": map[string]any{"name": h.loop.Name, "version": "1", "recipe": e2eflow.Recipe + "@" + version}})
	h.create(ctx, t, "/api/solution-applications", map[string]any{"solution": h.loop.Name + "@1", "bindings": map[string]string{
		"model": fmt.Sprintf("mdl/default/%s@%d", h.loop.Name, h.version.Version), "train_dataset": refs["train"],
		"validation_dataset": refs["held"], "taskset": "env/default/" + h.loop.Name + "@v1", "rubric": "rub/default/" + h.loop.Name + "@1",
	}})
	h.do(ctx, t, http.MethodPost, environment+"/versions/v1/deprecate", nil, nil)
	dataset := "/api/datasets/" + refs["dataset"]
	h.do(ctx, t, http.MethodPatch, dataset, map[string]any{"description": "held out"}, nil)
	h.do(ctx, t, http.MethodPost, dataset+"/versions/v1/download-url", map[string]any{"path": "a.jsonl"}, nil)
	h.do(ctx, t, http.MethodPost, dataset+"/versions/v1/archive", nil, nil)
	h.do(ctx, t, http.MethodPost, dataset+"/versions", map[string]any{
		"version": "v2", "files": []any{map[string]any{"path": "a", "size_bytes": 0, "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},
	}, nil)
	h.do(ctx, t, http.MethodDelete, dataset+"/versions/v2", nil, nil)
	h.publishRecipe(ctx, t, h.uploadPackage(ctx, t))
}

// environment creates an environment with a ready version and returns its path. It also creates and deletes
// another environment.
func (h *installation) environment(ctx context.Context, t *testing.T) string {
	t.Helper()
	at := "/api/environments/" + h.create(ctx, t, "/api/environments", map[string]any{"name": h.loop.Name})
	tasks := []byte(`{"prompt": "of ` + h.loop.Name + `"}` + "\n")
	var target upload
	h.do(ctx, t, http.MethodPost, at+"/upload-url", map[string]any{"kind": "taskset", "size_bytes": len(tasks), "sha256": digestOf(tasks)}, &target)
	h.put(ctx, t, target, tasks)
	var v struct{ State string }
	h.do(ctx, t, http.MethodPost, at+"/versions", map[string]any{"version": "v1", "manifest": map[string]any{
		"api": "env/v1", "entry": "a:B", "taskset": map[string]any{"digest": "sha256:" + digestOf(tasks), "count": 1},
	}}, nil)
	h.Until(ctx, "the version is ready", func() bool {
		h.do(ctx, t, http.MethodGet, at+"/versions/v1", nil, &v)
		return v.State == "ready"
	})
	h.do(ctx, t, http.MethodPatch, at, map[string]any{"description": "additions"}, nil)
	other := "/api/environments/" + h.create(ctx, t, "/api/environments", map[string]any{"name": h.loop.Name + "-old"})
	h.do(ctx, t, http.MethodDelete, other, nil, nil)
	return at
}

// publishRecipe publishes a package as a recipe, and changes its state.
func (h *installation) publishRecipe(ctx context.Context, t *testing.T, packageID string) {
	t.Helper()
	h.do(ctx, t, http.MethodPost, "/api/recipes", map[string]any{"package_id": packageID}, nil)
	h.do(ctx, t, http.MethodPatch, "/api/recipes/default/"+h.loop.Name+"/versions/1.0", map[string]any{"state": "deprecated"}, nil)
}

// uploadPackage uploads and commits a package with the manifest of a recipe, and returns its id.
func (h *installation) uploadPackage(ctx context.Context, t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	manifest := []byte(`{"api": "service/v1", "name": "default/` + h.loop.Name + `", "version": "1.0", "title": "Own", "entrypoint": ["true"],
		"framework": {"name": "none", "runtime_id": "none-1"}, "params_schema": {"type": "object"}}`)
	require.NoError(t, out.WriteHeader(&tar.Header{Name: "recipe.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(manifest))}))
	_, err := out.Write(manifest)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	var created struct {
		ID     string
		Upload upload
	}
	h.do(ctx, t, http.MethodPost, "/api/submit/packages", map[string]any{"size_bytes": b.Len(), "sha256": digestOf(b.Bytes())}, &created)
	h.put(ctx, t, created.Upload, b.Bytes())
	h.do(ctx, t, http.MethodPost, "/api/submit/packages/"+created.ID+"/commit", nil, nil)
	return created.ID
}

// createModel creates and changes a model and a deployment, and opens a playground session.
func (h *installation) createModel(ctx context.Context, t *testing.T) {
	t.Helper()
	version := map[string]any{"source": map[string]string{"run_id": h.loop.Job.RunID, "artifact_id": h.artifact}}
	model := h.create(ctx, t, "/api/models", map[string]any{"name": h.loop.Name + "-kept"})
	at := "/api/models/" + model
	h.do(ctx, t, http.MethodPost, at+"/versions", version, nil)
	h.do(ctx, t, http.MethodPost, at+"/uploads", map[string]any{
		"files": []any{map[string]any{"path": "model.gguf", "size_bytes": 1, "sha256": digestOf([]byte("x"))}},
	}, nil)
	h.do(ctx, t, http.MethodPatch, at, map[string]any{"description": "additions"}, nil)
	h.do(ctx, t, http.MethodPut, at+"/aliases/steady", map[string]any{"version": 1}, nil)
	h.do(ctx, t, http.MethodDelete, at+"/aliases/steady", nil, nil)
	h.do(ctx, t, http.MethodPut, at+"/versions/1/card", map[string]any{"content": "# Additions"}, nil)
	h.do(ctx, t, http.MethodPost, at+"/versions/1/promote", map[string]any{}, nil)
	h.do(ctx, t, http.MethodPost, at+"/versions/1/archive", map[string]any{}, nil)
	h.do(ctx, t, http.MethodPost, at+"/versions/1/unarchive", nil, nil)
	h.changeDeployment(ctx, t, model)

	target := map[string]any{
		"source":  map[string]any{"model_id": model, "version": 1},
		"serving": map[string]any{"engine": "command", "command": []string{"sleep", "600"}, "pool": "nowhere"},
	}
	session := "/api/playground/sessions/" + h.create(ctx, t, "/api/playground/sessions", map[string]any{"ttl_s": 900, "targets": []any{target}})
	h.do(ctx, t, http.MethodPost, session+"/extend", map[string]any{"seconds": 600}, nil)
	h.do(ctx, t, http.MethodDelete, session, nil, nil)
	gone := h.create(ctx, t, "/api/models", map[string]any{"name": h.loop.Name + "-gone"})
	h.do(ctx, t, http.MethodDelete, "/api/models/"+gone, nil, nil)
}

// changeDeployment creates deployments and calls the routes that change or delete them.
func (h *installation) changeDeployment(ctx context.Context, t *testing.T, model string) {
	t.Helper()
	l := &e2eflow.Loop{Client: h.admin, Clock: clock.Real(), Timeout: testenv.StageTimeout, Name: h.loop.Name + "-kept"}
	of, serving := e2eflow.ModelVersion{ModelID: model, Version: 1}, map[string]any{"engine": "command", "command": fixtures.Engine()}
	require.NoError(t, l.Deploy(ctx, l.Name, of, serving))
	at := "/api/model-deployments/" + l.Deployment.ID
	for again := range 2 {
		if again > 0 {
			require.NoError(t, l.Revise(ctx, of, serving))
		}
		require.NoError(t, l.AwaitReady(ctx), h.Tail())
		require.NoError(t, l.Promote(ctx))
	}
	h.do(ctx, t, http.MethodPost, at+"/rollback", map[string]any{}, nil)
	h.do(ctx, t, http.MethodPost, at+"/revisions/2/stop", nil, nil)
	h.do(ctx, t, http.MethodPost, at+"/revisions/2/start", nil, nil)
	h.do(ctx, t, http.MethodPost, at+"/revisions/2/stop", nil, nil)
	h.do(ctx, t, http.MethodPatch, at, map[string]any{"description": "additions"}, nil)
	h.do(ctx, t, http.MethodPost, at+"/suspend", map[string]any{}, nil)
	h.do(ctx, t, http.MethodPost, at+"/resume", nil, nil)
	gone := h.create(ctx, t, "/api/model-deployments", map[string]any{"name": h.loop.Name + "-gone"})
	h.do(ctx, t, http.MethodDelete, "/api/model-deployments/"+gone, nil, nil)
}

// trustRecipe marks the demo's recipe as trusted with protected datasets.
func (h *installation) trustRecipe(ctx context.Context, t *testing.T) {
	t.Helper()
	const name = "demo/chat-tiny"
	var newest struct{ Version, Digest string }
	require.NoError(t, h.admin.Get(ctx, "/api/recipes/"+name, nil, &newest))
	path := "/api/admin/recipes/" + name + "/versions/" + newest.Version + "/trust"
	require.NoError(t, h.admin.Do(ctx, http.MethodPut, path, map[string]any{"digest": newest.Digest, "trusted": true}, nil))
}
