package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxStreams        = 100
)

// Listen opens the public listener at the configured address.
func (g *Gateway) Listen(ctx context.Context) (net.Listener, error) {
	l, err := httpguard.Listen(ctx, g.cfg.Listen.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on SERVICE_LISTEN=%s: %w", g.cfg.Listen.Addr, err)
	}
	return l, nil
}

// Drain makes every route except health and version return 503 from now on, and drains the handlers of services in this
// process. Running requests continue.
func (g *Gateway) Drain() {
	g.hold.Drain()
	for _, handler := range []http.Handler{g.deps.Ingest, g.deps.Inference} {
		if d, ok := handler.(drainer); ok {
			d.Drain()
		}
	}
}

// drainer is a handler in this process that can end its own long-running requests.
type drainer interface{ Drain() }

// Worker serves the API on l. After its Drain, requests are still served, but each response ends its connection. A
// connection of HTTP/2 ends when its other requests have. Its Stop calls Gateway.Drain, ends the event streams, and lets
// other requests finish until its context ends. Then it closes the remaining connections. The listener stays open until
// all requests have finished, so that new clients get 503 instead of a refused connection, and every accepted connection
// gets a response.
func (g *Gateway) Worker(l net.Listener) process.Worker {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC clients start HTTP/2 without TLS and without an upgrade
	server := &http.Server{
		Handler:                      g,
		Protocols:                    &protocols,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout:            readHeaderTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(g.deps.Log.Handler(), slog.LevelDebug),
		ConnState:                    httpguard.State,
	}
	guarded := httpguard.JSONErrors(l, func() string { return g.deps.IDs.New(id.Request) })
	guarded.Relay(httpguard.Relaying{Relay: g, Idle: idleTimeout, Head: readHeaderTimeout})
	return process.Worker{
		Name:  Name,
		Run:   func(ctx context.Context) error { return g.serve(ctx, server, guarded) },
		Drain: func() { g.leaving.Store(true) },
		Stop:  func(ctx context.Context) error { return g.shutdown(ctx, server, guarded) },
	}
}

// serve runs until its context ends. That end also closes upgraded connections, which net/http no longer tracks.
func (g *Gateway) serve(ctx context.Context, server *http.Server, l net.Listener) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server.BaseContext = func(net.Listener) context.Context { return base }
	g.watcher.ID = g.deps.IDs.New(id.Replica)
	watched := make(chan struct{})
	go func() { defer close(watched); g.watcher.Run(base) }()
	defer func() { cut(); <-watched }()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		if !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the public listener: %w", err)
		}
		<-ctx.Done() // Stop has closed the server; Run must not return before its context ends
		return ctx.Err()
	case <-ctx.Done():
	}
	g.endStop()
	cut()
	err := server.Close()
	if served := <-failed; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	if err != nil {
		return fmt.Errorf("close the public listener: %w", err)
	}
	return ctx.Err()
}

func (g *Gateway) shutdown(ctx context.Context, server *http.Server, l *httpguard.Listener) error {
	g.Drain()
	g.endStop()
	select {
	case <-g.hold.Empty():
	case <-ctx.Done():
	}
	l.Settle(ctx)
	err := server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("wait for running requests: %w", err), server.Close())
	}
	for _, let := range g.idle {
		let()
	}
	return err
}

// Run serves the API on l until ctx ends, then lets running requests finish for at most the grace period.
func (g *Gateway) Run(ctx context.Context, l net.Listener, grace time.Duration) error {
	w := g.Worker(l)
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(running, grace)
	defer cancel()
	err := w.Stop(stopping)
	end()
	if ended := <-done; !errors.Is(ended, context.Canceled) {
		err = errors.Join(err, ended)
	}
	return err
}
