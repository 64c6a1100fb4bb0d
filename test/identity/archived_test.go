package identity

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/contract/openapi"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

// inProject reports whether a row of the table is a write to a project or to something in it. ok is false if
// inProject does not know the rule of the row.
func inProject(r routes.Row) (yes, ok bool) {
	switch r.Rule {
	case "change", "add", "clone", "publish", "project-manage":
		return true, true
	case "read", "list":
		return false, true // a POST that only reads
	case "public", "person", "first", "found", "admin", "admins", "team-lead", "of-team", "own", "own-or-admin",
		"called", "cookie", "join-token", "run-token", "deployment-token", "signature":
		// These requests contain no project. Even in an archived project, a share link can be deleted and an engine
		// called.
		return false, true
	default:
		return false, false
	}
}

// requireArchivedRejectsWrites archives a project and sends every request that changes something in it.
func (w *harness) requireArchivedRejectsWrites(ctx context.Context, t *testing.T) {
	t.Helper()
	described, err := openapi.Load()
	require.NoError(t, err)
	admin, project := w.people["admin"], "/api/projects/"+w.hidden["project_id"]
	var cells []cell
	var prepared []objects
	for _, r := range routes.Load().Rows {
		if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method) {
			continue
		}
		yes, known := inProject(r)
		require.True(t, known, "rule %s of %s: state whether it changes something in a project", r.Rule, r.Name())
		if yes {
			c := cell{Row: r, relation: "admin"}
			cells, prepared = append(cells, c), append(prepared, w.prepare(ctx, t, c))
		}
	}
	require.Greater(t, len(cells), 50)
	admin.do(ctx, t, w.Installation, http.MethodPatch, project, map[string]any{"archived": true}, nil)
	for i, c := range cells {
		a, _ := w.sendPrepared(ctx, t, c, prepared[i])
		if c.Pattern == "/api/submit/preflight" {
			a.status = projectGateStatus(a.body)
		}
		assert.Equal(t, http.StatusConflict, a.status, "%s: %s", c.Name(), a.body)
		if op, found := described.Operation(c.Method, c.Pattern); assert.True(t, found, c.Name()) && c.Pattern != "/api/submit/preflight" {
			assert.Contains(t, op.Statuses(), http.StatusConflict, "%s must declare the status", c.Name())
		}
		assert.True(t, namesArchive(a.body), "%s: %s", c.Name(), a.body)
	}
	admin.do(ctx, t, w.Installation, http.MethodGet, "/api/jobs/"+w.hidden["job_id"], nil, nil)
	admin.do(ctx, t, w.Installation, http.MethodPatch, project, map[string]any{"archived": false}, nil)
	admin.do(ctx, t, w.Installation, http.MethodPatch, "/api/jobs/"+w.hidden["job_id"], map[string]any{"name": "changed again"}, nil)
}

// namesArchive reports whether a response states that the project is archived: by its code, or by the name of the check
// that rejected a submission.
func namesArchive(body []byte) bool {
	var a struct {
		Code  string       `json:"code"`
		Gates []gateResult `json:"gates"`
	}
	return json.Unmarshal(body, &a) == nil && (a.Code == "project_archived" || a.Code == "project" || len(a.Gates) > 0)
}
