package boot

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Drainer is a service that refuses requests itself: after Drain its handler refuses every new request.
type Drainer interface{ Drain() }

// Waiter is a service whose requests may wait for an event. EndWaits ends these waits; later requests do not wait.
type Waiter interface{ EndWaits() }

// codeDraining is the error code with which a stopping process refuses requests.
const codeDraining = "draining"

// holding serves a service's HTTP routes until its process stops. From then on it refuses new requests with 503, but
// its listeners stay open until the running requests have finished. New callers therefore receive a response that
// sends them to another instance, and not a refused connection.
type holding struct {
	next http.Handler
	// refuse handles new requests while draining.
	refuse http.Handler
	// onDrain is called when draining begins, if it is not nil.
	onDrain func()

	mu       sync.Mutex
	open     int
	draining bool
	empty    chan struct{} // closed when draining and no request is open
	newID    func() string
}

func (e *Env) holding(svc Service, handler http.Handler) *holding {
	h := &holding{next: handler, refuse: http.HandlerFunc(e.refuseDraining), empty: make(chan struct{}), newID: e.newRequestID}
	if own, ok := svc.(Drainer); ok {
		h.refuse, h.onDrain = handler, own.Drain
	}
	if own, ok := svc.(Waiter); ok {
		h.onDrain = own.EndWaits
	}
	return h
}

func (e *Env) refuseDraining(w http.ResponseWriter, _ *http.Request) {
	fault.Write(w, fault.New(fault.Unavailable, codeDraining, "the server is shutting down"), e.newRequestID())
}

// worker returns a worker that serves on listener. When the first of these workers stops, all of them refuse new
// requests.
func (h *holding) worker(name string, listener net.Listener) process.Worker {
	w := HTTPWorker(name, httpguard.JSONErrors(listener, h.newID), h)
	shutdown := w.Stop
	w.Stop = func(ctx context.Context) error {
		_ = h.finish(ctx) // shutdown returns the same error
		return shutdown(ctx)
	}
	return w
}

// finish refuses new requests from now on and waits until no request is open.
func (h *holding) finish(ctx context.Context) error {
	h.drain()
	select {
	case <-h.empty:
		return nil
	default: // this check comes first, so that success is reported even if ctx has ended too
	}
	select {
	case <-h.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("finish open requests: %w", ctx.Err())
	}
}

// Hold returns the handler of a service's HTTP routes, for a process in which the gateway serves these routes, and a
// worker. When the worker stops, the handler refuses new requests and finishes the running ones, as it would in a
// process of its own.
func (e *Env) Hold(svc Service, name string, handler http.Handler) (http.Handler, process.Worker) {
	h := e.holding(svc, handler)
	return h, process.Worker{Name: name, Stop: h.finish, Run: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
}

// ServeHTTP implements http.Handler.
func (h *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.enter() {
		w.Header().Set("Connection", "close")
		h.refuse.ServeHTTP(w, r)
		return
	}
	defer h.leave()
	h.next.ServeHTTP(w, r)
}

func (h *holding) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.open++
	}
	return !h.draining
}

func (h *holding) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
	h.settle()
}

func (h *holding) drain() {
	// Notify the service first: a request that enters before draining is set then ends soon.
	if h.onDrain != nil {
		h.onDrain()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.draining = true
		h.settle()
	}
}

// settle closes empty if the process is draining and no request is open. No request can enter after that. The caller
// holds mu.
func (h *holding) settle() {
	if h.draining && h.open == 0 {
		close(h.empty)
	}
}
