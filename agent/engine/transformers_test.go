package engine

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

func TestTransformers_Plan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := Place{Dir: "/files", ModelDir: dir, Host: "127.0.0.1", Port: 7, KeyFile: "/k", Python: "/py"}
	spec := executor.EngineSpec{Driver: "transformers", ServedNames: []string{"default", "my-bot"}, Args: []string{"--dtype", "float32"}}
	d, err := Find(spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), nil, 0o600))
	_, err = d.Plan(spec, at)
	require.ErrorContains(t, err, "the model contains no config.json", "a file of weights alone cannot be served")

	// The folder nearest to the top has the model; the others are parts of it or earlier checkpoints.
	for _, sub := range []string{"a/checkpoint-5", "b"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, sub, "config.json"), nil, 0o600))
	}
	c, err := d.Plan(spec, at)
	require.NoError(t, err)
	require.Equal(t, []string{
		"/py", "/files/transformers_serve.py", "--model", filepath.Join(dir, "b"), "--host", "127.0.0.1", "--port", "7",
		"--api-key-file", "/k", "--alias", "default", "--alias", "my-bot", "--dtype", "float32",
	}, c.Args)
	require.Contains(t, string(c.Files["transformers_serve.py"]), "transformers.cli.serving")

	spec.ServedNames = nil
	c, err = d.Plan(spec, at)
	require.NoError(t, err)
	require.Contains(t, strings.Join(c.Args, " "), "--alias default --dtype")
	for _, arg := range []string{"--host", "--port=1", "--api-key-f", "--model", "--al"} {
		spec.Args = []string{arg, "x"}
		_, err := d.Plan(spec, at)
		require.ErrorContains(t, err, "the platform sets this option", arg)
	}
	spec.Args, spec.Task = nil, "embedding"
	_, err = d.Plan(spec, at)
	require.ErrorContains(t, err, "no embeddings")
}

// The versions that the launcher was written for.
func TestTransformers_Environment(t *testing.T) {
	t.Parallel()
	lock := transformers{}.Environment(executor.EngineSpec{}).Requirements
	for _, pin := range []string{"transformers==5.23.0 ", "torch==2.15.0 ", "tokenizers==0.23.3 ", "safetensors==0.8.0 ", "accelerate==1.15.0 ", "uvicorn==", "openai=="} {
		require.Contains(t, "\n"+lock, "\n"+pin)
	}
}

func TestTransformers_launcher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o600))
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "testdata/door.py", "launch/transformers_serve.py", dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "checked")
}

// recorded is a response that testdata/record.py has recorded.
type recorded struct {
	status     int
	kind, body string
}

// recording reads the responses of an engine by their names.
func recording(t *testing.T, engine string) map[string]recorded {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", engine+".txt"))
	require.NoError(t, err)
	found := map[string]recorded{}
	for _, part := range strings.Split("\n"+string(raw), "\n== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		head, body, _ := strings.Cut(rest, "\n")
		code, kind, _ := strings.Cut(head, " ")
		status, err := strconv.Atoi(code)
		require.NoError(t, err, "%s of %s", name, engine)
		found[name] = recorded{status, kind, body + "\n\n"}
	}
	require.Len(t, found, 5)
	return found
}

// replay is an engine that responds as in a recording.
func replay(recorded map[string]recorded) script {
	respond := func(w http.ResponseWriter, name string) {
		r := recorded[name]
		send(r.status, r.kind, r.body)(w, nil)
	}
	return script{
		"/v1/models": func(w http.ResponseWriter, _ *http.Request) { respond(w, "models") },
		"/v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
			var request struct {
				Model  string `json:"model"`
				Stream bool   `json:"stream"`
			}
			_ = json.NewDecoder(r.Body).Decode(&request)
			switch {
			case r.Header.Get("Authorization") != "Bearer key":
				respond(w, "wrong key")
			case request.Model != "default":
				respond(w, "other model")
			case request.Stream:
				respond(w, "stream")
			default:
				respond(w, "plain")
			}
		},
	}
}

// Engines differ in what they send; the probes must accept what real ones have sent.
func TestProber_Run_recordings(t *testing.T) {
	t.Parallel()
	for engine, c := range map[string]struct {
		caps  map[string]bool
		other string // what the engine responds if the model has another name
	}{
		"transformers": {map[string]bool{"model_list": true, "usage": true, "done": false, "key_checked": true}, "no model is called 'other' here"},
		// The server of transformers itself: an empty model list, no key, and a model that is named like its folder.
		"transformers-serve": {map[string]bool{"model_list": false, "usage": true, "done": false, "key_checked": false}, "Server is pinned to 'default'"},
		"vllm":               {map[string]bool{"model_list": true, "usage": true, "done": true, "key_checked": true}, "The model `other` does not exist"},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			responses := recording(t, engine)
			r := probe(t, replay(responses), nil)
			require.True(t, r.OK(), r.Message)
			require.Equal(t, c.caps, r.Capabilities)

			r = probe(t, replay(responses), func(target *Target) { target.Model = "other" })
			require.Equal(t, executor.CodeGenerateFailed, r.Code)
			require.Contains(t, r.Message, c.other)
		})
	}
}

// Without the folder for models that it downloads, the server of transformers lists no models but fails.
func TestProber_Run_modelListFails(t *testing.T) {
	t.Parallel()
	responses := recording(t, "transformers-serve")
	responses["models"] = recorded{500, "text/plain; charset=utf-8", "Internal Server Error"}
	r := probe(t, replay(responses), nil)
	require.True(t, r.OK(), r.Message)
	require.False(t, r.Capabilities["model_list"])
}
