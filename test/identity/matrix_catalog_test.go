package identity

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// catalog creates datasets, a package, an environment, a rubric, a solution and an application of the solution in a
// project, as the person p.
func (w *harness) catalog(ctx context.Context, t *testing.T, p *person, o objects) {
	t.Helper()
	of := func(name string) string { return name + "-" + o["project"] }
	create := func(path string, body map[string]any) string {
		var made struct {
			ID string `json:"id"`
		}
		p.do(ctx, t, w.Installation, http.MethodPost, path, body, &made)
		return made.ID
	}
	for _, name := range []string{"train", "held"} {
		id := create("/api/datasets", map[string]any{"name": of(name), "project": o["project"]})
		w.uploadFile(ctx, t, p, id, "v1", []byte(`{"text": "`+of(name)+`"}`+"\n"))
		p.do(ctx, t, w.Installation, http.MethodPost, "/api/datasets/"+id+"/versions/v1/commit", nil, nil)
	}
	o["package_id"] = w.uploadPackage(ctx, t, p, o["project"])
	p.do(ctx, t, w.Installation, http.MethodPost, "/api/recipes", map[string]any{"package_id": o["package_id"]}, nil)
	o["namespace"], o["name"], o["recipe_version"] = o["project"], "own", "1.0"
	o["environment_id"] = create("/api/environments", map[string]any{"name": of("of"), "project": o["project"]})
	o["environment_version"] = "v1"
	w.environment(ctx, t, p, o["environment_id"], o["environment_version"])
	o["rubric_id"] = create("/api/rubrics", map[string]any{"name": of("of"), "project": o["project"]})
	create("/api/rubrics/"+o["rubric_id"]+"/versions", map[string]any{
		"content": map[string]any{"criteria": []any{map[string]any{"key": "right", "weight": 1, "kind": "exact"}}},
	})
	p.do(ctx, t, w.Installation, http.MethodPost, "/api/rubrics/"+o["rubric_id"]+"/versions/1/publish", nil, nil)
	manifest := map[string]any{"name": of("of"), "version": "1", "recipe": recipe + "@" + w.catalogVersion}
	o["solution_id"] = create("/api/solutions", map[string]any{"project": o["project"], "manifest": manifest})
	o["application_id"] = create("/api/solution-applications", map[string]any{
		"project": o["project"], "solution": of("of") + "@1", "bindings": map[string]string{
			"model": "mdl/" + o["project"] + "/" + of("of") + "@1", "train_dataset": "ds/" + o["project"] + "/" + of("train") + "@v1",
			"validation_dataset": "ds/" + o["project"] + "/" + of("held") + "@v1", "taskset": "env/" + o["project"] + "/" + of("of") + "@v1",
			"rubric": "rub/" + o["project"] + "/" + of("of") + "@1",
		},
	})
}

// uploadPackage uploads and commits a package with the manifest of the recipe own.
func (w *harness) uploadPackage(ctx context.Context, t *testing.T, p *person, project string) string {
	t.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	manifest := []byte(`{"api": "service/v1", "name": "` + project + `/own", "version": "1.0", "title": "Own", "entrypoint": ["true"],
		"framework": {"name": "none", "runtime_id": "none-1"}, "params_schema": {"type": "object"}}`)
	require.NoError(t, out.WriteHeader(&tar.Header{Name: "recipe.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(manifest))}))
	_, err := out.Write(manifest)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	sum := sha256.Sum256(b.Bytes())
	var made struct {
		ID     string `json:"id"`
		Upload upload `json:"upload"`
	}
	p.do(ctx, t, w.Installation, http.MethodPost, "/api/submit/packages",
		map[string]any{"project": project, "size_bytes": b.Len(), "sha256": hex.EncodeToString(sum[:])}, &made)
	put(ctx, t, made.Upload, b.Bytes())
	p.do(ctx, t, w.Installation, http.MethodPost, "/api/submit/packages/"+made.ID+"/commit", nil, nil)
	return made.ID
}

// environment creates a version of an environment and waits until the version is ready.
func (w *harness) environment(ctx context.Context, t *testing.T, p *person, id, version string) {
	t.Helper()
	tasks := []byte(`{"prompt": "of ` + id + `"}` + "\n")
	sum := sha256.Sum256(tasks)
	digest := hex.EncodeToString(sum[:])
	var target upload
	p.do(ctx, t, w.Installation, http.MethodPost, "/api/environments/"+id+"/upload-url",
		map[string]any{"kind": "taskset", "size_bytes": len(tasks), "sha256": digest}, &target)
	put(ctx, t, target, tasks)
	p.do(ctx, t, w.Installation, http.MethodPost, "/api/environments/"+id+"/versions", map[string]any{
		"version": version, "manifest": map[string]any{"api": "env/v1", "entry": "a:B", "taskset": map[string]any{"digest": "sha256:" + digest, "count": 1}},
	}, nil)
	require.Eventually(t, func() bool {
		var v struct {
			State string `json:"state"`
		}
		a := p.call(ctx, t, w.Installation, http.MethodGet, "/api/environments/"+id+"/versions/"+version, "")
		return json.Unmarshal(a.body, &v) == nil && v.State == "ready"
	}, time.Minute, 50*time.Millisecond, "the version does not become ready")
}

// waitingVersion creates a version whose files are never uploaded.
func (w *harness) waitingVersion(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	o["environment_version"] = w.unique()
	sum := sha256.Sum256([]byte(o["environment_version"]))
	w.people["admin"].do(ctx, t, w.Installation, http.MethodPost, "/api/environments/"+o["environment_id"]+"/versions", map[string]any{
		"version": o["environment_version"], "manifest": map[string]any{
			"api": "env/v1", "entry": "a:B", "taskset": map[string]any{"digest": "sha256:" + hex.EncodeToString(sum[:]), "count": 1},
		},
	}, nil)
}
