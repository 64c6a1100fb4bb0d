package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestProjectVisibility_coversContents changes the visibility of a project that contains an object of every
// kind.
func TestProjectVisibility_coversContents(t *testing.T) {
	ctx := t.Context()
	w := visibilityHarness{harness: newHarness(ctx, t, testenv.Single(t, testenv.Options{Env: cheapHashing()}))}
	w.single, w.streams = w.shownBy(ctx, t, route.RPC), w.shownBy(ctx, t, route.Stream)
	require.Greater(t, len(w.single), 60)
	require.Greater(t, len(w.streams), 4)
	t.Logf("%d reads, %d streams, %d lists", len(w.single), len(w.streams), len(shownLists()))
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

// visibilityHarness is a harness with the requests whose responses depend on the visibility of the open project.
type visibilityHarness struct {
	*harness

	single, streams []shown
}

// shown is the request of a route for an object of the open project.
type shown struct {
	routes.Row

	path, object string
	// absent is the path with an object that does not exist.
	absent, none string
}

// shownBy returns the requests of the routes of one kind that show an object to every user who can see its project.
func (w *harness) shownBy(ctx context.Context, t *testing.T, kind route.Kind) []shown {
	t.Helper()
	var out []shown
	for _, r := range routes.Load().Rows {
		rule := routes.Load().Rules[r.Rule]
		if r.Method != http.MethodGet || r.Kind != kind || rule["viewer"] != "ok" || rule["seen"] != "ok" || rule["hidden"] != "404" {
			continue
		}
		o := w.prepare(ctx, t, cell{Row: r, relation: "seen"})
		of, _ := routes.Load().Variable(r.Pattern, r.Object())
		out = append(out, shown{r, o.fill(t, r.Pattern), o[of.Name], o.with(of.Name, of.Absent).fill(t, r.Pattern), of.Absent})
	}
	return out
}

// shownLists returns the rows of the lists that show objects of a project to those who can see it.
func shownLists() []routes.Row {
	var out []routes.Row
	for _, r := range routes.Load().Rows {
		if rule := routes.Load().Rules[r.Rule]; r.Method == http.MethodGet && rule["viewer"] == "both" && rule["seen"] == "open" {
			out = append(out, r)
		}
	}
	return out
}

func (w *harness) setVisibility(ctx context.Context, t *testing.T, visibility string) {
	t.Helper()
	var p struct {
		Visibility string `json:"visibility"`
	}
	w.people["manager"].do(ctx, t, w.Installation, http.MethodPatch, "/api/projects/"+w.open["project_id"], map[string]any{"visibility": visibility}, &p)
	require.Equal(t, visibility, p.Visibility)
}

func (w visibilityHarness) requireSeenByAll(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, who := range []string{"stranger", "viewer"} {
		w.requireSees(ctx, t, who)
	}
}

func (w visibilityHarness) requireSees(ctx context.Context, t *testing.T, who string) {
	t.Helper()
	for _, s := range w.single {
		a := w.people[who].call(ctx, t, w.Installation, http.MethodGet, s.path, "")
		assert.Contains(t, s.Success, a.status, "%s: %s: %s", who, s.path, a.body)
	}
	for _, r := range shownLists() {
		a := w.people[who].call(ctx, t, w.Installation, http.MethodGet, r.Pattern+query(r), "")
		assert.Equal(t, http.StatusOK, a.status, "%s: %s", who, r.Pattern)
		assert.Contains(t, string(a.body), listed(r, w.open), "%s: %s", who, r.Pattern)
	}
}

// requireSeenByMembersOnly requires that members see the project's objects, and that for other operators each
// object looks like a missing one.
func (w visibilityHarness) requireSeenByMembersOnly(ctx context.Context, t *testing.T) {
	t.Helper()
	w.requireSees(ctx, t, "viewer")
	stranger := w.people["stranger"]
	for _, s := range w.single {
		hidden := stranger.call(ctx, t, w.Installation, http.MethodGet, s.path, "")
		assert.Equal(t, http.StatusNotFound, hidden.status, s.path)
		nothing := stranger.call(ctx, t, w.Installation, http.MethodGet, s.absent, "")
		assert.Equal(t, normalized(nothing, s.none), normalized(hidden, s.object), s.path)
	}
	for _, r := range shownLists() {
		a := stranger.call(ctx, t, w.Installation, http.MethodGet, r.Pattern+query(r), "")
		assert.Equal(t, http.StatusOK, a.status, r.Pattern)
		assert.NotContains(t, string(a.body), listed(r, w.open), r.Pattern)
	}
}

// followStreams opens every stream of the job and the run in the open project. Each returned channel receives the text of
// its stream when the stream ends.
func (w visibilityHarness) followStreams(ctx context.Context, t *testing.T, who string) map[string]<-chan string {
	t.Helper()
	ends := map[string]<-chan string{}
	for _, stream := range w.streams {
		path := stream.path
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
