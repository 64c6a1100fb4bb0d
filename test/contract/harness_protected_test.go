package contract

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"
)

// The recipe in testdata/leaker puts a row of its dataset into everything that it reports.
const (
	leaker        = "test/leaker"
	leakerVersion = "1.0.0"
	leakerPath    = "/api/recipes/" + leaker + "/versions/" + leakerVersion
)

// addLeaker adds the leaker recipe to the catalog, as if a project had published it, and has the admin trust it.
func (b *builder) addLeaker() {
	b.Helper()
	manifest, err := os.ReadFile(filepath.Join("testdata", "leaker", "recipe.json"))
	require.NoError(b, err)
	code, err := os.ReadFile(filepath.Join("testdata", "leaker", "leak.py"))
	require.NoError(b, err)
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	require.NoError(b, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "leak.py", Mode: 0o644, Size: int64(len(code)), Format: tar.FormatUSTAR}))
	_, err = w.Write(code)
	require.NoError(b, err)
	require.NoError(b, w.Close())
	sum := sha256.Sum256(tree.Bytes())
	digest := hex.EncodeToString(sum[:])
	b.storeObject("recipes/sha256/"+digest+".tar", digest, tree.Bytes())
	b.execSQL(b.Context(), `INSERT INTO registry.recipe (name, version, digest, manifest, requirements, state, tree_sha256, tree_bytes, locked_at)
		SELECT $1, $2, $3, $4, requirements, 'active', $5, $6, now() FROM registry.recipe WHERE name = 'custom/custom' LIMIT 1`,
		leaker, leakerVersion, "sha256:"+digest, string(manifest), digest, tree.Len())
	b.do(b.as("admin"), http.MethodPut, "/api/admin/recipes/"+leaker+"/versions/"+leakerVersion+"/trust",
		map[string]any{"digest": "sha256:" + digest, "trusted": true}, nil)
	var lock json.RawMessage
	b.do(b.as("admin"), http.MethodGet, leakerPath+"/lock", nil, &lock)
	b.set("leaker_lock", string(lock))
}

// storeObject puts an object into the folder of the object store.
func (b *builder) storeObject(key, digest string, data []byte) {
	b.Helper()
	root := filepath.Join(b.Dir, "lib", "objects")
	if b.Processes["signalboxd"] != nil {
		root = filepath.Join(b.Dir, "data", "objects")
	}
	dir := filepath.Join(root, filepath.FromSlash(key)+"@")
	require.NoError(b, os.MkdirAll(dir, 0o700))
	file := filepath.Join(dir, digest)
	require.NoError(b, os.WriteFile(file, data, 0o600))
	info, err := os.Stat(root)
	require.NoError(b, err)
	owner := info.Sys().(*syscall.Stat_t)
	for _, path := range []string{dir, file} {
		require.NoError(b, os.Chown(path, int(owner.Uid), int(owner.Gid)))
	}
}

// leak returns the submission of a job that runs the leaker recipe on a dataset.
func (b *builder) leak(name, dataset string, env map[string]string) map[string]any {
	b.Helper()
	return map[string]any{"api": "service/v1", "spec": map[string]any{
		"name": name, "project": projectKey, "env": env,
		"recipe":    map[string]any{"name": leaker, "version": leakerVersion, "lock": json.RawMessage(b.at("leaker_lock"))},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
		"bindings":  map[string]any{"datasets": map[string]string{"train": dataset}},
	}}
}

// addSealed creates a run that reads a protected dataset and keeps running.
func (b *builder) addSealed() {
	b.Helper()
	name := b.givenName()
	r := b.started(name, b.leak(name, b.at("protected_ref"), map[string]string{"WAIT_FOR": name}))
	r.lifecycle("running")
	b.set("sealed_job", r.job)
	b.set("sealed_run", r.run)
	b.set("sealed_ingest", r.token)
}
