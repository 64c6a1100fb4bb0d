package maintenancetest

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	on  = `{"mode": "maintenance", "message": "Back at nine"}`
	off = `{"mode": "off"}`
)

func setMaintenance(t testing.TB, base, token, mode string) {
	t.Helper()
	a := do(t, base, token, http.MethodPost, "/api/admin/maintenance", mode)
	require.Equal(t, http.StatusOK, a.status, a.body)
}

// gatewayURLs returns the URLs that serve the API. If each service has its own process, it first adds a second
// gateway with a second instance of auth.
func gatewayURLs(t *testing.T, s *testenv.Installation, kind string) []string {
	t.Helper()
	if kind == "single" {
		return []string{s.URL}
	}
	auth, gateway := s.FreeAddress(), s.FreeAddress()
	_, first, _ := strings.Cut(","+s.Processes["gateway"].Setting("SERVICE_PEERS"), ",auth=")
	first, _, _ = strings.Cut(first, ",")
	peers := strings.Replace(s.Processes["gateway"].Setting("SERVICE_PEERS"), "auth="+first, "auth="+auth, 1)
	s.StartReplica("auth", "auth-two", map[string]string{"SERVICE_AUTH_LISTEN": auth})
	s.StartReplica("gateway", "gateway-two", map[string]string{"SERVICE_LISTEN": gateway, "SERVICE_PEERS": peers})
	for _, addr := range []string{auth, gateway} {
		require.Eventually(t, func() bool {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		}, testenv.StageTimeout, 20*time.Millisecond)
	}
	two := "http://" + gateway
	require.Eventually(t, func() bool {
		a, err := request(t.Context(), two, "", http.MethodGet, "/api/auth/config", "")
		return err == nil && a.status == http.StatusOK
	}, testenv.StageTimeout, 20*time.Millisecond)
	return []string{s.URL, two}
}

// requireClosed requires that a URL rejects a request because of maintenance.
func requireClosed(t testing.TB, base, token, path string) {
	t.Helper()
	a := do(t, base, token, http.MethodGet, path, "")
	require.Equal(t, http.StatusServiceUnavailable, a.status, "%s%s: %s", base, path, a.body)
	require.JSONEq(t, `{"detail": "Back at nine", "code": "maintenance"}`, a.body)
	require.Equal(t, "60", a.header.Get("Retry-After"))
}

func maintenance(t *testing.T, s *testenv.Installation, kind, admin string) {
	t.Helper()
	bases := gatewayURLs(t, s, kind)
	for i := range 20 {
		by := bases[i%len(bases)]
		setMaintenance(t, by, admin, on)
		for _, base := range bases {
			requireClosed(t, base, admin, "/api/projects")
			requireClosed(t, base, "", "/api/jobs")
			require.Equal(t, http.StatusOK, do(t, base, "", http.MethodGet, "/api/version", "").status)
		}
		setMaintenance(t, bases[(i+1)%len(bases)], admin, off)
		for _, base := range bases {
			require.Equal(t, http.StatusOK, do(t, base, admin, http.MethodGet, "/api/projects", "").status)
		}
	}
	setMaintenance(t, s.URL, admin, on)
	if kind == "single" {
		s.Processes["signalboxd"].Kill()
		s.StartSingle()
	} else {
		requireClosedWithoutAuth(t, s, admin, bases)
	}
	for _, base := range bases {
		requireClosed(t, base, admin, "/api/projects")
	}
	out := signIn(t, s)
	setMaintenance(t, s.URL, out, off)
	require.Equal(t, http.StatusOK, do(t, s.URL, out, http.MethodGet, "/api/projects", "").status)
}

// requireClosedWithoutAuth kills all instances of auth, and later starts auth again. Meanwhile, routes that
// maintenance closed must stay closed, and the other routes must stay open.
func requireClosedWithoutAuth(t *testing.T, s *testenv.Installation, admin string, bases []string) {
	t.Helper()
	for _, name := range []string{"auth", "auth-two"} {
		s.Processes[name].Kill()
	}
	for _, base := range bases {
		for path, want := range map[string]int{
			"/api/projects": 503, "/api/jobs": 503, "/api/openapi.json": 503, "/api/version": 200, "/healthz": 200,
			"/inference/dep_00000000000000000000000000/v1/models": 401, "/api/ingest/watermark?run_id=run_x": 401,
		} {
			a := do(t, base, admin, http.MethodGet, path, "")
			if want == http.StatusUnauthorized {
				require.Contains(t, []int{http.StatusUnauthorized, http.StatusUnprocessableEntity}, a.status, fmt.Sprint(path, a.body))
				continue
			}
			require.Equal(t, want, a.status, "%s: %s", path, a.body)
		}
	}
	for _, name := range []string{"auth", "auth-two"} {
		s.Processes[name].Start()
	}
	for _, base := range bases {
		require.Eventually(t, func() bool {
			a, err := request(t.Context(), base, "", http.MethodGet, "/api/auth/config", "")
			return err == nil && a.status == http.StatusOK
		}, testenv.StageTimeout, 20*time.Millisecond)
	}
}
