package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Target is a running engine to probe.
type Target struct {
	// Address is the base URL, `http://127.0.0.1:port`.
	Address string
	Key     secret.String
	Model   string
	// Names are the served names. If the engine has a model list, the list must contain at least one of them.
	Names []string
	// Task selects the request: `completion`, `embedding`, or `chat`, which is also the default.
	Task     string
	Deadline time.Duration
	// Guard returns an error if the address is not safe: another process than the engine accepts the connections. Run
	// calls it before it sends the key and before it judges a response. A nil Guard checks nothing.
	Guard func() error
}

// Check is the result of one probe.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	MS     int64  `json:"ms"`
}

// Result is the result of all probes. Code is empty if the engine is ready.
type Result struct {
	Checks       []Check         `json:"probes"`
	Capabilities map[string]bool `json:"capabilities"`

	Code    executor.Code `json:"-"`
	Message string        `json:"-"`

	// Unsafe is the error of the target's Guard. The result then states nothing about the engine.
	Unsafe error `json:"-"`
}

// OK reports whether all required probes have passed.
func (r Result) OK() bool { return r.Code == "" && r.Unsafe == nil && len(r.Checks) > 0 }

// JSON returns the result as reported to the control plane. It contains no timestamps, so two results with the same
// outcome differ at most in their durations.
func (r Result) JSON() json.RawMessage {
	raw, err := json.Marshal(r)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

// Prober sends probes to engines.
type Prober struct {
	client *http.Client
	clock  clock.Clock
}

// NewProber returns a prober that follows no redirects and uses no proxy.
func NewProber(clk clock.Clock) *Prober {
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	return &Prober{clock: clk, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// probing is the state of one run of the probes.
type probing struct {
	*Prober
	target Target
	result Result
}

type step struct {
	name string
	code executor.Code
	run  func(context.Context) (detail string, err error)
}

// Run runs the probes in order until a required probe fails or all have run. It waits for an engine that is
// still loading, up to the target's deadline.
func (p *Prober) Run(ctx context.Context, t Target) Result {
	ctx, cancel := context.WithTimeout(ctx, t.Deadline)
	defer cancel()
	w := &probing{Prober: p, target: t, result: Result{Checks: []Check{}, Capabilities: map[string]bool{}}}
	steps := []step{
		{"bound", executor.CodePortTimeout, w.bound},
		{"models", executor.CodeModelNameMissing, w.models},
		{"generate", executor.CodeGenerateFailed, w.generate},
	}
	if t.Task != taskEmbedding {
		steps = append(steps, step{"stream", executor.CodeStreamFailed, w.stream})
	}
	for _, s := range append(steps, step{"capabilities", "", w.capabilities}) {
		began := p.clock.Now()
		detail, err := s.run(ctx)
		if t.Guard != nil {
			if w.result.Unsafe = t.Guard(); w.result.Unsafe != nil {
				break
			}
		}
		check := Check{Name: s.name, OK: err == nil, Detail: detail, MS: clock.Since(p.clock, began).Milliseconds()}
		if err != nil {
			check.Detail = executor.Tail(err.Error(), executor.MaxMessage)
		}
		w.result.Checks = append(w.result.Checks, check)
		if err != nil && s.code != "" {
			w.result.Code, w.result.Message = s.code, check.Detail
			break
		}
	}
	return w.result
}

// Bound returns an error if the address does not accept connections.
func (p *Prober) Bound(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("parse the engine's address: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return fmt.Errorf("the port does not accept connections: %w", err)
	}
	return conn.Close()
}

const (
	dialTimeout = 2 * time.Second
	// interval is the wait between two tries while an engine is loading.
	interval = 50 * time.Millisecond
)

func (w *probing) bound(ctx context.Context) (string, error) {
	for {
		err := w.Bound(ctx, w.target.Address)
		if err == nil {
			return "", nil
		}
		if clock.Sleep(ctx, w.clock, interval) != nil {
			return "", err
		}
	}
}
