package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestProjectVisibility_coversContents changes the visibility of a project that contains an object of every
// kind.
func TestProjectVisibility_coversContents(t *testing.T) {
	w := newHarness(t.Context(), t, testenv.Single(t, testenv.Options{Env: cheapHashing()}))
	ctx := t.Context()
	w.requireSeenByAll(ctx, t)
	ends := w.followStreams(ctx, t, "stranger")
	made := w.createWhileHidden(ctx, t)
	for path, end := range ends {
		assert.Contains(t, <-end, "event: error\ndata: {\"detail\":\"no such ", path)
	}
	w.requireSeenByMembersOnly(ctx, t)
	for _, id := range made {
		require.Equal(t, http.StatusNotFound, w.people["stranger"].call(ctx, t, w.Installation, http.MethodGet, "/api/datasets/"+id, "").status)
	}
	ends = w.followStreams(ctx, t, "viewer")
	w.people["manager"].do(ctx, t, w.Installation, http.MethodDelete, "/api/projects/"+w.open["project_id"]+"/members/viewer", nil, nil)
	for path, end := range ends {
		// The stream ends as if the connection had broken. A client that reconnects receives 404.
		assert.NotContains(t, <-end, "event: e", path)
		assert.Equal(t, http.StatusNotFound, w.people["viewer"].call(ctx, t, w.Installation, http.MethodGet, path, "").status, path)
	}
	w.setVisibility(ctx, t, "all")
	w.requireSeenByAll(ctx, t)
	for _, id := range made {
		require.Equal(t, http.StatusOK, w.people["stranger"].call(ctx, t, w.Installation, http.MethodGet, "/api/datasets/"+id, "").status)
	}
}

// single maps routes that show one object to the name of that object's id. Every service serves some of the routes.
func single() map[string]string {
	return map[string]string{
		"/api/projects/<it>": "project_id", "/api/jobs/<it>": "job_id", "/api/runs/<it>": "run_id", "/api/runs/<it>/artifacts": "run_id",
		"/api/runs/<it>/metrics": "run_id", "/api/datasets/<it>": "dataset_id", "/api/models/<it>": "model_id",
		"/api/model-deployments/<it>": "deployment_id", "/api/model-deployments/<it>/traffic": "deployment_id",
		"/api/environments/<it>": "environment_id", "/api/rubrics/<it>": "rubric_id", "/api/solutions/<it>": "solution_id",
		"/api/solution-applications/<it>": "application_id", "/api/submit/packages/<it>": "package_id",
	}
}

// lists maps routes that list objects to the name of the objects' ids.
func lists() map[string]string {
	return map[string]string{
		"/api/projects": "project_id", "/api/jobs": "job_id", "/api/runs?state=all": "run_id", "/api/datasets": "dataset_id",
		"/api/models": "model_id", "/api/model-deployments": "deployment_id", "/api/environments": "environment_id",
		"/api/rubrics": "rubric_id", "/api/solutions": "solution_id", "/api/solution-applications": "application_id",
	}
}

func (w *harness) setVisibility(ctx context.Context, t *testing.T, visibility string) {
	t.Helper()
	var p struct {
		Visibility string `json:"visibility"`
	}
	w.people["manager"].do(ctx, t, w.Installation, http.MethodPatch, "/api/projects/"+w.open["project_id"], map[string]any{"visibility": visibility}, &p)
	require.Equal(t, visibility, p.Visibility)
}

func (w *harness) requireSeenByAll(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, who := range []string{"stranger", "viewer"} {
		w.requireSees(ctx, t, who)
	}
}

func (w *harness) requireSees(ctx context.Context, t *testing.T, who string) {
	t.Helper()
	for path, name := range single() {
		a := w.people[who].call(ctx, t, w.Installation, http.MethodGet, strings.ReplaceAll(path, "<it>", w.open[name]), "")
		assert.Equal(t, http.StatusOK, a.status, "%s: %s: %s", who, path, a.body)
	}
	for path, name := range lists() {
		a := w.people[who].call(ctx, t, w.Installation, http.MethodGet, path, "")
		assert.Equal(t, http.StatusOK, a.status, "%s: %s", who, path)
		assert.Contains(t, string(a.body), w.open[name], "%s: %s", who, path)
	}
}

// requireSeenByMembersOnly requires that members see the project's objects, and that for other operators each
// object looks like a missing one.
func (w *harness) requireSeenByMembersOnly(ctx context.Context, t *testing.T) {
	t.Helper()
	w.requireSees(ctx, t, "viewer")
	stranger := w.people["stranger"]
	for path, name := range single() {
		hidden := stranger.call(ctx, t, w.Installation, http.MethodGet, strings.ReplaceAll(path, "<it>", w.open[name]), "")
		assert.Equal(t, http.StatusNotFound, hidden.status, path)
		none := missingID(name, w.open[name])
		nothing := stranger.call(ctx, t, w.Installation, http.MethodGet, strings.ReplaceAll(path, "<it>", none), "")
		assert.Equal(t, normalized(nothing, none), normalized(hidden, w.open[name]), path)
	}
	for path, name := range lists() {
		a := stranger.call(ctx, t, w.Installation, http.MethodGet, path, "")
		assert.Equal(t, http.StatusOK, a.status, path)
		assert.NotContains(t, string(a.body), w.open[name], path)
	}
}

// followStreams opens every stream of the job in the open project. Each returned channel receives the text of
// its stream when the stream ends.
func (w *harness) followStreams(ctx context.Context, t *testing.T, who string) map[string]<-chan string {
	t.Helper()
	ends := map[string]<-chan string{}
	for _, path := range []string{"/api/jobs/<it>/stream", "/api/jobs/<it>/logs/stream", "/api/jobs/<it>/metrics/stream"} {
		path = strings.ReplaceAll(path, "<it>", w.open["job_id"])
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+w.people[who].token)
		resp, err := w.people[who].http.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		end := make(chan string, 1)
		go func() {
			events, err := io.ReadAll(resp.Body)
			if err != nil {
				events = fmt.Appendf(events, "event: e, %v", err)
			}
			end <- string(events)
		}()
		ends[path] = end
	}
	return ends
}

// createWhileHidden hides the project while the editor is creating datasets in it. It returns the ids of the
// datasets.
func (w *harness) createWhileHidden(ctx context.Context, t *testing.T) (ids []string) {
	t.Helper()
	const makers, each = 4, 3
	var wg sync.WaitGroup
	var mu sync.Mutex
	began := make(chan struct{}, makers*each)
	defer wg.Wait()
	editor := w.people["editor"]
	for m := range makers {
		wg.Go(func() {
			for n := range each {
				body := fmt.Sprintf(`{"name": "meanwhile-%d-%d", "project": %q}`, m, n, w.open["project"])
				began <- struct{}{}
				a := editor.call(ctx, t, w.Installation, http.MethodPost, "/api/datasets", body)
				var made struct {
					ID string `json:"id"`
				}
				if err := json.Unmarshal(a.body, &made); err != nil || made.ID == "" {
					t.Errorf("create a dataset: %d %s", a.status, a.body)
					return
				}
				mu.Lock()
				ids = append(ids, made.ID)
				mu.Unlock()
			}
		})
	}
	<-began
	w.setVisibility(ctx, t, "team")
	// From now on, datasets that are still being created must be hidden as well.
	stranger := w.people["stranger"].call(ctx, t, w.Installation, http.MethodGet, "/api/datasets", "")
	require.NotContains(t, string(stranger.body), "meanwhile-")
	wg.Wait()
	require.Len(t, ids, makers*each)
	return ids
}
