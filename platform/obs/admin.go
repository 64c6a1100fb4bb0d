package obs

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
)

const readyTimeout = 2 * time.Second

// Check is a readiness check of one part of a process.
type Check struct {
	Name  string
	Ready func(ctx context.Context) error
}

// Admin handles the requests of the admin listener: /healthz, /readyz, /metrics, /statusz and /debug/pprof, the
// last one only for callers on the same host. The listener is for operators, so responses may include reasons.
type Admin struct {
	obs      *Obs
	clock    clock.Clock
	begun    time.Time
	settings *conf.Loaded
	checks   []Check
	draining atomic.Bool
}

// NewAdmin returns an Admin; settings may be nil.
func NewAdmin(o *Obs, c clock.Clock, settings *conf.Loaded, checks ...Check) *Admin {
	return &Admin{obs: o, clock: c, begun: c.Now(), settings: settings, checks: checks}
}

// Drain makes /readyz respond with 503 from now on.
func (a *Admin) Drain() { a.draining.Store(true) }

// Handler returns the handler of the admin listener.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /statusz", a.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.obs.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /debug/pprof/", local(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/cmdline", local(pprof.Cmdline))
	mux.HandleFunc("GET /debug/pprof/profile", local(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", local(pprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", local(pprof.Trace))
	return mux
}

// local rejects callers on other hosts: a profile contains parts of the process's memory, and scrapers and probes on
// other hosts may reach the listener. It also checks the Host header, to reject web pages that use DNS rebinding.
func local(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !peer.Addr().Unmap().IsLoopback() || !loopbackName(r.Host) {
			respond(w, http.StatusForbidden, map[string]string{"detail": "profiles are available only on the host itself, at a loopback address"})
			return
		}
		h(w, r)
	}
}

// loopbackName reports whether a Host header is localhost or a loopback address.
func loopbackName(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return name == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// Readiness holds the status of a process and the result of each of its checks.
type Readiness struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

func (a *Admin) ready(w http.ResponseWriter, r *http.Request) {
	state := a.Ready(r.Context())
	code := http.StatusOK
	if state.Status != "ready" {
		code = http.StatusServiceUnavailable
	}
	respond(w, code, state)
}

// Ready runs all checks concurrently, each with a limit of two seconds.
func (a *Admin) Ready(ctx context.Context) (state Readiness) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	reasons := make([]error, len(a.checks))
	var wg sync.WaitGroup
	for i, c := range a.checks {
		wg.Go(func() { reasons[i] = runCheck(ctx, c) })
	}
	wg.Wait()
	state = Readiness{Status: "ready", Checks: map[string]string{}}
	for i, c := range a.checks {
		state.Checks[c.Name] = "ok"
		if reasons[i] != nil {
			state.Status, state.Checks[c.Name] = "not ready", reasons[i].Error()
		}
	}
	if a.draining.Load() {
		state.Status = "draining"
	}
	return state
}

func runCheck(ctx context.Context, c Check) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.Ready(ctx)
}

type status struct {
	Service       string         `json:"service"`
	Version       string         `json:"version"`
	StartedAt     string         `json:"started_at"`
	UptimeSeconds float64        `json:"uptime_seconds"`
	Changed       []conf.Setting `json:"changed"` // settings that differ from the defaults
	Settings      []conf.Setting `json:"settings"`
	Warnings      []string       `json:"warnings"`
}

func (a *Admin) status(w http.ResponseWriter, _ *http.Request) {
	s := status{
		Service: a.obs.config.Service, Version: a.obs.config.Version,
		StartedAt: a.begun.Format(timeLayout), UptimeSeconds: clock.Since(a.clock, a.begun).Seconds(),
	}
	if a.settings != nil {
		s.Changed, s.Settings, s.Warnings = a.settings.Changed(), a.settings.Settings, a.settings.Warnings
	}
	respond(w, http.StatusOK, s)
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// Ignore the error: the client may have disconnected.
	_ = json.NewEncoder(w).Encode(body)
}
