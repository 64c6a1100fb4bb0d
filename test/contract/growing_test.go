package contract

import (
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// applications is the one list that takes no limit.
const applications = "/api/solution-applications"

// listPatterns are the patterns of all lists.
func listPatterns(t *testing.T) []string {
	t.Helper()
	out := []string{applications}
	for _, rt := range selected(t, "list") {
		out = append(out, rt.Pattern)
	}
	return out
}

// TestEveryListGrows finds the lists of which nobody has said what adds to them, or why nothing can.
func TestEveryListGrows(t *testing.T) {
	t.Parallel()
	said := slices.Collect(keys(growing()))
	for pattern, list := range fixed() {
		require.NotContains(t, said, pattern)
		require.NotEmpty(t, list.why)
		said = append(said, pattern)
	}
	require.ElementsMatch(t, listPatterns(t), said)
	for _, rt := range route.Table() {
		if rt.Kind == route.RPC && rt.Method == http.MethodGet && inputOf(t, rt).Fields().ByName("offset") != nil {
			require.Contains(t, said, rt.Pattern)
		}
	}
}

func keys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// still is a list to which no request of a test adds.
type still struct {
	why string
	of  func(g *grower) growth
}

func fixed() map[string]still {
	at := func(path, by string) func(*grower) growth {
		return func(*grower) growth { return growth{path: path, by: by} }
	}
	return map[string]still{
		"/api/admin/keys":     {"a rotation is refused until the key of the last one signs, and ends older ones", at("/api/admin/keys", "kid")},
		"/api/admin/settings": {"settings are those that the program knows", at("/api/admin/settings", "key")},
		"/api/recipes":        {"recipes come with the program", at("/api/recipes", "name")},
		"/api/admin/users/{user_id}/owned": {"a row is a kind of things", func(g *grower) growth {
			var found []struct {
				made

				Username string `json:"username"`
			}
			g.do(g.admin, http.MethodGet, "/api/admin/users?q=admin&limit=500", nil, &found)
			for _, u := range found {
				if u.Username == "admin" {
					return growth{path: "/api/admin/users/" + u.ID + "/owned", by: "kind"}
				}
			}
			require.FailNow(g, "there is no admin")
			return growth{}
		}},
		"/api/datasets/{dataset_id}/versions/{version}/files": {"a version has the files of its manifest", func(g *grower) growth {
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
			return growth{path: path + "/versions/v1/files", by: "path"}
		}},
		"/api/models/{model_id}/versions/{version}/files": {"a version has one object", func(g *grower) growth {
			return growth{path: "/api/models/" + g.at("model") + "/versions/1/files", by: "path"}
		}},
	}
}

// grower adds to lists.
type grower struct {
	*builder

	admin *client.Client
	// run reports what lists of reports get.
	run *training
	// pool has no nodes: what is to run there waits.
	pool string
}

func (w *world) grower(t *testing.T) *grower {
	t.Helper()
	b := &builder{TB: t, world: w, get: w.variables(t)}
	g := &grower{builder: b, admin: b.as("admin"), run: b.train(), pool: b.name()}
	g.do(g.admin, http.MethodPost, "/api/fleets", map[string]any{"name": g.pool, "kind": "agent", "pools": []string{g.pool}}, nil)
	g.run.lifecycle("running")
	return g
}

// in is the same grower, whose failures are those of a part of the test.
func (g *grower) in(t *testing.T) *grower {
	t.Helper()
	b, run, c := *g.builder, *g.run, *g
	b.TB, run.b, c.builder, c.run = t, &b, &b, &run
	return &c
}

// growing are the lists to which requests add, by their patterns.
func growing() map[string]func(g *grower) growth {
	all := map[string]func(g *grower) growth{}
	for _, some := range []map[string]func(g *grower) growth{ofPeople(), ofCatalog(), ofServing(), ofWork(), ofReports()} {
		maps.Copy(all, some)
	}
	return all
}

const rowPrefix = "row-"

// rowName is the name of an added row; they sort in the order in which they are added.
func rowName(n int) string { return fmt.Sprintf(rowPrefix+"%05d", n) }

// posts is a list, newest first, to which each request adds one.
func posts(path string, body func(g *grower, name string) map[string]any) func(g *grower) growth {
	return func(g *grower) growth {
		return growth{path: path, comes: inFront, add: func(n int) { g.do(g.admin, http.MethodPost, path, body(g, rowName(n)), nil) }}
	}
}

// sorted is such a list that goes by a name of its rows.
func sorted(path, by string, body func(g *grower, name string) map[string]any) func(g *grower) growth {
	return func(g *grower) growth {
		list := posts(path, body)(g)
		list.by, list.comes = by, byName
		return list
	}
}

// named is a list of things that are of the world's project and have names.
func named(path string) func(g *grower) growth {
	return posts(path, func(_ *grower, name string) map[string]any {
		return map[string]any{"name": name, "project": projectKey}
	})
}

// inProject makes one of those things and answers its path.
func (g *grower) inProject(path, name string) string {
	g.Helper()
	var one made
	g.do(g.admin, http.MethodPost, path, map[string]any{"name": name, "project": projectKey}, &one)
	return path + "/" + one.ID
}
