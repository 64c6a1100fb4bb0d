package contract

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// reference returns the reference that bindings use for an object of the shared project.
func reference(kind, name, version string) string {
	return kind + "/" + projectKey + "/" + name + "@" + version
}

// file returns a manifest with one file, and the digest of the file.
func file(data string) (files []any, digest string) {
	sum := sha256.Sum256([]byte(data))
	digest = hex.EncodeToString(sum[:])
	return []any{map[string]any{"path": "a.jsonl", "size_bytes": len(data), "sha256": digest}}, digest
}

// createDataset creates a dataset with the version v1 of one file and returns its reference.
func (b *builder) createDataset(name, data string, protected bool) string {
	b.Helper()
	ada := b.as("operator")
	var dataset created
	b.do(ada, http.MethodPost, "/api/datasets", map[string]any{"name": name, "project": projectKey, "protected": protected}, &dataset)
	b.uploadVersion(dataset.ID, "v1", data)
	b.do(ada, http.MethodPost, "/api/datasets/"+dataset.ID+"/versions/v1/commit", nil, nil)
	return reference("ds", name, "v1")
}

// uploadVersion creates a version, uploads its only file and returns the file's digest and the URL of the upload.
func (b *builder) uploadVersion(dataset, version, data string) (digest, target string) {
	b.Helper()
	files, digest := file(data)
	var out struct {
		Uploads []uploadTarget `json:"uploads"`
	}
	b.do(b.as("operator"), http.MethodPost, "/api/datasets/"+dataset+"/versions", map[string]any{"version": version, "files": files}, &out)
	for _, u := range out.Uploads {
		u.put(b, []byte(data))
		target = u.URL
	}
	return digest, target
}

// addSplits creates a train dataset, a validation dataset and a protected one.
func (b *builder) addSplits() {
	b.Helper()
	b.set("train_ref", b.createDataset("to-train-on", `{"question": "of the world, to train on"}`, false))
	b.set("held_ref", b.createDataset("held-out", `{"question": "of the world, held out"}`, false))
	b.set("protected_ref", b.createDataset("kept-to-ourselves", `{"question": "of the world, protected"}`, true))
}

// object returns the folder in which the store keeps the object with the given digest.
func (b *builder) object(digest string) string {
	b.Helper()
	found := ""
	_ = filepath.WalkDir(b.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), digest) {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	require.NotEmpty(b, found)
	return found
}

// addBrokenDataset creates a dataset with a ready and an uploading version whose objects the store cannot
// read, because each folder is replaced by a file.
func (b *builder) addBrokenDataset() {
	b.Helper()
	ada := b.as("operator")
	var dataset created
	b.do(ada, http.MethodPost, "/api/datasets", map[string]any{"name": "broken", "project": projectKey}, &dataset)
	for _, version := range []string{"ready", "waiting"} {
		digest, target := b.uploadVersion(dataset.ID, version, `{"question": "of the world, broken `+version+`"}`)
		if version == "ready" {
			var link uploadTarget
			path := "/api/datasets/" + dataset.ID + "/versions/ready"
			b.do(ada, http.MethodPost, path+"/commit", nil, nil)
			b.do(ada, http.MethodPost, path+"/download-url", map[string]any{"path": "a.jsonl"}, &link)
			b.set("broken_link", link.URL)
		}
		b.set("broken_target", target)
		b.breakObject(digest)
		b.set("broken_file", digest)
	}
	b.set("broken_dataset", dataset.ID)
}

// breakObject makes the store unable to read the object with the given digest.
func (b *builder) breakObject(digest string) {
	b.Helper()
	path := b.object(digest)
	require.NoError(b, os.RemoveAll(path))
	require.NoError(b, os.WriteFile(path, nil, 0o600))
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// addBrokenEnvironment creates an environment with an uploaded task set that the store cannot read.
func (b *builder) addBrokenEnvironment() {
	b.Helper()
	var environment created
	b.do(b.as("operator"), http.MethodPost, "/api/environments", map[string]any{"name": "broken", "project": projectKey}, &environment)
	tasks := []byte(`{"prompt": "of the world: broken"}`)
	var target uploadTarget
	b.do(b.as("operator"), http.MethodPost, "/api/environments/"+environment.ID+"/upload-url",
		map[string]any{"kind": "taskset", "size_bytes": len(tasks), "sha256": digestOf(tasks)}, &target)
	target.put(b, tasks)
	b.breakObject(digestOf(tasks))
	b.set("broken_environment", environment.ID)
	b.set("broken_taskset", digestOf(tasks))
}

// publishRecipe publishes a recipe of the shared project.
func (b *builder) publishRecipe(name string) {
	manifest := []byte(`{"api": "service/v1", "name": "` + projectKey + "/" + name + `", "version": "1.0", "title": "Own", "entrypoint": ["true"],
		"framework": {"name": "none", "runtime_id": "none-1"}, "params_schema": {"type": "object"}}`)
	var data bytes.Buffer
	out := tar.NewWriter(&data)
	require.NoError(b, out.WriteHeader(&tar.Header{Name: "recipe.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(manifest))}))
	_, err := out.Write(manifest)
	require.NoError(b, errors.Join(err, out.Close()))
	ada := b.as("operator")
	var made struct {
		ID     string       `json:"id"`
		Upload uploadTarget `json:"upload"`
	}
	b.do(ada, http.MethodPost, "/api/submit/packages",
		map[string]any{"project": projectKey, "size_bytes": data.Len(), "sha256": digestOf(data.Bytes())}, &made)
	made.Upload.put(b, data.Bytes())
	b.do(ada, http.MethodPost, "/api/submit/packages/"+made.ID+"/commit", nil, nil)
	b.do(ada, http.MethodPost, "/api/recipes", map[string]any{"package_id": made.ID}, nil)
}

// addBrokenPackage creates a package whose uploaded bytes the store cannot read.
func (b *builder) addBrokenPackage() {
	b.Helper()
	data := []byte("the bytes of a package that cannot be read")
	var made struct {
		created
		Upload uploadTarget `json:"upload"`
	}
	b.do(b.as("operator"), http.MethodPost, "/api/submit/packages",
		map[string]any{"project": projectKey, "size_bytes": len(data), "sha256": digestOf(data)}, &made)
	made.Upload.put(b, data)
	b.breakObject(digestOf(data))
	b.set("broken_package", made.ID)
}

// addGoneLink sets a variable to the signed URL of an object that has been deleted.
func (b *builder) addGoneLink() {
	b.Helper()
	ada := b.as("operator")
	var dataset created
	b.do(ada, http.MethodPost, "/api/datasets", map[string]any{"name": "gone", "project": projectKey}, &dataset)
	digest, _ := b.uploadVersion(dataset.ID, "v1", `{"question": "of the world, gone"}`)
	path := "/api/datasets/" + dataset.ID + "/versions/v1"
	b.do(ada, http.MethodPost, path+"/commit", nil, nil)
	var link uploadTarget
	b.do(ada, http.MethodPost, path+"/download-url", map[string]any{"path": "a.jsonl"}, &link)
	require.NoError(b, os.RemoveAll(b.object(digest)))
	b.set("gone_link", link.URL)
}

// addEnvironment creates an environment with a ready version, which has two tasks.
func (b *builder) addEnvironment() {
	b.Helper()
	ada := b.as("operator")
	var environment created
	b.do(ada, http.MethodPost, "/api/environments", map[string]any{"name": "arithmetic", "project": projectKey}, &environment)
	path := "/api/environments/" + environment.ID
	tasks := `{"prompt": "of the world: 1+1"}` + "\n" + `{"prompt": "of the world: 1+2"}`
	sum := sha256.Sum256([]byte(tasks))
	digest := hex.EncodeToString(sum[:])
	var target uploadTarget
	b.do(ada, http.MethodPost, path+"/upload-url", map[string]any{"kind": "taskset", "size_bytes": len(tasks), "sha256": digest}, &target)
	target.put(b, []byte(tasks))
	b.do(ada, http.MethodPost, path+"/versions", map[string]any{
		"version": "v1", "manifest": map[string]any{"api": "env/v1", "entry": "arithmetic:Env", "taskset": map[string]any{"digest": "sha256:" + digest, "count": 2}},
	}, nil)
	b.await("the environment is ready", func() bool {
		var v struct {
			State  string `json:"state"`
			Reason any    `json:"reason"`
		}
		b.do(ada, http.MethodGet, path+"/versions/v1", nil, &v)
		require.NotEqual(b, "invalid", v.State, "%v", v.Reason)
		return v.State == "ready"
	})
	b.set("taskset_ref", reference("env", "arithmetic", "v1"))
	b.set("taskset_digest", "sha256:"+digest)
}

// addRubric creates a rubric with a published version.
func (b *builder) addRubric() {
	b.Helper()
	ada := b.as("operator")
	var rubric created
	b.do(ada, http.MethodPost, "/api/rubrics", map[string]any{"name": "fair", "project": projectKey}, &rubric)
	path := "/api/rubrics/" + rubric.ID + "/versions"
	var version struct {
		Digest string `json:"digest"`
	}
	b.do(ada, http.MethodPost, path, map[string]any{"content": map[string]any{"criteria": []any{map[string]any{"key": "right", "weight": 1, "kind": "exact"}}}}, &version)
	b.do(ada, http.MethodPost, path+"/1/publish", nil, nil)
	b.set("rubric_ref", reference("rub", "fair", "1"))
	b.set("rubric_digest", version.Digest)
}

// addModelRef sets the variable model_ref to the model version that the test created.
func (b *builder) addModelRef() {
	b.Helper()
	b.set("model_ref", reference("mdl", "answers", b.at("model_version")))
}
