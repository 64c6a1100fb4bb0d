package contract

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

// leaked is a finished run of the leaker recipe, with everything that could show what the run read.
type leaked struct {
	b   *builder
	row string // the row of the dataset
	// ids holds the values of the variables of paths that depend on the run.
	ids map[string]string
}

// requireNoLeak runs the leaker on an unprotected and on a protected dataset, and reads every route of the OpenAPI
// document as each kind of caller. The row of the unprotected dataset must be in many responses, which shows that the
// leaker works. The row of the protected dataset must be in no response and nowhere in the database.
func (w *harness) requireNoLeak(t *testing.T) {
	b := &builder{TB: t, harness: w, get: w.variables(t), set: w.set}
	open, kept := b.runLeaker(false), b.runLeaker(true)
	shown := open.visible()
	for _, path := range []string{
		"/api/jobs/{job_id}", "/api/jobs/{job_id}/attempts", "/api/jobs/{job_id}/events", "/api/jobs/{id}/stream", "/api/jobs", "/api/runs/{id}/logs",
		"/api/runs/{id}/logs/search", "/api/runs/{id}/logs/stream", "/api/runs/{id}/logs/download", "/api/runs/{id}/metrics", "/api/runs/{id}/metrics/summary", "/api/runs/{id}/metrics/stream", "/api/runs/{id}/metrics/export", "/api/runs/{id}/series", "/api/runs/{id}/hparams",
		"/api/runs/{id}/samples",
		"/api/runs/{id}/artifacts", "/api/runs/{id}/environment", "/api/runs/{id}/environment/nodes", "/api/runs/{id}/hardware",
		"/api/runs/{id}/benchmarks", "/api/agent-evaluations/{run_id}", "/api/agent-evaluations/{run_id}/items", "/api/share/{token}/metrics",
		"/api/share/{token}/config", "/api/share/{token}/samples", "/api/models/{model_id}/versions/{version}/files",
	} {
		require.Contains(t, shown, "GET "+path, "the leaker must leak the row of an unprotected dataset here; otherwise the test proves nothing")
	}
	require.Empty(t, kept.visible(), "no response may contain the row of a protected dataset")
	require.Empty(t, kept.stored(), "no table may contain the row of a protected dataset")
	kept.requireOwnersOnly()
}

// runLeaker runs the leaker on a new dataset and waits for its end. It registers the run's model and shares the run.
func (b *builder) runLeaker(protected bool) *leaked {
	b.Helper()
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	l := &leaked{b: b, row: "planted-" + hex.EncodeToString(raw[:])}
	name := "leaks-" + hex.EncodeToString(raw[:])
	dataset := b.createDataset(name, fmt.Sprintf("{\"question\": %q}\n", l.row), protected)
	submission := b.leak(name, dataset, map[string]string{})
	if protected {
		b.requireTrustNeeded(submission)
	}
	var job struct {
		ID    string `json:"id"`
		RunID string `json:"run_id"`
		State string `json:"state"`
	}
	b.do(b.as("operator"), http.MethodPost, "/api/jobs", submission, &job)
	b.await("the leaker ends", func() bool {
		b.do(b.as("operator"), http.MethodGet, "/api/jobs/"+job.ID, nil, &job)
		return job.State == "failed"
	})
	l.ids = map[string]string{"job_id": job.ID, "run_id": job.RunID, "name": "leaker", "namespace": "test", "recipe_version": leakerVersion, "project_id": b.at("project_id")}
	l.register(name)
	l.share(protected)
	return l
}

// requireTrustNeeded checks that the leaker may not read protected data unless an admin trusts it.
func (b *builder) requireTrustNeeded(submission map[string]any) {
	b.Helper()
	var recipe struct {
		Digest string `json:"digest"`
	}
	b.do(b.as("admin"), http.MethodGet, leakerPath, nil, &recipe)
	trust := func(trusted bool) {
		b.do(b.as("admin"), http.MethodPut, "/api/admin/recipes/"+leaker+"/versions/"+leakerVersion+"/trust",
			map[string]any{"digest": recipe.Digest, "trusted": trusted}, nil)
	}
	trust(false)
	got, err := b.as("operator").Call(b.Context(), http.MethodPost, "/api/jobs", submission)
	require.NoError(b, err)
	require.Equal(b, http.StatusForbidden, got.Status, "%s", got.Body)
	require.Contains(b, string(got.Body), `"code":"bindings"`)
	trust(true)
}

// register registers the run's model, with the credential of the dataset's owner.
func (l *leaked) register(name string) {
	b := l.b
	b.Helper()
	var artifacts []struct {
		ID   string `json:"id"`
		Kind string `json:"kind"`
	}
	b.do(b.as("operator"), http.MethodGet, "/api/runs/"+l.ids["run_id"]+"/artifacts", nil, &artifacts)
	for _, a := range artifacts {
		if a.Kind == "merged_model" {
			l.ids["artifact_id"] = a.ID
		}
	}
	if l.ids["artifact_id"] == "" {
		log, err := b.as("operator").Call(b.Context(), http.MethodGet, "/api/runs/"+l.ids["run_id"]+"/logs", nil)
		require.NoError(b, err)
		require.FailNow(b, "the leaker run has registered no model", "%s", log.Body)
	}
	var model created
	b.do(b.as("operator"), http.MethodPost, "/api/models", map[string]any{"name": name, "project": projectKey}, &model)
	b.do(b.as("operator"), http.MethodPost, "/api/models/"+model.ID+"/versions",
		map[string]any{"source": map[string]string{"run_id": l.ids["run_id"], "artifact_id": l.ids["artifact_id"]}}, nil)
	l.ids["model_id"] = model.ID
}

// share creates a link that shows the run. A protected run cannot be shared, so share makes its link look as if it were
// older than the protection.
func (l *leaked) share(protected bool) {
	b := l.b
	b.Helper()
	request := map[string]any{"kind": "job", "target_ids": []string{l.ids["run_id"]}, "fields": []string{"metrics", "config", "samples"}}
	if protected {
		got, err := b.as("operator").Call(b.Context(), http.MethodPost, "/api/shares", request)
		require.NoError(b, err)
		require.Equal(b, http.StatusForbidden, got.Status, "%s", got.Body)
		request["target_ids"] = []string{b.at("run")}
	}
	var link struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	}
	b.do(b.as("operator"), http.MethodPost, "/api/shares", request, &link)
	l.ids["share_id"], l.ids["token"] = link.ID, link.Token
	if protected {
		b.execSQL(b.Context(), `UPDATE jobs.share SET targets = ARRAY[$2], runs = ARRAY[$2] WHERE id = $1`, link.ID, l.ids["run_id"])
	}
}

// spellings returns the forms in which the leaker writes the row.
func (l *leaked) spellings() []string {
	return []string{l.row, hex.EncodeToString([]byte(l.row)), base64.StdEncoding.EncodeToString([]byte(l.row))}
}

func (l *leaked) in(text string) bool {
	return slices.ContainsFunc(l.spellings(), func(s string) bool { return strings.Contains(text, s) })
}

// visible returns the operations of the OpenAPI document whose response contains the row, for any caller: the owner of
// the run, a member of its project, a user without access, an admin, and a caller without a credential.
func (l *leaked) visible() (found []string) {
	l.b.Helper()
	readers := []*client.Client{l.b.as("operator"), l.b.as("viewer"), l.b.as("stranger"), l.b.as("admin"), l.b.caller()}
	for _, op := range description(l.b).Operations() {
		if slices.Contains(routes.Load().Endless(), op.Path) {
			continue // its events contain what the list contains
		}
		readers, body := readers, any(nil)
		if op.Method != http.MethodGet {
			if op.Method == http.MethodDelete || !strings.HasPrefix(op.Path, "/api/jobs/{") {
				continue // the later calls need the job
			}
			readers, body = readers[:1], map[string]any{}
		}
		path := l.path(op.Path)
		for _, c := range readers {
			got, err := c.Call(l.b.Context(), op.Method, path, body)
			require.NoError(l.b, err, "%s %s", op.Method, path)
			if l.in(string(got.Body)+fmt.Sprint(got.Header)) && !slices.Contains(found, op.Method+" "+op.Path) {
				found = append(found, op.Method+" "+op.Path)
			}
		}
	}
	return found
}

// path returns the path of an operation with the ids of the run and its model.
func (l *leaked) path(pattern string) string {
	return routes.Load().Fill(pattern, func(v routes.Variable) string {
		value := cmp.Or(l.ids[v.Name], v.Present)
		require.True(l.b, value != "" || !v.OfRun, "a run has made the object of {%s} or is shown by it: runLeaker must set its value", v.Name)
		return cmp.Or(value, v.Absent)
	})
}

// stored returns the tables that contain the row of the dataset. It ignores columns named writer: the run chooses the
// writer names of its reports, and no route returns them to users.
func (l *leaked) stored() (found []string) {
	b := l.b
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.database())
	require.NoError(b, err)
	defer func() { require.NoError(b, conn.Close(b.Context())) }()
	rows, err := conn.Query(b.Context(), `SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables
		WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`)
	require.NoError(b, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b, err)
	for _, table := range tables {
		for _, s := range l.spellings() {
			var n int // $2 finds the text in columns of type bytea, which JSON shows in hex digits
			err := conn.QueryRow(b.Context(), `SELECT count(*) FROM `+table+` t
				WHERE strpos((to_jsonb(t) - 'writer')::text, $1) > 0 OR strpos((to_jsonb(t) - 'writer')::text, $2) > 0`,
				s, hex.EncodeToString([]byte(s))).Scan(&n)
			require.NoError(b, err, table)
			if n > 0 {
				found = append(found, fmt.Sprintf("%s: %d rows with %s", table, n, s))
			}
		}
	}
	return found
}

// requireOwnersOnly checks that a user who may not change the protected dataset can use neither the artifacts of the run
// nor the model, even with the right to change their project.
func (l *leaked) requireOwnersOnly() {
	b := l.b
	b.Helper()
	sum := sha256.Sum256([]byte(l.row))
	name := "other-" + hex.EncodeToString(sum[:4])
	b.do(b.as("admin"), http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": "a good password"}, nil)
	other := b.caller().With(secret.New(b.signIn(name, "a good password")))
	b.execSQL(b.Context(), `UPDATE jobs.run SET visibility = 'all' WHERE id = $1`, l.ids["run_id"])
	b.execSQL(b.Context(), `UPDATE registry.model SET visibility = 'all' WHERE id = $1`, l.ids["model_id"])
	var model created
	b.do(other, http.MethodPost, "/api/models", map[string]any{"name": name}, &model)
	for path, body := range map[string]map[string]any{
		"/api/models/" + model.ID + "/versions": {"source": map[string]string{"run_id": l.ids["run_id"], "artifact_id": l.ids["artifact_id"]}},
		"/api/playground/sessions":              {"targets": []any{map[string]any{"source": map[string]any{"model_id": l.ids["model_id"], "version": 1}}}},
	} {
		got, err := other.Call(b.Context(), http.MethodPost, path, body)
		require.NoError(b, err)
		require.Equal(b, http.StatusForbidden, got.Status, "%s: %s", path, got.Body)
		require.Contains(b, string(got.Body), "dataset_protected", path)
	}
}
