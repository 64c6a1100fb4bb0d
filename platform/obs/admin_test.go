package obs_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

func get(t *testing.T, a *obs.Admin, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "127.0.0.1:9090"
	a.Handler().ServeHTTP(w, r)
	return w
}

func metrics(t *testing.T, o *obs.Obs) string {
	t.Helper()
	w := get(t, obs.NewAdmin(o, clock.Real(), nil), "/metrics")
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestAdmin_readyzListsEachCheck(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "all"})
	var broken error
	a := obs.NewAdmin(o, clock.Real(), nil,
		obs.Check{Name: "auth", Ready: func(context.Context) error { return nil }},
		obs.Check{Name: "jobs", Ready: func(context.Context) error { return broken }},
	)
	w := get(t, a, "/readyz")
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"status":"ready","checks":{"auth":"ok","jobs":"ok"}}`, w.Body.String())

	broken = errors.New("schema version 3, want 4")
	w = get(t, a, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.JSONEq(t, `{"status":"not ready","checks":{"auth":"ok","jobs":"schema version 3, want 4"}}`, w.Body.String())

	broken = nil
	a.Drain()
	w = get(t, a, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.JSONEq(t, `{"status":"draining","checks":{"auth":"ok","jobs":"ok"}}`, w.Body.String())
	require.Equal(t, http.StatusOK, get(t, a, "/healthz").Code, "a draining process is alive")
	require.JSONEq(t, `{"status":"ok"}`, get(t, a, "/healthz").Body.String())
}

func TestAdmin_Ready_slowAndPanickingChecks(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "all"})
	synctest.Test(t, func(t *testing.T) {
		a := obs.NewAdmin(o, clock.Real(), nil,
			obs.Check{Name: "slow", Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			obs.Check{Name: "bad", Ready: func(context.Context) error { panic("nil map") }},
		)
		begin := time.Now()
		state := a.Ready(t.Context())
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.Equal(t, "not ready", state.Status)
		require.Equal(t, map[string]string{"slow": "context deadline exceeded", "bad": "panic: nil map"}, state.Checks)
	})
}

func TestAdmin_statuszShowsRedactedAndChangedSettings(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "jobs", Version: "1.2.3"})
	var cfg struct {
		Blob conf.Blob `env:", prefix=SERVICE_"`
	}
	const planted = "hunter2-planted-hunter2-planted-hunter2"
	loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{"SERVICE_BLOB_SIGNING_KEY": planted, "SERVICE_X": "1"}), &cfg)
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	a := obs.NewAdmin(o, clk, loaded)
	clk.Advance(90 * time.Second)
	w := get(t, a, "/statusz")
	require.NotContains(t, w.Body.String(), planted)
	var s struct {
		Service, Version string
		StartedAt        string  `json:"started_at"`
		Uptime           float64 `json:"uptime_seconds"`
		Changed          []struct{ Name, Value, Source string }
		Settings         []struct{ Name string }
		Warnings         []string
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	require.Equal(t, "jobs 1.2.3", s.Service+" "+s.Version)
	require.Equal(t, "2026-11-21T03:00:00.000000+00:00", s.StartedAt)
	require.InDelta(t, 90, s.Uptime, 0)
	require.Equal(t, []struct{ Name, Value, Source string }{{"SERVICE_BLOB_SIGNING_KEY", "[redacted]", "env"}}, s.Changed)
	require.Len(t, s.Settings, len(loaded.Settings))
	require.Len(t, s.Warnings, 1)
	require.Equal(t, http.StatusOK, get(t, obs.NewAdmin(o, clk, nil), "/statusz").Code)
}

func TestAdmin_servesPprof(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "jobs"})
	a := obs.NewAdmin(o, clock.Real(), nil)
	require.Contains(t, get(t, a, "/debug/pprof/goroutine?debug=1").Body.String(), "goroutine profile")
	require.Equal(t, http.StatusOK, get(t, a, "/debug/pprof/cmdline").Code)
	require.Equal(t, http.StatusNotFound, get(t, a, "/api/version").Code)
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/readyz", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestAdmin_pprofOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "jobs"})
	h := obs.NewAdmin(o, clock.Real(), nil).Handler()
	for name, c := range map[string]struct {
		peer, host string
		want       int
	}{
		"this host":                 {"127.0.0.1:4", "localhost:9090", http.StatusOK},
		"this host, IPv6":           {"[::1]:4", "[::1]:9090", http.StatusOK},
		"IPv4-mapped":               {"[::ffff:127.0.0.1]:4", "127.0.0.2", http.StatusOK},
		"IPv6 without a port":       {"[::1]:4", "[::1]", http.StatusOK},
		"remote host":               {"192.0.2.7:4", "127.0.0.1:9090", http.StatusForbidden},
		"rebound name":              {"127.0.0.1:4", "evil.example:9090", http.StatusForbidden},
		"name with loopback prefix": {"127.0.0.1:4", "127.0.0.1.evil.example", http.StatusForbidden},
		"own public address":        {"192.0.2.1:4", "192.0.2.1:9090", http.StatusForbidden},
		"malformed peer address":    {"@", "localhost", http.StatusForbidden},
	} {
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = c.peer, c.host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, c.want, w.Code, "%s %s", name, path)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, "metrics are available to other hosts")
	}
}
