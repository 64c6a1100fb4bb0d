package identity

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// spares is the number of additional deployments, models and environments of each project. It is enough for all cells
// that may delete one.
const spares = 24

// createObjects creates an object of every kind in a project, as the person p, and adds the ids to o.
func (w *harness) createObjects(ctx context.Context, t *testing.T, p *person, o objects) {
	t.Helper()
	make := func(path string, body any, out any) { p.do(ctx, t, w.Installation, http.MethodPost, path, body, out) }
	var made struct {
		ID    string `json:"id"`
		RunID string `json:"run_id"`
	}
	token := w.submit(ctx, t, p, o)
	o["artifact_id"] = w.exportModel(ctx, t, o["run_id"], token)
	named := func(path string) string {
		make(path, map[string]any{"name": "of-" + o["project"], "project": o["project"]}, &made)
		return made.ID
	}
	o["dataset_id"] = named("/api/datasets")
	w.uploadUncommitted(ctx, t, p, o["dataset_id"], "v1")
	o["model_id"] = named("/api/models")
	make("/api/models/"+o["model_id"]+"/versions", map[string]any{"source": map[string]string{"run_id": o["run_id"], "artifact_id": o["artifact_id"]}}, nil)
	p.do(ctx, t, w.Installation, http.MethodPut, "/api/models/"+o["model_id"]+"/versions/1/card", map[string]any{"content": "# what it is"}, nil)
	w.catalog(ctx, t, p, o)
	o["deployment_id"] = named("/api/model-deployments")
	for range 2 { // the second revision is never stopped, so the model version stays in use
		make("/api/model-deployments/"+o["deployment_id"]+"/revisions", map[string]any{
			"source":  map[string]any{"model_id": o["model_id"], "version": 1},
			"serving": map[string]any{"engine": "command", "command": []string{"sleep", "1"}, "pool": "nowhere"},
		}, nil)
	}
	make("/api/playground/sessions", map[string]any{"project": o["project"], "ttl_s": 14400, "idle_timeout_s": 14400, "targets": []any{map[string]any{
		"source":  map[string]any{"model_id": o["model_id"], "version": 1},
		"serving": map[string]any{"engine": "command", "command": []string{"sleep", "1"}, "pool": "nowhere"},
	}}}, &made)
	o["playground_id"] = made.ID
	// Some cells delete an object of the owner. Create enough objects now, because the owner later leaves the
	// project and cannot create more.
	for i := range spares {
		for kind, path := range map[string]string{"deployment": "/api/model-deployments", "model": "/api/models", "environment": "/api/environments"} {
			make(path, map[string]any{"name": fmt.Sprintf("spare-%d-of-%s", i, o["project"]), "project": o["project"]}, &made)
			o[fmt.Sprintf("spare %s %d", kind, i)] = made.ID
		}
	}
	w.insertTraffic(ctx, t, o)
	var secret struct{ ID, Token string }
	make("/api/model-deployments/"+o["deployment_id"]+"/tokens", map[string]any{"name": "first"}, &secret)
	o["token_id"], o["deployment token"] = secret.ID, secret.Token
}

// insertTraffic inserts a traffic row for the deployment, because no engine serves requests in this test.
func (w *harness) insertTraffic(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	o["request_id"] = id.NewSource(clock.Real(), rand.Reader).New(id.Request)
	_, err := w.database(ctx, t).Exec(ctx, `INSERT INTO inference.call (at, request_id, deployment_id, revision_id, revision_number,
			token_id, token_name, replica_id, method, path, status, outcome, stream, usage_source, duration_ms, request_bytes, response_bytes)
		VALUES (now(), $1, $2, 'rev', 1, 'dtk', 'first', 'rep', 'GET', '/v1/models', 200, 'ok', false, 'none', 1, 0, 0)`,
		o["request_id"], o["deployment_id"])
	require.NoError(t, err)
}

// submit starts a job whose command writes its token to a file, and returns the token.
func (w *harness) submit(ctx context.Context, t *testing.T, p *person, o objects) string {
	t.Helper()
	name := "given-away-" + o["project"]
	command := fmt.Sprintf(`printf %%s \"$SERVICE_JOB_TOKEN\" > \"$SERVICE_JOB_WORKDIR/%[1]s.new\" && mv \"$SERVICE_JOB_WORKDIR/%[1]s.new\" \"$SERVICE_JOB_WORKDIR/%[1]s\"; exec sleep 3600`, name)
	body := strings.NewReplacer("<project>", o["project"], "<command>", command, "<unique>", name).Replace(w.job)
	a := p.call(ctx, t, w.Installation, http.MethodPost, "/api/jobs", body)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	var made struct {
		ID    string `json:"id"`
		RunID string `json:"run_id"`
	}
	require.NoError(t, json.Unmarshal(a.body, &made))
	o["job_id"], o["run_id"] = made.ID, made.RunID
	var token string
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(w.Find(name, func(string) bool { return true }))
		token = string(raw)
		return token != ""
	}, time.Minute, 50*time.Millisecond, "the command did not write its token")
	o["ingest token"] = token
	return token
}

// upload is a signed upload request.
type upload struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

func put(ctx context.Context, t *testing.T, u upload, data []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, u.Method, u.URL, bytes.NewReader(data))
	require.NoError(t, err)
	for k, v := range u.Headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Less(t, resp.StatusCode, 300)
}

// uploadUncommitted uploads the only file of a version and does not commit the version.
func (w *harness) uploadUncommitted(ctx context.Context, t *testing.T, p *person, dataset, version string) {
	t.Helper()
	w.uploadFile(ctx, t, p, dataset, version, []byte(`{"text": "`+version+`"}`+"\n"))
}

// uploadFile uploads data as the only file of a version.
func (w *harness) uploadFile(ctx context.Context, t *testing.T, p *person, dataset, version string, data []byte) {
	t.Helper()
	sum := sha256.Sum256(data)
	var made struct {
		Uploads []upload `json:"uploads"`
	}
	p.do(ctx, t, w.Installation, http.MethodPost, "/api/datasets/"+dataset+"/versions", map[string]any{
		"version": version,
		"files":   []any{map[string]any{"path": "a.jsonl", "size_bytes": len(data), "sha256": hex.EncodeToString(sum[:])}},
	}, &made)
	for _, u := range made.Uploads {
		put(ctx, t, u, data)
	}
}

// exportModel uploads a model as the run would, and returns the id of the artifact.
func (w *harness) exportModel(ctx context.Context, t *testing.T, run, token string) string {
	t.Helper()
	job := at(3)
	job.token = token
	data := fixtures.GGUF(run)
	sum := sha256.Sum256(data)
	var ticket struct {
		upload
		ObjectURI string `json:"object_uri"`
	}
	job.do(ctx, t, w.Installation, http.MethodGet, fmt.Sprintf("/api/ingest/artifact/upload-url?run_id=%s&kind=merged_model&path=m.gguf&size_bytes=%d&sha256=%s",
		run, len(data), hex.EncodeToString(sum[:])), nil, &ticket)
	put(ctx, t, ticket.upload, data)
	job.do(ctx, t, w.Installation, http.MethodPost, "/api/ingest/artifact", map[string]any{
		"run_id": run, "kind": "merged_model", "path": ticket.ObjectURI, "format": "gguf", "step": 1, "size_bytes": len(data),
	}, nil)
	var list []struct {
		ID string `json:"id"`
	}
	w.people["owner"].do(ctx, t, w.Installation, http.MethodGet, "/api/runs/"+run+"/artifacts", nil, &list)
	require.Len(t, list, 1)
	return list[0].ID
}
