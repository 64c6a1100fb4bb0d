package contract

import (
	"fmt"
	"iter"
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

// applications is the path of the only list without the parameter `limit`.
const applications = "/api/solution-applications"

// TestEveryListGrows checks that each list has a function in growingLists, or in fixedLists if its row in the table of
// routes gives the reason why no rows can be added.
func TestEveryListGrows(t *testing.T) {
	t.Parallel()
	growing, fixed := growingLists(), fixedLists()
	for _, r := range routes.Load().Routes() {
		if !routes.List(r.Route) {
			continue
		}
		wanted, other, where := growing, fixed, "growingLists, which adds rows, or the word fixed=\"WHY\" to its row"
		if r.Fixed != "" {
			wanted, other, where = fixed, growing, "fixedLists, which returns its path"
		}
		assert.NotNil(t, wanted[r.Pattern], "%s: add a function to %s", r.Pattern, where)
		assert.Nil(t, other[r.Pattern], "%s: its row has the word fixed=%q: move its function to the other map, or change the row", r.Pattern, r.Fixed)
	}
	lists := map[string]bool{}
	for _, rt := range route.Table() {
		lists[rt.Pattern] = lists[rt.Pattern] || routes.List(rt)
	}
	for pattern := range growing {
		assert.True(t, lists[pattern], "%s does not return a list: remove its function from growingLists", pattern)
	}
	for pattern := range fixed {
		assert.True(t, lists[pattern], "%s does not return a list: remove its function from fixedLists", pattern)
	}
}

func keys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// fixedLists returns the lists to which the test adds no rows, by pattern. Their rows in the table of routes state why.
func fixedLists() map[string]func(g *listGrower) growingList {
	at := func(path, by string) func(*listGrower) growingList {
		return func(*listGrower) growingList { return growingList{path: path, by: by} }
	}
	return map[string]func(g *listGrower) growingList{
		"/api/admin/keys":     at("/api/admin/keys", "kid"),
		"/api/admin/settings": at("/api/admin/settings", "key"),
		"/api/recipes/{namespace}/{name}/versions/{version}/download": func(g *listGrower) growingList {
			return growingList{path: "/api/recipes/" + recipe + "/versions/" + g.at("recipe_version") + "/download", by: "path"}
		},
		"/api/admin/users/{user_id}/owned": func(g *listGrower) growingList {
			var found []struct {
				created

				Username string `json:"username"`
			}
			g.do(g.admin, http.MethodGet, "/api/admin/users?q=admin&limit=500", nil, &found)
			for _, u := range found {
				if u.Username == "admin" {
					return growingList{path: "/api/admin/users/" + u.ID + "/owned", by: "kind"}
				}
			}
			require.FailNow(g, "user admin not found")
			return growingList{}
		},
		"/api/datasets/{dataset_id}/versions/{version}/files": func(g *listGrower) growingList {
			_, digest := file("x")
			files := []any{}
			for i := range 5 {
				files = append(files, map[string]any{"path": fmt.Sprint("part-", i), "size_bytes": 1, "sha256": digest})
			}
			path := g.inProject("/api/datasets", "many-files")
			var out struct {
				Uploads []uploadTarget `json:"uploads"`
			}
			g.do(g.admin, http.MethodPost, path+"/versions", map[string]any{"version": "v1", "files": files}, &out)
			for _, u := range out.Uploads {
				u.put(g.builder, []byte("x"))
			}
			g.do(g.admin, http.MethodPost, path+"/versions/v1/commit", nil, nil)
			return growingList{path: path + "/versions/v1/files", by: "path"}
		},
		"/api/datasets/{dataset_id}/versions/{version}/download": func(g *listGrower) growingList {
			return growingList{path: "/api/datasets/" + g.at("dataset") + "/versions/v1/download", by: "path"}
		},
		"/api/models/{model_id}/versions/{version}/download": func(g *listGrower) growingList {
			return growingList{path: "/api/models/" + g.at("model") + "/versions/1/download", by: "path"}
		},
		"/api/jobs/{id}/artifacts/{artifact_id}/download": func(g *listGrower) growingList {
			return growingList{path: "/api/jobs/" + g.at("job") + "/artifacts/" + g.at("artifact") + "/download", by: "path"}
		},
		"/api/runs/{id}/artifacts/{artifact_id}/download": func(g *listGrower) growingList {
			return growingList{path: "/api/runs/" + g.at("run") + "/artifacts/" + g.at("artifact") + "/download", by: "path"}
		},
		"/api/models/{model_id}/versions/{version}/files": func(g *listGrower) growingList {
			return growingList{path: "/api/models/" + g.at("model") + "/versions/1/files", by: "path"}
		},
	}
}

// listGrower adds rows to lists.
type listGrower struct {
	*builder

	admin *client.Client
	// run is the run whose reports add rows.
	run *training
	// pool has no nodes, so that its jobs stay queued.
	pool string
}

func (w *harness) listGrower(t *testing.T) *listGrower {
	t.Helper()
	b := &builder{TB: t, harness: w, get: w.variables(t)}
	g := &listGrower{builder: b, admin: b.as("admin"), run: b.train(), pool: b.name()}
	g.do(g.admin, http.MethodPost, "/api/fleets", map[string]any{"name": g.pool, "kind": "agent", "pools": []string{g.pool}}, nil)
	g.run.lifecycle("running")
	return g
}

// in returns a copy of the grower whose failures fail the subtest t.
func (g *listGrower) in(t *testing.T) *listGrower {
	t.Helper()
	b, run, c := *g.builder, *g.run, *g
	b.TB, run.b, c.builder, c.run = t, &b, &b, &run
	return &c
}

// growingLists returns the lists to which requests add rows, by pattern.
func growingLists() map[string]func(g *listGrower) growingList {
	all := map[string]func(g *listGrower) growingList{}
	for _, some := range []map[string]func(g *listGrower) growingList{peopleLists(), catalogLists(), servingLists(), workLists(), reportLists()} {
		maps.Copy(all, some)
	}
	return all
}

const rowPrefix = "row-"

// rowName returns the name of row n. The names sort in the order of n.
func rowName(n int) string { return fmt.Sprintf(rowPrefix+"%05d", n) }

// posts returns a list to which each POST to its path adds a row. The list shows the newest row first.
func posts(path string, body func(g *listGrower, name string) map[string]any) func(g *listGrower) growingList {
	return func(g *listGrower) growingList {
		return growingList{path: path, position: atFront, add: func(n int) { g.do(g.admin, http.MethodPost, path, body(g, rowName(n)), nil) }}
	}
}

// sorted is like posts, for a list that is sorted by the given member.
func sorted(path, by string, body func(g *listGrower, name string) map[string]any) func(g *listGrower) growingList {
	return func(g *listGrower) growingList {
		list := posts(path, body)(g)
		list.by, list.position = by, byName
		return list
	}
}

// named is like posts, for objects that have a name and belong to the shared project.
func named(path string) func(g *listGrower) growingList {
	return posts(path, func(_ *listGrower, name string) map[string]any {
		return map[string]any{"name": name, "project": projectKey}
	})
}

// inProject creates an object with a name in the shared project and returns its path.
func (g *listGrower) inProject(path, name string) string {
	g.Helper()
	var one created
	g.do(g.admin, http.MethodPost, path, map[string]any{"name": name, "project": projectKey}, &one)
	return path + "/" + one.ID
}
