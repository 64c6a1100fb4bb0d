package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent/backoff"
	"github.com/signalbox-dev/signalbox/agent/engine"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/link"
	"github.com/signalbox-dev/signalbox/agent/relay"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Deps is what an agent works with.
type Deps struct {
	// Joiner asks for a node: link.OverHTTP, or link.InMemory.
	Joiner link.Joiner
	// Token answers a join token, asked at the first start only; Config.JoinToken
	// where nil.
	Token func(ctx context.Context) (secret.String, error)
	// Dial connects to the agent listener as that node: link.DialTLS, or a network
	// inside the process.
	Dial func(link.Node) (*grpc.ClientConn, error)
	// HTTP downloads objects and delivers logs; http.DefaultTransport's settings
	// where nil.
	HTTP *http.Client
	// SDK is the Python reporter's tree.
	SDK   fs.FS
	Clock clock.Clock
	Rand  io.Reader
	// Jitter answers a number in [0, 1).
	Jitter func() float64
	Log    *slog.Logger
}

// Agent is the host agent. New starts nothing.
type Agent struct {
	cfg    Config
	log    *slog.Logger
	folder *folder
	host   *host.Host
	link   *link.Link
	// relay stands before the host where engines are reached from other hosts.
	relay *relay.Relay
}

// New makes an agent over its data folder and reads what an earlier one left. It
// holds the folder until Run ends, or Close where it is never run; ErrInUse where
// another agent does.
func New(cfg Config, d Deps) (*Agent, error) {
	if len(cfg.Exec) == 0 {
		return nil, errors.New("agent: Exec must name the program of the shim")
	}
	data, err := filepath.Abs(cfg.Data)
	if err != nil {
		return nil, fmt.Errorf("agent: data folder: %w", err)
	}
	cfg.Data = data
	if d.HTTP == nil {
		d.HTTP = &http.Client{}
	}
	incarnation := make([]byte, 16)
	if _, err := io.ReadFull(d.Rand, incarnation); err != nil {
		return nil, fmt.Errorf("agent: draw the incarnation: %w", err)
	}
	held, err := openFolder(cfg.Data, d.Clock)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a := &Agent{cfg: cfg, log: d.Log, folder: held}
	if err := a.build(d, hex.EncodeToString(incarnation)); err != nil {
		return nil, fmt.Errorf("agent: %w", errors.Join(err, held.close()))
	}
	return a, nil
}

// build makes the parts over the folder that is held.
func (a *Agent) build(d Deps, incarnation string) (err error) {
	cfg := a.cfg
	// The host fetches through the link, and the link tells what the host holds.
	objects := &lateLink{}
	a.host, err = host.New(host.Config{
		Data: cfg.Data, Environments: cfg.Environments, Exec: cfg.Exec, CacheBytes: cfg.CacheBytes,
		Environ: cfg.Environ, ProbeInterval: cfg.ProbeInterval,
	}, host.Deps{
		Downloader: objects, Tokens: objects, HTTP: d.HTTP, SDK: d.SDK, Clock: d.Clock, Rand: d.Rand, Jitter: d.Jitter, Log: d.Log,
	})
	if err != nil {
		return err
	}
	inventory, err := takeInventory(cfg.Version, a.host.Limits())
	if err != nil {
		return err
	}
	retry := backoff.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second, Jitter: d.Jitter}
	a.link = link.New(link.Deps{
		Membership: link.Membership{
			Dir: filepath.Join(cfg.Data, "node"), Joiner: d.Joiner, Token: tokenOf(cfg, d), Hostname: cfg.Hostname,
			Inventory: inventory, Clock: d.Clock, Backoff: retry, Log: d.Log,
		},
		Dial: d.Dial, HTTP: d.HTTP, Clock: d.Clock, Incarnation: incarnation,
		Drivers: engine.Names(), Backoff: retry, Log: d.Log,
	})
	objects.Link = a.link
	if cfg.RelayListen != "" {
		a.relay = relay.New(relayConfig(cfg), a.host, nodeIdentity(filepath.Join(cfg.Data, "node")), d.Log)
	}
	return nil
}

func relayConfig(cfg Config) relay.Config {
	host := cfg.RelayHost
	if host == "" {
		host = cfg.Hostname
	}
	return relay.Config{Listen: cfg.RelayListen, Host: host}
}

// nodeIdentity reads the certificate that the link keeps.
func nodeIdentity(dir string) func() (pki.Source, error) {
	return func() (pki.Source, error) {
		n, err := link.Load(dir)
		if err != nil {
			return nil, fmt.Errorf("the node has no certificate yet: %w", err)
		}
		return n.Source()
	}
}

// lateLink is the link that the host fetches through, set once both are made.
type lateLink struct{ *link.Link }

func tokenOf(cfg Config, d Deps) func(context.Context) (secret.String, error) {
	if d.Token != nil {
		return d.Token
	}
	return func(context.Context) (secret.String, error) {
		if cfg.JoinToken.IsZero() {
			return secret.String{}, errors.New("this agent has not joined a fleet yet: set SERVICE_AGENT_JOIN_TOKEN")
		}
		return cfg.JoinToken, nil
	}
}

// Join joins the fleet and lets the folder go; it is called instead of Run, which joins
// by itself where that is still to be done. It asks once.
func (a *Agent) Join(ctx context.Context) (n link.Node, err error) {
	defer func() { err = errors.Join(err, a.folder.close()) }()
	return a.link.Join(ctx)
}

// Run works until ctx ends, and lets the folder go. What runs then goes on under
// its shims; call Shutdown before to end it.
func (a *Agent) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, a.folder.close()) }()
	var told executor.Executor = a.host
	workers := []run.Worker{{Name: "executor", Run: a.host.Run}}
	if a.relay != nil {
		told = a.relay
		workers = append(workers, run.Worker{Name: "relay", Run: a.relay.Run})
	}
	workers = append(workers, run.Worker{Name: "link", Run: func(ctx context.Context) error { return a.link.Run(ctx, told) }})
	return run.Group(ctx, workers...)
}

// Close lets the folder of an agent go that is not run; after Run or Join it does nothing.
func (a *Agent) Close() error { return a.folder.close() }

// flushTime is how long the last observations may take on their way.
const flushTime = 300 * time.Millisecond

// Shutdown ends attempts and engines within about two seconds where stopWorks is
// set, and tells the control plane as far as it still listens. Run must go on
// meanwhile; end its context afterwards.
func (a *Agent) Shutdown(ctx context.Context, stopWorks bool) error {
	err := a.host.Shutdown(ctx, stopWorks)
	if !stopWorks {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if flushed := a.link.Flush(ctx); flushed != nil {
		a.log.InfoContext(ctx, "last observations not told", "error", flushed.Error())
	}
	return err
}

// Worker is the agent as a part of a process: its Stop is Shutdown.
func (a *Agent) Worker(stopWorks bool) run.Worker {
	return run.Worker{
		Name: "agent", Run: a.Run,
		Stop: func(ctx context.Context) error { return a.Shutdown(ctx, stopWorks) },
	}
}
