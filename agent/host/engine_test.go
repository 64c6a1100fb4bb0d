package host_test

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

const recipe = "../../recipes/demo/chat-tiny"

func TestEngine_llamacpp(t *testing.T) {
	t.Parallel()
	model, err := os.ReadFile(filepath.Join(tinyModel(t), "model.gguf"))
	require.NoError(t, err)
	executortest.RunEngine(t, withIndex, executortest.EngineCase{
		Spec: executor.EngineSpec{Driver: "llamacpp", ServedNames: []string{"default"}, Task: "chat", Args: []string{"--ctx", "128"}},
		Model: func(p *executortest.ControlPlane) []executor.ObjectRef {
			return []executor.ObjectRef{p.Put("model.gguf", model)}
		},
		ChecksKey: true,
	})
}

// TestEngine_folder serves a model in the layout of Hugging Face. mlx-lm checks no API key and has no driver of its own.
// The environments of the other two have 5 GB each, so `make test` leaves them out.
func TestEngine_folder(t *testing.T) {
	t.Parallel()
	engines := map[string]executortest.EngineCase{"mlx-lm": {Spec: executor.EngineSpec{
		Driver:      "command",
		Command:     []string{"python", "-m", "mlx_lm", "server", "--model", "default", "--host", "{host}", "--port", "{port}"},
		Environment: locked(t, "mlxlm"),
	}}}
	if draw.Whole() {
		engines["transformers"] = executortest.EngineCase{
			Spec: executor.EngineSpec{Driver: "transformers", Args: []string{"--ctx-size", "64", "--threads", "1"}}, ChecksKey: true,
		}
		engines["vllm"] = executortest.EngineCase{
			Spec: executor.EngineSpec{Driver: "command", Command: vllmCommand(), Environment: locked(t, "vllm")}, ChecksKey: true,
		}
	}
	packed := tarOf(t, filepath.Join(tinyModel(t), "hf"))
	for name, c := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Spec.ServedNames, c.Spec.Task = []string{"default"}, "chat"
			c.Model = func(p *executortest.ControlPlane) []executor.ObjectRef {
				ref := p.Put("model.tar", packed)
				ref.Unpack = true
				return []executor.ObjectRef{ref}
			}
			executortest.RunEngine(t, withIndex, c)
		})
	}
}

// locked returns an environment with the requirements of an engine.
func locked(t *testing.T, engine string) executor.EnvironmentSpec {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join("../engine/locks", engine+".lock"))
	require.NoError(t, err)
	return executor.EnvironmentSpec{Requirements: string(lock)}
}

// vllmCommand returns the command of docs/reference/engines.md. vLLM reads its key from a variable, because every user of
// the node can see the arguments of a program.
func vllmCommand() []string {
	return []string{
		"env", "VLLM_CPU_KVCACHE_SPACE=1", "sh", "-c",
		`VLLM_API_KEY=$(cat "$0") exec python -m vllm.entrypoints.openai.api_server "$@"`, "{api_key_file}",
		"--model", "default", "--host", "{host}", "--port", "{port}", "--enforce-eager", "--enable-force-include-usage", "--max-model-len", "128",
	}
}

// withIndex opens an executor whose environments are installed from the user's package index.
func withIndex(t *testing.T, dir string, p *executortest.ControlPlane) executortest.Opened {
	t.Helper()
	h, stop := open(t, dir, p, isolate(func(cfg *host.Config) { cfg.Environ = withUV(t) }))
	return executortest.Opened{Executor: h, Close: stop}
}

// withUV returns the test's environment with the pinned uv first in PATH. uv installs packages about ten
// times faster than pip.
func withUV(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../scripts/tools/uv.sh").Output()
	require.NoError(t, err, "scripts/tools/uv.sh")
	return append(os.Environ(), "PATH="+filepath.Dir(strings.TrimSpace(string(out)))+":"+os.Getenv("PATH"))
}

// tinyModel returns a folder with a small model of random weights, which the recipe's exporters have
// written as model.gguf and in the folder hf.
func tinyModel(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(recipe, "requirements.lock"))
	require.NoError(t, err)
	b := pyenv.NewBuilder(envCache(t), withUV(t), clock.Real(), nil)
	env, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: string(lock)}, "")
	require.NoError(t, err)
	dir := t.TempDir()
	const script = `
import sys, pathlib, numpy as np
sys.path.insert(0, sys.argv[1])
from chat_tiny import export_gguf, export_hf, tokenizer
from chat_tiny.config import ModelConfig
from chat_tiny.params import Params
config = ModelConfig(vocab=tokenizer.VOCAB, heads=2)  # vLLM serves heads of 32 or more numbers
params = Params.random(config, np.random.default_rng(1))
out = pathlib.Path(sys.argv[2])
export_gguf.write(out / "model.gguf", params, "tiny")
export_hf.write(out / "hf", params)
`
	cmd := exec.CommandContext(t.Context(), env.Python, "-c", script, recipe, dir)
	words, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", words)
	return dir
}

func tarOf(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, w.Close())
	return out.Bytes()
}
