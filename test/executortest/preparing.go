package executortest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

var preparing = map[string]func(*harness){
	"inputs are placed and listed in the bindings file": func(b *harness) {
		pack := b.plane.Put("package.tar", Tar(b.T, map[string]string{"code/main.sh": "cat \"$SERVICE_JOB_BINDINGS_FILE\"\n"}))
		pack.Unpack = true
		data := b.plane.Put("part-0.jsonl", []byte(`{"q":1}`))
		model := b.plane.Put("model.safetensors", []byte("weights"))
		b.plane.FailDownloads(data, 1)
		w := b.shell("a", "")
		w.Attempt.Command = []string{"sh", "code/main.sh"}
		w.Attempt.Package = &pack
		w.Attempt.Datasets = []executor.DatasetInput{{Name: "train", Ref: "ds/default/sums@1", Digest: "sha256:d", Files: []executor.ObjectRef{data}}}
		w.Attempt.Model = &executor.ModelInput{Ref: "mdl/default/base@1", Digest: "sha256:m", Files: []executor.ObjectRef{model}}
		b.apply(w)
		require.Equal(b, executor.Exit{}, b.exit(w.Key))
		text, _ := b.plane.Logs(w.Key)
		type bound struct{ Ref, Digest, Path string }
		var bindings struct {
			Datasets map[string]bound
			Model    bound
		}
		require.NoError(b, json.Unmarshal([]byte(text), &bindings))
		require.Equal(b, "ds/default/sums@1", bindings.Datasets["train"].Ref)
		require.Equal(b, `{"q":1}`, read(b, filepath.Join(bindings.Datasets["train"].Path, "part-0.jsonl")))
		require.Equal(b, "weights", read(b, filepath.Join(bindings.Model.Path, "model.safetensors")))
		require.Equal(b, 2, b.plane.Fetched(data), "the object must be downloaded twice: once partly and once completely")
	},
	"checkpoint to resume from is placed": func(b *harness) {
		for name, packed := range map[string]bool{"state.npz": false, "state.tar": true} {
			content := []byte("the state")
			if packed {
				content = Tar(b.T, map[string]string{"shard-0": "the state"})
			}
			ref := b.plane.Put(name, content)
			ref.Unpack = packed
			w := b.shell(strings.ReplaceAll(name, ".", "-"), `cat "$SERVICE_JOB_RESUME_FROM" || cat "$SERVICE_JOB_RESUME_FROM/shard-0"`)
			w.Attempt.Resume = &executor.ResumePoint{ArtifactID: "art_1", File: ref}
			b.apply(w)
			require.Equal(b, executor.Exit{}, b.exit(w.Key))
			text, _ := b.plane.Logs(w.Key)
			require.Contains(b, text, "the state")
		}
		w := b.shell("fresh", `echo "from ${SERVICE_JOB_RESUME_FROM-nothing}"`)
		b.apply(w)
		require.Equal(b, executor.Exit{}, b.exit(w.Key))
		text, _ := b.plane.Logs(w.Key)
		require.Equal(b, "from nothing\n", text)
	},
	"environment variables follow the contract": func(b *harness) {
		w := b.shell("a", "env; cat $SERVICE_JOB_HPARAMS_FILE; test -w $SERVICE_JOB_WORKDIR && test -w $SERVICE_JOB_SPOOL_DIR && test -w $HOME && test -w $TMPDIR")
		w.Attempt.Env = map[string]string{"MINE": "yes"}
		w.Attempt.Limits.CPUs = 2
		if w.Attempt.Batch != nil {
			w.Attempt.Batch.Parts[0].CPUs = 2
		}
		b.apply(w)
		require.Equal(b, executor.Exit{}, b.exit(w.Key))
		text, _ := b.plane.Logs(w.Key)
		got := map[string]string{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			got[name] = value
		}
		for name, want := range map[string]string{
			"SERVICE_JOB_ENABLED": "1", "SERVICE_JOB_ENDPOINT": b.plane.Endpoint(), "SERVICE_JOB_RUN_ID": "run_1",
			"SERVICE_JOB_TOKEN": tokenFor(w.Key), "SERVICE_JOB_ID": "job_1", "SERVICE_JOB_ATTEMPT": "1", "SERVICE_JOB_SEED": "7",
			"SERVICE_JOB_NODE_RANK": "0", "SERVICE_JOB_NNODES": "1", "SERVICE_JOB_GPUS_PER_NODE": "0", "MINE": "yes",
			"OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1",
		} {
			require.Equal(b, want, got[name], name)
		}
		require.Contains(b, text, `{"train.lr": 0.1}`)
		require.NotContains(b, text, "GOCACHE", "the agent's own environment must not leak into the work")
	},
	"forbidden variable is rejected": func(b *harness) {
		for name, value := range map[string]string{
			"LD_PRELOAD": "x", "SERVICE_JOB_TOKEN": "x", "PATH": "x", "PYTHONPATH": "x", "NVIDIA_X": "x", "A": "one\x00two", "9": "x",
		} {
			w := b.shell("w"+strings.ToLower(name), "true")
			w.Attempt.Env = map[string]string{name: value}
			b.apply(w)
			exit := b.exit(w.Key)
			require.Equal(b, executor.ReasonStart, exit.Reason, name)
			require.Contains(b, exit.Message, name)
		}
	},
	"object with a wrong hash is rejected": func(b *harness) {
		ref := b.plane.Put("package.tar", Tar(b.T, map[string]string{"x": "y"}))
		ref.SHA256 = strings.Repeat("0", 64)
		ref.Unpack = true
		w := b.shell("a", "true")
		w.Attempt.Package = &ref
		b.apply(w)
		exit := b.exit(w.Key)
		require.Equal(b, executor.ReasonFetch, exit.Reason)
		require.Contains(b, exit.Message, "SHA-256")
	},
	"missing object is rejected": func(b *harness) {
		ref := b.plane.Put("package.tar", Tar(b.T, map[string]string{"x": "y"}))
		ref.URI = "blob://elsewhere"
		w := b.shell("a", "true")
		w.Attempt.Package = &ref
		b.apply(w)
		require.Equal(b, executor.ReasonFetch, b.exit(w.Key).Reason)
	},
	"environment build failure": func(b *harness) {
		w := b.shell("a", "true")
		w.Attempt.Environment = executor.EnvironmentSpec{
			Requirements: "no-such-package-of-signalbox==1.0 --hash=sha256:" + strings.Repeat("0", 64) + "\n",
		}
		b.apply(w)
		exit := b.exit(w.Key)
		require.Equal(b, executor.ReasonEnvBuild, exit.Reason)
		require.Equal(b, -1, exit.Code)
		require.Contains(b, exit.Message, "no-such-package-of-signalbox")
		require.LessOrEqual(b, len(exit.Message), executor.MaxMessage)
		require.Zero(b, b.plane.Minted(w.Key), "no token may be minted if the work was never started")
	},
}

func read(b *harness, path string) string {
	b.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(b, err)
	return string(raw)
}
