package engineport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// Config sets the addresses of a relay.
type Config struct {
	// Listen is the address on which ports are opened. Host is the host name or address that other hosts use to
	// connect.
	Listen string
	Host   string
	// Opened receives the address, host:port, of each port that was opened for an engine. Opened may be nil; it must
	// not call the relay.
	Opened func(key executor.Key, address string)
}

// Relay wraps an executor so that other hosts can reach its engines over mutual TLS. Observed opens a port
// for each new engine and closes the ports of engines that no longer exist.
type Relay struct {
	executor.Executor
	cfg      Config
	identity func() (pki.Source, error)
	log      *slog.Logger

	mu     sync.Mutex
	closed bool
	open   map[executor.Key]*forward
}

// New returns a relay for the engines of x. identity returns the node's certificate; it fails until the
// agent has joined its fleet.
func New(cfg Config, x executor.Executor, identity func() (pki.Source, error), log *slog.Logger) *Relay {
	return &Relay{Executor: x, cfg: cfg, identity: identity, log: log, open: map[executor.Key]*forward{}}
}

// Run keeps the ports open until ctx ends. Then it closes the ports and their connections.
func (r *Relay) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	r.closed = true
	all := r.open
	r.open = map[executor.Key]*forward{}
	r.mu.Unlock()
	for _, f := range all {
		f.close()
	}
	return nil
}

// Observed returns the executor's observations. It replaces each engine's address with the address of the
// engine's port on this relay. It reports an engine as not ready if the port cannot be opened.
func (r *Relay) Observed() []executor.Observation {
	all := r.Executor.Observed()
	r.mu.Lock()
	defer r.mu.Unlock()
	live := map[executor.Key]bool{}
	for i := range all {
		e := all[i].Engine
		if e == nil || e.Address == "" {
			continue
		}
		live[all[i].Key] = true
		address, err := r.port(all[i].Key, strings.TrimPrefix(e.Address, "http://"))
		if err != nil {
			r.log.WarnContext(context.Background(), "cannot open a port for other hosts to reach the engine", "work", all[i].String(), "error", err.Error())
			e.Ready, e.Message = false, "the relay cannot open a port: "+err.Error()
		}
		e.Address = address
	}
	for key, f := range r.open {
		if !live[key] {
			delete(r.open, key)
			// close does not take long: the engine no longer has connections.
			f.close()
		}
	}
	return all
}

// port returns the address of the engine's port and opens the port if necessary. The caller holds r.mu.
func (r *Relay) port(key executor.Key, target string) (string, error) {
	if f := r.open[key]; f != nil {
		f.aim(target)
		return f.address, nil
	}
	if r.closed {
		return "", errors.New("the relay is closed")
	}
	source, err := r.identity()
	if err != nil {
		return "", err
	}
	inner, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", r.cfg.Listen)
	if err != nil {
		return "", fmt.Errorf("open a port: %w", err)
	}
	_, port, err := net.SplitHostPort(inner.Addr().String())
	if err != nil {
		return "", errors.Join(err, inner.Close())
	}
	f := &forward{
		listener: tls.NewListener(inner, pki.ServerTLS(source, pki.Only("inference"))),
		address:  "https://" + net.JoinHostPort(r.cfg.Host, port), target: target, conns: map[net.Conn]bool{},
	}
	f.serving.Go(f.serve)
	r.open[key] = f
	if r.cfg.Opened != nil {
		r.cfg.Opened(key, inner.Addr().String())
	}
	return f.address, nil
}
