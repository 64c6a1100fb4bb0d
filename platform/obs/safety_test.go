package obs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Names, paths and request ids come from clients; none of them may start a new line in the log.
func TestLog_injectedNewlinesAreEscaped(t *testing.T) {
	t.Parallel()
	for _, format := range []string{obs.FormatJSON, obs.FormatText} {
		o, log := setup(t, obs.Config{Service: "jobs", LogFormat: format})
		for _, text := range []string{"a\nlevel=ERROR msg=forged", "a\r\nb", "{\"level\":\"ERROR\"}", "\u2028x", "\x1b[31mred", "\x00", "\xff"} {
			ctx := obs.WithRequestID(t.Context(), text)
			o.Log.With("key_"+text, text).InfoContext(ctx, text, "name", text, slog.Group("g_"+text, "k", text))
			require.Equal(t, 1, strings.Count(log.String(), "\n"), "%s %q: %s", format, text, log)
			require.NotContains(t, log.String(), "\r")
			require.NotContains(t, log.String(), "\x1b")
			if format == obs.FormatJSON {
				require.True(t, json.Valid(log.Bytes()), log.String())
			}
			log.Reset()
		}
	}
}

func TestLog_redactsSecrets(t *testing.T) {
	t.Parallel()
	type config struct{ Token secret.String }
	for _, format := range []string{obs.FormatJSON, obs.FormatText} {
		o, log := setup(t, obs.Config{Service: "jobs", LogFormat: format})
		s := secret.New("hunter2-planted")
		o.Log.With("token", s).WithGroup("g").InfoContext(t.Context(), "x", "token", s, "config", config{s}, "pointer", &config{s},
			"list", []secret.String{s}, "map", map[string]secret.String{"k": s}, "group", slog.GroupValue(slog.Any("k", s)),
			"error", fmt.Errorf("open %v: %+v", s, config{s}))
		require.NotContains(t, log.String(), "hunter2-planted")
		require.Contains(t, log.String(), secret.Redacted)
	}
}

func TestLog_timeFormat(t *testing.T) {
	t.Parallel()
	o, log := setup(t, obs.Config{Service: "jobs"})
	at := time.Date(2026, 11, 21, 4, 30, 0, 120_000_000, time.FixedZone("x", 5400))
	r := slog.NewRecord(at, slog.LevelInfo, "x", 0)
	require.NoError(t, o.Log.Handler().Handle(t.Context(), r))
	require.Equal(t, "2026-11-21T03:00:00.120000+00:00", line(t, log)["time"])
}

func TestLog_levels(t *testing.T) {
	t.Parallel()
	all := []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	for level, from := range map[string]int{"debug": 0, "": 1, "info": 1, "INFO": 1, "warn": 2, "error": 3} {
		o, log := setup(t, obs.Config{Service: "jobs", LogLevel: level})
		for i, l := range all {
			o.Log.Log(t.Context(), l, "x")
			o.Logger("other").WithGroup("g").Log(t.Context(), l, "x", "k", 1)
			require.Equal(t, 2*max(0, i-from+1), strings.Count(log.String(), "\n"), "%s %s", level, l)
		}
	}
}

func TestLog_concurrentLinesDoNotMix(t *testing.T) {
	t.Parallel()
	o, log := setup(t, obs.Config{Service: "jobs"})
	grouped := o.Log.WithGroup("step")
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			ctx := obs.WithRequestID(t.Context(), fmt.Sprintf("req_%d", n))
			for range 20 {
				grouped.InfoContext(ctx, "x", "n", n)
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 400)
	for _, text := range lines {
		var got struct {
			RequestID string `json:"request_id"`
			Step      struct{ N int }
		}
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		require.Equal(t, fmt.Sprintf("req_%d", got.Step.N), got.RequestID)
	}
}

func TestAdmin_getOnly(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "jobs"})
	h := obs.NewAdmin(o, clock.Real(), nil).Handler()
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/statusz", "/debug/pprof/"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, "CONNECT"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("x")))
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
		}
	}
	for _, path := range []string{"/", "/healthz/", "/debug/vars", "/statusz/x", "/debug/pprof/../../statusz"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		require.NotEqual(t, http.StatusOK, w.Code, path)
	}
}

func TestAdmin_statuszRedactsSecrets(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "jobs", Version: "1"})
	var cfg struct {
		Postgres conf.Postgres `env:", prefix=SERVICE_"`
		Mirror   string        `env:"SERVICE_MIRROR"`
	}
	loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{
		"SERVICE_DATABASE_URL": "postgres://u:hunter2-planted@h/x", "SERVICE_MIRROR": "https://u:hunter2-planted%zz@h",
		"SERVICE_DATABASE_OWNER_URL": "hunter2-planted",
	}), &cfg)
	require.NoError(t, err)
	w := get(t, obs.NewAdmin(o, clock.Real(), loaded), "/statusz")
	require.Equal(t, http.StatusOK, w.Code)
	require.NotContains(t, w.Body.String(), "hunter2-planted")
	require.Contains(t, w.Body.String(), "SERVICE_DATABASE_OWNER_URL")
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
}

func TestAdmin_Ready_checksRunConcurrentlyWithDeadline(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "jobs"})
	var together sync.WaitGroup
	together.Add(3)
	var checks []obs.Check
	for _, name := range []string{"a", "b", "c"} {
		checks = append(checks, obs.Check{Name: name, Ready: func(ctx context.Context) error {
			together.Done()
			together.Wait() // each check waits until the two others run
			if _, ok := ctx.Deadline(); !ok {
				return fmt.Errorf("no deadline")
			}
			return nil
		}})
	}
	state := obs.NewAdmin(o, clock.Real(), nil, checks...).Ready(t.Context())
	require.Equal(t, obs.Readiness{Status: "ready", Checks: map[string]string{"a": "ok", "b": "ok", "c": "ok"}}, state)
}
