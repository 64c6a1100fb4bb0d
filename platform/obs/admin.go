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

// Check is one part of a process that can say whether it serves.
type Check struct {
	Name  string
	Ready func(ctx context.Context) error
}

// Admin answers the admin listener: /healthz, /readyz, /metrics, /statusz and
// /debug/pprof, the last one to callers of the same host only. It is for operators only, so its answers
// may say why.
type Admin struct {
	obs      *Obs
	clock    clock.Clock
	begun    time.Time
	settings *conf.Loaded
	checks   []Check
	draining atomic.Bool
}

// NewAdmin makes the answers; settings may be nil.
func NewAdmin(o *Obs, c clock.Clock, settings *conf.Loaded, checks ...Check) *Admin {
	return &Admin{obs: o, clock: c, begun: c.Now(), settings: settings, checks: checks}
}

// Drain makes /readyz say 503 from now on.
func (a *Admin) Drain() { a.draining.Store(true) }

// Handler serves the admin listener.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
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

// local lets in callers of this very host only, under a name that no page of another origin can borrow: a
// profile holds pieces of memory, and a listener that is open to scrapers and probes shows none.
func local(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !peer.Addr().Unmap().IsLoopback() || !loopbackName(r.Host) {
			answer(w, http.StatusForbidden, map[string]string{"detail": "profiles are shown on the host itself only, at a loopback address"})
			return
		}
		h(w, r)
	}
}

// loopbackName says whether a Host header names this host as localhost or by a loopback address.
func loopbackName(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return name == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// Readiness is whether a process serves, and what each of its checks says.
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
	answer(w, code, state)
}

// Ready asks all checks at once; each has two seconds.
func (a *Admin) Ready(ctx context.Context) (state Readiness) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	reasons := make([]error, len(a.checks))
	var wg sync.WaitGroup
	for i, c := range a.checks {
		wg.Go(func() { reasons[i] = ask(ctx, c) })
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

func ask(ctx context.Context, c Check) (err error) {
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
	Changed       []conf.Setting `json:"changed"` // from the defaults
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
	answer(w, http.StatusOK, s)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// The asker may be gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(body)
}
