package command_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// refusing responds to a submission with the given status and body, and to what a remedy reads. It saves the spec.
func refusing(t *testing.T, status int, body string, spec *map[string]any) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/recipes/custom/custom":
			_, _ = io.WriteString(w, `{"name":"custom/custom","version":"1.1.0"}`)
		case "/api/recipes/custom/custom/versions/1.1.0/lock", "/api/recipes/custom/custom/versions/1.0.0/lock":
			_, _ = io.WriteString(w, `{"name":"custom/custom","version":"`+filepath.Base(filepath.Dir(r.URL.Path))+`","digest":"sha256:new","framework":{"runtime_id":"any"}}`)
		case "/api/quota":
			_, _ = io.WriteString(w, `{"subject":"ada","gpu_limit":2}`)
		case "/api/projects":
			_, _ = io.WriteString(w, `[{"id":"prj_1","key":"search"}]`)
		case "/api/projects/prj_1":
			_, _ = io.WriteString(w, `{"id":"prj_1","key":"search","team_id":"team_1"}`)
		case "/api/teams/team_1":
			_, _ = io.WriteString(w, `{"id":"team_1","key":"nlp"}`)
		case "/api/jobs", "/api/submit/preflight":
			var request struct {
				Spec map[string]any `json:"spec"`
			}
			_ = json.NewDecoder(r.Body).Decode(&request)
			*spec = request.Spec
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

// jobYAML is a job of the project search.
const jobYAML = `# mine
project: search
recipe: custom/custom   # newest
source: {command: [train]}
env:
  GOOD: "1"
  LD_PRELOAD: x
resources:
  pools:
    - pool: default
      nodes: -1
checkpoint: {keep_best: m}
`

func writeJob(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "job.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o640))
	return file
}

func TestSubmit_refusalNamesLineAndRemedy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		body       string
		want, hint string
	}{
		"fields": {
			422, `{"detail":[{"loc":["body","spec","resources","pools",0,"nodes"],"msg":"must be at least 1"},{"loc":["body","spec","limits"],"msg":"too few"}]}`,
			"signalbox: FILE:11: spec.resources.pools[0].nodes: must be at least 1\nsignalbox: FILE:2: spec.limits: too few\n", "signalbox explain jobspec",
		},
		"lock": {
			400, `{"detail":"recipe_handshake: digest is a in recipe.lock.json and b in the catalog","code":"recipe_handshake"}`,
			"FILE:3: recipe_handshake: digest is a", "signalbox recipes lock FILE --update",
		},
		"best checkpoint": {
			400, `{"detail":"recipe_handshake: r does not state which values of \"m\" in spec.checkpoint.keep_best are better; set spec.checkpoint.keep_best_goal to minimize or maximize","code":"recipe_handshake"}`,
			"FILE:12: recipe_handshake: r does not state", "set spec.checkpoint.keep_best_goal to minimize or maximize\n",
		},
		"variable": {400, `{"detail":"environment: LD_PRELOAD is reserved","code":"environment"}`, "FILE:7: environment: LD_PRELOAD", ""},
		"own quota": {
			403, `{"detail":"quota: requested 16 GPUs, 2 available","code":"quota"}`,
			"FILE:8: quota: requested 16 GPUs, 2 available", "your limit is 2; an admin can raise it: signalbox admin quotas set ada --gpus 16",
		},
		"quota of the team": {
			403, `{"detail":"quota: requested 16 GPUs, 1 available","code":"quota"}`,
			"FILE:8: quota: requested 16 GPUs, 1 available", "team is 1; an admin can raise it: signalbox admin quotas set nlp --of teams --gpus 16",
		},
		"no gate": {409, `{"detail":"the project is archived","code":"archived"}`, "signalbox: the project is archived", ""},
	} {
		var spec map[string]any
		h := newHarness(t, refusing(t, c.status, c.body, &spec))
		file := writeJob(t, jobYAML)
		r := h.run("submit", file)
		named := func(text string) string { return replaceAll(text, "FILE", file) }
		require.Contains(t, r.err, named(c.want), name)
		if c.hint != "" {
			require.Contains(t, r.err, named(c.hint), name)
		}
		require.NotZero(t, r.code, name)
		require.Empty(t, r.out, name)
	}
}

func TestPreflight_namesLineAndRemedyOfEachGate(t *testing.T) {
	t.Parallel()
	var spec map[string]any
	h := newHarness(t, refusing(t, 200, `{"ok":false,"gates":[{"gate":"dialect","status":"pass","detail":""},
		{"gate":"environment","status":"fail","detail":"environment: LD_PRELOAD is reserved"},
		{"gate":"quota","status":"fail","detail":"quota: requested 16 GPUs, 2 available"}]}`, &spec))
	file := writeJob(t, jobYAML)
	r := h.run("preflight", file)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, file+":7: environment: LD_PRELOAD is reserved")
	require.Contains(t, r.err, file+":8: quota: requested 16 GPUs, 2 available")
	require.Contains(t, r.err, "signalbox admin quotas set ada --gpus 16")
}

func TestSubmit_set(t *testing.T) {
	t.Parallel()
	var spec map[string]any
	h := newHarness(t, refusing(t, 409, `{"detail":"enough"}`, &spec))
	file := writeJob(t, jobYAML)
	h.run("submit", file, "--set", "resources.pools.0.nodes=2", "--set", "limits.running_s=60", "--hparam", "optim.lr=0.5", "--set", "env.A=b=c")
	require.Equal(t, map[string]any{"running_s": 60.0}, spec["limits"])
	require.Equal(t, map[string]any{"optim.lr": 0.5}, spec["hparams"])
	require.Equal(t, map[string]any{"A": "b=c", "GOOD": "1", "LD_PRELOAD": "x"}, spec["env"])
	require.Equal(t, map[string]any{"pools": []any{map[string]any{"pool": "default", "nodes": 2.0}}}, spec["resources"])
	for _, set := range []string{"limits", "=1", "project.key=x", "resources.pools.7.nodes=1"} {
		r := h.run("submit", file, "--set", set)
		require.Equal(t, 2, r.code, set)
		require.Contains(t, r.err, "--set", set)
	}
}

func TestRecipesLock(t *testing.T) {
	t.Parallel()
	var spec map[string]any
	h := newHarness(t, refusing(t, 409, `{"detail":"enough"}`, &spec))
	file := writeJob(t, jobYAML)
	read := func() string {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(raw)
	}
	require.Zero(t, h.run("recipes", "lock", file).code)
	locked := read()
	require.Contains(t, locked, "# mine\nproject: search\nrecipe:   # newest\n")
	require.Contains(t, locked, "    digest: sha256:new\n")
	require.Contains(t, locked, "version: 1.1.0\n")
	require.Contains(t, h.run("recipes", "lock", file).err, "its version is the newest")
	require.Equal(t, locked, read(), "a valid lock must not be changed")
	h.run("submit", file)
	require.Equal(t, "1.1.0", spec["recipe"].(map[string]any)["version"])

	old := replaceAll(replaceAll(locked, "sha256:new", "sha256:old"), "1.1.0", "1.0.0")
	require.NoError(t, os.WriteFile(file, []byte(old), 0o600))
	r := h.run("recipes", "lock", file)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, `digest is "sha256:old" in the lock of the file and "sha256:new" in the catalog`)
	require.Contains(t, r.err, "signalbox recipes lock "+file+" --update")
	require.Equal(t, old, read())
	require.Zero(t, h.run("recipes", "lock", file, "--update").code)
	require.Equal(t, locked, read())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	require.Equal(t, 2, h.run("recipes", "lock", "-").code)
}

func TestRecipesLock_versions(t *testing.T) {
	t.Parallel()
	var spec map[string]any
	h := newHarness(t, refusing(t, 409, `{"detail":"enough"}`, &spec))
	h.run("submit", writeJob(t, "recipe: {name: custom/custom, version: null, lock: {version: 1.0.0}}\n"))
	require.Equal(t, "1.0.0", spec["recipe"].(map[string]any)["version"])
	r := h.run("submit", writeJob(t, "recipe: {name: custom/custom, version: 1.10}\n"))
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, `write it as text: version: "1.2.0"`)
	r = h.run("submit", writeJob(t, jobYAML+"---\nrecipe: a/b\n"))
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "several documents")
}

func TestSubmit_lockRefusalNamesAllMembers(t *testing.T) {
	t.Parallel()
	var spec map[string]any
	h := newHarness(t, refusing(t, 400, `{"detail":"recipe_handshake: digest is a in recipe.lock.json and b in the catalog","code":"recipe_handshake"}`, &spec))
	file := writeJob(t, "recipe:\n  name: custom/custom\n  version: 1.0.0\n  lock:\n    version: 1.0.0\n    name: custom/custom\n    digest: old\n    framework: {runtime_id: other}\n")
	r := h.run("submit", file)
	require.Contains(t, r.err, "signalbox: "+file+`:7: digest is "old" in the lock of the file and "sha256:new" in the catalog`)
	require.Contains(t, r.err, "signalbox: "+file+`:8: framework.runtime_id is "other" in the lock of the file and "any" in the catalog`)
	require.Contains(t, r.err, "signalbox recipes lock "+file+" --update")
}

// The texts of a recipe are those of its author, who need not be the user.
func TestInit_hostileRecipe(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/recipes/a/b" {
			_, _ = io.WriteString(w, `{"name":"a/b","inputs":[{"name":"train: x","kind":"dataset","required":true,"description":"rows\nenv: {LD_PRELOAD: x}"},
				{"name":"y\nz: 1","kind":"dataset","required":true,"description":"\u001b[2Jrows"}],
				"params_schema":{"required":["a\nb: 1"],"properties":{"a\nb: 1":{"default":"x\ny","description":"d\nenv: {A: b}"}}}}`)
			return
		}
		_, _ = io.WriteString(w, `[]`)
	})
	r := h.run("init", "-", "--recipe", "a/b")
	require.Zero(t, r.code, r.err)
	require.NotContains(t, r.out, "\x1b")
	var job map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(r.out), &job))
	require.Equal(t, []string{"bindings", "hparams", "name", "recipe", "resources"}, slices.Sorted(maps.Keys(job)))
	require.Equal(t, []string{"train: x", "y\nz: 1"}, slices.Sorted(maps.Keys(job["bindings"].(map[string]any)["datasets"].(map[string]any))))
}

func TestInit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/recipes/a/b":
			_, _ = io.WriteString(w, `{"name":"a/b","version":"1","inputs":[
				{"name":"train","kind":"dataset","required":true,"format":"jsonl","description":"rows"},
				{"name":"extra","kind":"dataset","required":false,"format":"jsonl","description":"more rows"},
				{"name":"model","kind":"model","required":true,"format":"safetensors","description":"weights"}],
				"params_schema":{"required":["steps"],"properties":{"lr":{"type":"number","default":0.1,"minimum":0,"description":"rate"},"steps":{"type":"integer","default":3}}}}`)
		case "/api/cluster":
			_, _ = io.WriteString(w, `{"pools":[{"pool":"h100","nodes":1}]}`)
		case "/api/models":
			_, _ = io.WriteString(w, `[{"id":"mdl_1","name":"new","project":"p","latest_version":null},
				{"id":"mdl_2","name":"served","project":"p","latest_version":3},{"id":"mdl_3","name":"base","project":"p","latest_version":2}]`)
		case "/api/models/mdl_2/versions/3":
			_, _ = io.WriteString(w, `{"format":"gguf"}`)
		case "/api/models/mdl_3/versions/2":
			_, _ = io.WriteString(w, `{"format":"safetensors"}`)
		case "/api/datasets":
			_, _ = io.WriteString(w, `[{"name":"empty","project":"p","format":"jsonl","latest_version":""},
				{"name":"pictures","project":"p","format":"tar","latest_version":"v1"},{"name":"sums","project":"p","format":"jsonl","latest_version":"v7"}]`)
		}
	})
	file := filepath.Join(t.TempDir(), "job.yaml")
	r := h.run("init", file, "--recipe", "a/b")
	require.Zero(t, r.code, r.err)
	require.Empty(t, r.out)
	require.Contains(t, r.err, "the input train is ds/p/sums@v7, the newest dataset in the format jsonl")
	require.Contains(t, r.err, "the input model is mdl/p/base@2, the newest model in the format safetensors")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, line := range []string{
		"recipe: a/b ", "    train: ds/p/sums@v7   # rows\n", "    # extra: ds/PROJECT/NAME@VERSION   # more rows\n",
		"  model: mdl/p/base@2   # weights\n", "  # lr: 0.1   # rate (at least 0)\n", "  steps: 3\n", "    - pool: h100 ",
	} {
		require.Contains(t, string(raw), line)
	}
	r = h.run("init", file, "--recipe", "a/b")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "exists")
	require.Zero(t, h.run("init", file, "--recipe", "a/b", "--force").code)
	require.Equal(t, string(raw), replaceAll(h.run("init", "-", "--recipe", "a/b").out, "job.yaml", file))
	require.Equal(t, 2, h.run("init").code)
}

func replaceAll(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}
