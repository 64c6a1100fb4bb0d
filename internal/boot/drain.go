package boot

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/listen"
	"github.com/signalbox-dev/signalbox/platform/run"
)

// Drainer is a service that words its own refusals: from Drain on it refuses what is new.
type Drainer interface{ Drain() }

// Waiter is a service some of whose requests wait for something to happen: from EndWaits on none does.
type Waiter interface{ EndWaits() }

// codeDraining is the code of a refusal by a process that stops.
const codeDraining = "draining"

// holding answers a service's own HTTP until its process stops. From then on what is new is refused with
// 503, over listeners that stay open while what runs is finished; only then they close. A caller who comes
// meanwhile so learns that another instance will answer, instead of meeting a closed port.
type holding struct {
	next http.Handler
	// refuse answers what is new while it drains.
	refuse http.Handler
	// told is called when draining begins; nil where no one needs to know.
	told func()

	mu       sync.Mutex
	open     int
	draining bool
	empty    chan struct{} // closed when nothing is held any more
	newID    func() string
}

func (e *Env) holding(svc Service, handler http.Handler) *holding {
	h := &holding{next: handler, refuse: http.HandlerFunc(e.refuseDraining), empty: make(chan struct{}), newID: e.newRequestID}
	if own, ok := svc.(Drainer); ok {
		h.refuse, h.told = handler, own.Drain
	}
	if own, ok := svc.(Waiter); ok {
		h.told = own.EndWaits
	}
	return h
}

func (e *Env) refuseDraining(w http.ResponseWriter, _ *http.Request) {
	fault.Write(w, fault.New(fault.Unavailable, codeDraining, "the server is shutting down"), e.newRequestID())
}

// worker serves on a listener. The first of several to stop drains them all.
func (h *holding) worker(name string, listener net.Listener) run.Worker {
	w := HTTPWorker(name, listen.Told(listener, h.newID), h)
	shutdown := w.Stop
	w.Stop = func(ctx context.Context) error {
		_ = h.finish(ctx) // shutdown says so too
		return shutdown(ctx)
	}
	return w
}

// finish drains and waits until nothing is held.
func (h *holding) finish(ctx context.Context) error {
	h.drain()
	select {
	case <-h.empty:
		return nil
	default: // where both have come, what was finished counts
	}
	select {
	case <-h.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("finish what is held: %w", ctx.Err())
	}
}

// Hold is a service's own HTTP for a process in which the edge serves it. The worker's stop ends it as that of a
// process of its own would: what is new is refused, and what runs is finished.
func (e *Env) Hold(svc Service, name string, handler http.Handler) (http.Handler, run.Worker) {
	h := e.holding(svc, handler)
	return h, run.Worker{Name: name, Stop: h.finish, Run: func(ctx context.Context) error {
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
	// Told first: what is entered in between is refused by the service and soon over.
	if h.told != nil {
		h.told()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.draining = true
		h.settle()
	}
}

// settle tells that nothing is held any more; nothing can be entered then. It needs the lock.
func (h *holding) settle() {
	if h.draining && h.open == 0 {
		close(h.empty)
	}
}
