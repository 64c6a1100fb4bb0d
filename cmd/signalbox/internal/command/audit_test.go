package command_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAudit_verify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		code   int
		out    []string
		err    string
	}{
		"whole": {
			200, `{"ok": true, "chains": [{"service": "auth", "ok": true, "rows": 7, "checkpoints": 4, "fault": null}]}`,
			0,
			[]string{"auth       ok: 7 rows, 4 signed heads"},
			"",
		},
		"broken": {
			200, `{"ok": false, "chains": [{"service": "auth", "ok": true, "rows": 7, "checkpoints": 4, "fault": null},
			{"service": "jobs", "ok": false, "rows": 9, "checkpoints": 2, "fault": "row 3 (aud_x): the row was deleted; and 5 more"}]}`,
			1,
			[]string{"auth       ok", "jobs       BROKEN: row 3 (aud_x): the row was deleted", "and 5 more"},
			"the audit is broken",
		},
		"unreachable": {503, `{"detail": "the audit is incomplete: jobs does not respond", "code": "audit_incomplete"}`, 8, nil, "jobs does not respond"},
		"not admin":   {403, `{"detail": "admins only"}`, 5, nil, "admins only"},
		"no chains":   {200, `{"ok": true, "chains": []}`, 1, nil, "names no service"},
		"not JSON":    {200, `hello`, 1, nil, "decode"},
	} {
		h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/api/admin/audit/verify" || r.Header.Get("Authorization") != "Bearer a.b.c" {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		got := h.run("audit", "verify")
		require.Equal(t, c.code, got.code, "%s: %s", name, got.err)
		require.Contains(t, got.err, c.err, name)
		for _, want := range c.out {
			require.Contains(t, got.out, want, name)
		}
	}
}
