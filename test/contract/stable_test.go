package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// growing are the lists that this test adds to, and what it adds.
func growing(at func(string) string) map[string]func(name string) map[string]any {
	inProject := func(name string) map[string]any { return map[string]any{"name": name, "project": projectKey} }
	return map[string]func(name string) map[string]any{
		"/api/teams":             func(name string) map[string]any { return map[string]any{"key": name, "name": name} },
		"/api/projects":          func(name string) map[string]any { return map[string]any{"key": name, "name": name} },
		"/api/admin/users":       func(name string) map[string]any { return map[string]any{"username": name, "role": "operator"} },
		"/api/datasets":          inProject,
		"/api/models":            inProject,
		"/api/model-deployments": inProject,
		"/api/fleets": func(name string) map[string]any {
			return map[string]any{"name": name, "kind": "agent", "pools": []string{name}}
		},
		"/api/environments": inProject,
		"/api/rubrics":      inProject,
		"/api/shares": func(string) map[string]any {
			return map[string]any{"kind": "job", "target_ids": []string{at("job")}}
		},
		"/api/solutions": func(name string) map[string]any {
			return map[string]any{"project": projectKey, "manifest": map[string]any{"name": name, "version": "1", "recipe": recipe + "@" + at("recipe_version"), "purpose": map[string]any{}}}
		},
		"/api/datasets/" + at("dataset") + "/versions": func(name string) map[string]any {
			return map[string]any{"version": name, "files": []any{map[string]any{"path": "a", "size_bytes": 1, "sha256": strings.Repeat("a", 64)}}}
		},
		"/api/fleets/" + at("fleet") + "/join-tokens":            func(string) map[string]any { return map[string]any{} },
		"/api/model-deployments/" + at("deployment") + "/tokens": func(name string) map[string]any { return map[string]any{"name": name} },
	}
}

// stable walks every list page by page: rows keep their order, with or without others that are added meanwhile, and
// none of those that were there is passed over.
func (w *world) stable(t *testing.T) {
	t.Helper()
	get := w.variables(t)
	admin := (&builder{TB: t, world: w, get: get}).as("admin")
	lists := growing(func(name string) string {
		v, err := get(name)
		require.NoError(t, err)
		return v
	})
	for path, body := range lists {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			added := 0
			add := func() {
				added++
				name := fmt.Sprintf("row-%d-%s", added, strconv.Itoa(len(path)))
				require.NoError(t, admin.Post(t.Context(), path, body(name), nil))
			}
			for range 4 {
				add()
			}
			before := rows(t, admin, path, 500, 0)
			require.GreaterOrEqual(t, len(before), 4)
			require.Equal(t, before, walk(t, admin, path, 3, func() {}), "page by page it is the same list")
			seen := walk(t, admin, path, 3, add)
			require.Equal(t, before, first(seen, before), "what was added moved or hid what was there")
			require.Equal(t, before, first(rows(t, admin, path, 500, 0), before))
			require.Len(t, rows(t, admin, path, 500, 0), len(before)+added-4)
		})
	}
	for _, rt := range selected(t, "list not:variable") {
		if lists[rt.Pattern] == nil && !strings.Contains(rt.Pattern, "audit") {
			t.Run(strings.TrimPrefix(rt.Pattern, "/"), func(t *testing.T) {
				require.Equal(t, rows(t, admin, rt.Pattern, 500, 0), walk(t, admin, rt.Pattern, 2, func() {}))
			})
		}
	}
}

// walk reads a list page by page, with something done between the pages.
func walk(t *testing.T, c *client.Client, path string, limit int, between func()) []string {
	t.Helper()
	all := []string{}
	for offset := 0; ; offset += limit {
		page := rows(t, c, path, limit, offset)
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
		if len(all) < 60 {
			between()
		}
	}
}

// rows are what tells the rows of a page apart.
func rows(t *testing.T, c *client.Client, path string, limit, offset int) []string {
	t.Helper()
	var page []map[string]any
	require.NoError(t, c.Do(t.Context(), http.MethodGet, fmt.Sprintf("%s?limit=%d&offset=%d", path, limit, offset), nil, &page), path)
	require.LessOrEqual(t, len(page), limit)
	out := []string{}
	for _, row := range page {
		for _, name := range []string{"id", "kid", "key", "name", "subject"} {
			if v, ok := row[name].(string); ok {
				out = append(out, v)
				break
			}
		}
	}
	require.Len(t, out, len(page), "rows of %s have no name", path)
	return out
}

// first keeps of seen the first sight of each that was there before.
func first(seen, before []string) []string {
	var out []string
	for _, s := range seen {
		if slices.Contains(before, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
