package leak

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestAudit_splitServices runs each service in its own process. Each service sends its part of the audit to auth. While
// one service is down, requests for the audit list and the audit report fail with an error that names this service.
func TestAudit_splitServices(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	s := testenv.Split(t, testenv.Options{})
	h := open(ctx, t, s)
	rows := h.auditRows(ctx, t)
	services := map[string]bool{}
	for _, r := range rows {
		services[r.Service] = true
	}
	require.True(t, services["auth"] && services["jobs"], "auth and jobs must have rows: %v", services)
	out := ""
	h.Until(ctx, "the audit is verified", func() bool { text, code := h.verifyAudit(ctx, t); out = text; return code == 0 })
	for _, service := range []string{"auth", "jobs", "ingest", "registry", "inference"} {
		require.Contains(t, out, service+" ")
	}
	s.Processes["registry"].Kill()
	for path, method := range map[string]string{"/api/admin/audit": http.MethodGet, "/api/admin/audit/verify": http.MethodPost} {
		var body any
		if method == http.MethodPost {
			body = map[string]any{}
		}
		a, err := h.admin.Call(ctx, method, path, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, a.Status, "%s: %s", path, a.Body)
		require.Contains(t, string(a.Body), "registry does not respond")
		require.Contains(t, string(a.Body), "audit_incomplete")
	}
	text, code := h.verifyAudit(ctx, t)
	require.Equal(t, 8, code, "the status of a server that cannot respond now")
	require.Contains(t, text, "registry does not respond")
}
