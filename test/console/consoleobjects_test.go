package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
)

// routeObjects are the ids of what the pages of the console show beside the objects of the loop.
type routeObjects struct {
	dataset, model, rubric, environment string
	team, user, fleet, slurm, node      string
	session, share, outside             string
	// undocumented is whether this build has no documentation; its page then has an error status.
	undocumented bool
}

// made decodes the id of a new object and its secret, which is returned only once.
type made struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	Run   struct {
		ID string `json:"id"`
	} `json:"run"`
}

// newRouteObjects finds or creates an object for each page that shows one. It ends the session of the playground with
// the test.
func newRouteObjects(ctx context.Context, t *testing.T, l *e2eflow.Loop) routeObjects {
	t.Helper()
	create := func(path string, body map[string]any) made {
		var out made
		require.NoError(t, l.Client.Post(ctx, path, body, &out), path)
		return out
	}
	find := func(path string, query url.Values) string {
		var out []made
		require.NoError(t, l.Client.Get(ctx, path, query, &out), path)
		require.NotEmpty(t, out, path)
		return out[0].ID
	}
	named := url.Values{"q": {l.Name}}
	o := routeObjects{
		dataset: find("/api/datasets", named), model: find("/api/models", named),
		user: find("/api/admin/users", nil), node: find("/api/cluster/nodes", nil),
		team:    create("/api/teams", map[string]any{"key": "crew", "name": "Crew"}).ID,
		fleet:   create("/api/fleets", map[string]any{"name": l.Name, "kind": "agent", "pools": []string{l.Name}}).ID,
		slurm:   create("/api/fleets", map[string]any{"name": "hpc", "kind": "slurm", "pools": []string{"hpc"}}).ID,
		share:   create("/api/shares", map[string]any{"kind": "job", "target_ids": []string{l.Job.ID}}).Token,
		outside: create("/api/runs", map[string]any{"name": "notebook", "project": "default"}).Run.ID,
		rubric:  create("/api/rubrics", map[string]any{"name": l.Name}).ID,
	}
	create("/api/fleets/"+o.fleet+"/join-tokens", map[string]any{})
	for _, weight := range []int{1, 2} {
		criteria := []any{map[string]any{"key": "right", "weight": weight, "kind": "exact"}}
		create("/api/rubrics/"+o.rubric+"/versions", map[string]any{"content": map[string]any{"criteria": criteria}})
	}
	o.environment = create("/api/environments", map[string]any{"name": l.Name}).ID
	createEnvironmentVersion(ctx, t, l, o.environment)
	o.session = create("/api/playground/sessions", map[string]any{
		"title": "Sums", "targets": []any{map[string]any{"source": map[string]any{"model_id": o.model, "version": 1}}},
	}).ID
	t.Cleanup(func() {
		path := "/api/playground/sessions/" + o.session
		require.NoError(t, l.Client.Do(context.WithoutCancel(ctx), http.MethodDelete, path, nil, nil))
	})
	o.undocumented = undocumented(ctx, t, l.Client.Base())
	return o
}

func createEnvironmentVersion(ctx context.Context, t *testing.T, l *e2eflow.Loop, id string) {
	t.Helper()
	tasks := []byte(`{"prompt": "27+46?"}` + "\n")
	sum := sha256.Sum256(tasks)
	digest := hex.EncodeToString(sum[:])
	var target struct {
		URL     string            `json:"url"`
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
	}
	path := "/api/environments/" + id
	body := map[string]any{"kind": "taskset", "size_bytes": len(tasks), "sha256": digest}
	require.NoError(t, l.Client.Post(ctx, path+"/upload-url", body, &target))
	require.NoError(t, l.Client.Upload(ctx, target.Method, target.URL, target.Headers, tasks))
	manifest := map[string]any{"api": "env/v1", "entry": "a:B", "taskset": map[string]any{"digest": "sha256:" + digest, "count": 1}}
	require.NoError(t, l.Client.Post(ctx, path+"/versions", map[string]any{"version": "v1", "manifest": manifest}, nil))
}

// undocumented reports whether the server was built without the documentation.
func undocumented(ctx context.Context, t *testing.T, base string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/docs/", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/html")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode == http.StatusNotImplemented
}
