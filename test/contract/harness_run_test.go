package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const recipe = "custom/custom"

// addRecipe sets variables to the newest version and the lock of the recipe that runs a user's command.
func (b *builder) addRecipe() {
	b.Helper()
	var newest struct {
		Version string `json:"version"`
	}
	b.do(b.as("admin"), http.MethodGet, "/api/recipes/"+recipe, nil, &newest)
	var lock json.RawMessage
	b.do(b.as("admin"), http.MethodGet, "/api/recipes/"+recipe+"/versions/"+newest.Version+"/lock", nil, &lock)
	b.set("recipe_version", newest.Version)
	b.set("recipe_lock", string(lock))
}

// training is a job whose reports the test sends. The job's command writes the token for the reports to a
// file.
type training struct {
	b          *builder
	job, run   string
	token, dir string
	reports    *client.Client
}

// train submits a command that writes its token to a file, prints a line and waits until the named pipe `finish` is
// opened for writing. The parameter bound lists the datasets that the job reads.
func (b *builder) train(bound ...string) *training {
	b.Helper()
	datasets := map[string]any{}
	for i, ref := range bound {
		datasets[fmt.Sprintf("train%d", i)] = ref
	}
	name := b.givenName()
	command := `echo "training begins"; mkfifo "$SERVICE_JOB_WORKDIR/finish"; printf %s "$SERVICE_JOB_TOKEN" > "$SERVICE_JOB_WORKDIR/$0.new" && mv "$SERVICE_JOB_WORKDIR/$0.new" "$SERVICE_JOB_WORKDIR/$0"
		read -r end < "$SERVICE_JOB_WORKDIR/finish"; echo "training ends"`
	return b.started(name, map[string]any{"api": "service/v1", "spec": map[string]any{
		"name": name, "project": projectKey, "source": map[string]any{"command": []string{"sh", "-c", command, name}},
		"recipe":    map[string]any{"name": recipe, "version": b.at("recipe_version"), "lock": json.RawMessage(b.at("recipe_lock"))},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
		"bindings":  map[string]any{"datasets": datasets},
	}})
}

// givenName returns a new name for a job and for the file with its token.
func (b *builder) givenName() string {
	raw := sha256.Sum256([]byte(b.address()))
	return "given-" + hex.EncodeToString(raw[:8])
}

// started submits a job that writes its token to a file with the given name, and waits for the file.
func (b *builder) started(name string, submission map[string]any) *training {
	b.Helper()
	var created struct {
		ID    string `json:"id"`
		RunID string `json:"run_id"`
	}
	b.do(b.as("operator"), http.MethodPost, "/api/jobs", submission, &created)
	if b.own {
		// The node runs a limited number of works at once. A golden may have ended or deleted its job, which is an error here.
		b.TB.Cleanup(func() {
			_, _ = b.as("admin").Call(b.Context(), http.MethodPost, "/api/jobs/"+created.ID+"/stop", map[string]any{})
		})
	}
	path := ""
	b.await("the command runs", func() bool {
		path = b.Find(name, func(string) bool { return true })
		return path != ""
	})
	token, err := os.ReadFile(path)
	require.NoError(b, err)
	return &training{
		b: b, job: created.ID, run: created.RunID, token: string(token), dir: filepath.Dir(path),
		reports: b.caller().With(secret.New(string(token))),
	}
}

// await polls until the condition is true. It fails the test after testenv.StageTimeout.
func (b *builder) await(what string, condition func() bool) {
	b.Helper()
	require.Eventually(b, condition, testenv.StageTimeout, pollEvery, "timed out waiting until %s\n%s", what, b.Tail())
}

// report sends a report of the run.
func (r *training) report(name string, fields map[string]any) {
	r.b.Helper()
	body := map[string]any{"run_id": r.run}
	maps.Copy(body, fields)
	r.b.do(r.reports, http.MethodPost, "/api/ingest/"+name, body, nil)
}

func (r *training) lifecycle(event string) {
	r.b.Helper()
	r.report("lifecycle", map[string]any{"event": event, "ts": "2026-11-21T03:00:00+00:00"})
}

// uploadObject uploads a model as the run would and returns its object URI.
func (r *training) uploadObject(name string, data []byte) (uri string) {
	r.b.Helper()
	sum := sha256.Sum256(data)
	query := url.Values{
		"run_id": {r.run}, "kind": {"merged_model"}, "path": {name}, "size_bytes": {fmt.Sprint(len(data))},
		"sha256": {hex.EncodeToString(sum[:])},
	}
	var ticket struct {
		uploadTarget
		ObjectURI string `json:"object_uri"`
	}
	require.NoError(r.b, r.reports.Get(r.b.Context(), "/api/ingest/artifact/upload-url", query, &ticket))
	ticket.put(r.b, data)
	return ticket.ObjectURI
}

// upload uploads and registers a model as the run would and returns the id of the artifact.
func (r *training) upload(name string, data []byte) string {
	r.b.Helper()
	uri := r.uploadObject(name, data)
	var created struct {
		ID string `json:"id"`
	}
	r.b.do(r.reports, http.MethodPost, "/api/ingest/artifact", map[string]any{
		"run_id": r.run, "kind": "merged_model", "path": uri, "format": "gguf", "step": 3, "size_bytes": len(data),
	}, &created)
	return created.ID
}

// finish ends the command and waits until the job has succeeded.
func (r *training) finish() {
	r.b.Helper()
	r.b.await("the command reads from its named pipe", func() bool {
		pipe, err := os.OpenFile(filepath.Join(r.dir, "finish"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil && pipe.Close() == nil
	})
	r.b.await("the job succeeds", func() bool {
		var now struct {
			State string `json:"state"`
		}
		r.b.do(r.b.as("operator"), http.MethodGet, "/api/jobs/"+r.job, nil, &now)
		require.NotContains(r.b, []string{"failed", "stopped"}, now.State)
		return now.State == "succeeded"
	})
}

// addFinished creates a run that has sent all kinds of reports and has succeeded.
func (b *builder) addFinished() {
	b.Helper()
	r := b.train()
	// Wait for the agent's own reports, so that they precede those of the run.
	b.await("the agent has reported the running command and its output", func() bool {
		var attempts, lines []map[string]any
		b.do(b.as("operator"), http.MethodGet, "/api/jobs/"+r.job+"/attempts", nil, &attempts)
		b.do(b.as("operator"), http.MethodGet, "/api/jobs/"+r.job+"/logs", nil, &lines)
		return attempts[0]["executor_running_at"] != nil && len(lines) > 0
	})
	const ts = "2026-11-21T03:00:00+00:00"
	r.lifecycle("running")
	r.report("hparams", map[string]any{"params": map[string]any{"optim.lr": 0.002, "train.steps": 3}})
	var points []any
	for step := range 3 {
		points = append(points, map[string]any{"key": "train/loss", "step": step, "value": 1 / float64(step+2), "ts": ts})
	}
	r.report("metrics", map[string]any{"points": points})
	for chunk, words := range []string{"first", "second"} {
		r.report("validation", map[string]any{
			"step": 3, "avg_reward": 0.5, "accuracy": 0.5, "chunk_index": chunk, "total_chunks": 2,
			"samples": []any{map[string]any{"user": words, "assistant": "x", "env": "test", "reward": chunk, "extra": map[string]any{"chunk": chunk}}},
		})
	}
	r.report("logs", map[string]any{"chunks": []string{"reported by the run\n"}})
	r.report("environment", map[string]any{"python": "3.11", "packages": map[string]any{"numpy": "2.0"}})
	r.report("environment/nodes", map[string]any{"nodes": []any{map[string]any{"rank": 0, "host": "a"}}})
	r.report("hardware", map[string]any{"points": []any{map[string]any{"ts": ts, "key": "gpu_util", "value": 0.5}}})
	r.report("benchmark", map[string]any{"name": "arithmetic", "metric": "exact_match", "value": 0.5})
	b.set("artifact", r.upload("model.gguf", fixtures.GGUF(r.run)))
	r.lifecycle("succeeded")
	r.finish()
	b.set("job", r.job)
	b.set("run", r.run)
	b.set("ended_ingest", r.token)
}

// addLive creates a run that keeps running.
func (b *builder) addLive() {
	b.Helper()
	r := b.train()
	r.lifecycle("running")
	b.set("live_job", r.job)
	b.set("live_run", r.run)
	b.set("ingest", r.token)
}

// addOwn creates a run for a single golden. The run's process has started but has sent no reports.
func (b *builder) addOwn() {
	b.Helper()
	r := b.train()
	b.set("own_job", r.job)
	b.set("own_run", r.run)
	b.set("own_ingest", r.token)
	var lease struct {
		WorkID string `json:"work_id"`
		Token  string `json:"token"`
	}
	raw, err := os.ReadFile(filepath.Join(b.WorkOf(r.dir), "run", "lease.json"))
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(raw, &lease))
	b.set("own_work", lease.WorkID)
	b.set("own_lease", lease.Token)
}
