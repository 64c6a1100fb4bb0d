package boot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Drainer is a service that refuses requests itself: after Drain its handler refuses every new request.
type Drainer interface{ Drain() }

// Waiter is a service whose requests may wait for an event. EndWaits ends these waits; later requests do not wait.
type Waiter interface{ EndWaits() }

// codeDraining is the error code with which a stopping process refuses requests.
const codeDraining = "draining"

// cutWithin is how long requests that were cut off may take to end.
const cutWithin = time.Second

// holding serves a service's HTTP routes until its process stops. From then on it refuses new requests with 503, but
// its listeners stay open until the running requests have finished. New callers therefore receive a response that
// sends them to another instance, and not a refused connection.
type holding struct {
	next http.Handler
	// refuse handles new requests while draining.
	refuse http.Handler
	// onDrain is called when draining begins, if it is not nil.
	onDrain func()
	// leaving is true while load balancers are to send new requests to other replicas. Until draining begins, requests are
	// served, but each response ends its connection.
	leaving atomic.Bool
	// ages limits how long the connections of the workers take new requests.
	ages connectionAges
	// log reports requests that did not end.
	log *slog.Logger
	// grace is how long open requests may take after the first of the workers began to stop, limit how long the whole stop
	// may take.
	grace, limit time.Duration
	listens      bool // a worker has been created

	mu       sync.Mutex
	open     int
	draining bool
	ends     time.Time     // when the grace period is over; zero until a worker stops
	empty    chan struct{} // closed when draining and no request is open
	newID    func() string
}

func (e *Env) holding(svc Service, handler http.Handler) *holding {
	h := &holding{
		next: handler, refuse: http.HandlerFunc(e.refuseDraining), ages: newConnectionAges(), empty: make(chan struct{}),
		newID: e.newRequestID, log: e.Log, grace: e.Stop.StopGrace, limit: e.Stop.Limit(),
	}
	if own, ok := svc.(Drainer); ok {
		h.refuse, h.onDrain = handler, own.Drain
	}
	if own, ok := svc.(Waiter); ok {
		h.onDrain = own.EndWaits
	}
	return h
}

func (e *Env) refuseDraining(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(fault.HeaderRefused, codeDraining)
	fault.Write(w, fault.New(fault.Unavailable, codeDraining, "the server is shutting down"), e.newRequestID())
}

// worker returns a worker that serves on the given listener, over TLS unless its settings are nil. When the first of these workers stops, all of them refuse
// new requests.
func (h *holding) worker(name string, listener net.Listener, secured *tls.Config) process.Worker {
	guarded := httpguard.JSONErrors(listener, h.newID)
	if secured != nil {
		guarded.Secure(secured)
	}
	server := newServer(h)
	server.ConnContext = h.ages.begin
	w := serverWorker(name, guarded, server)
	shutdown, run := w.Stop, w.Run
	w.Drain = func() { h.leaving.Store(true) }
	if !h.listens { // workers are stopped in reverse order, so this one cuts off the last requests
		w.Run = func(ctx context.Context) error {
			err := run(ctx)
			h.awaitCut(ctx)
			return err
		}
	}
	h.listens = true
	w.Stop = func(ctx context.Context) error {
		_ = h.finish(ctx) // shutdown returns the same error
		guarded.Settle(ctx)
		return shutdown(ctx)
	}
	w.StopTimeout = h.limit
	return Graced(w, h.log, h.left)
}

// left returns the rest of the grace period, which begins with the first call.
func (h *holding) left(context.Context) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Real().Now()
	if h.ends.IsZero() {
		h.ends = now.Add(h.grace)
	}
	return h.ends.Sub(now)
}

// finish refuses new requests from now on and waits until no request is open.
func (h *holding) finish(ctx context.Context) error {
	h.drain()
	select {
	case <-h.empty:
		return nil
	default: // without this first select, an ended ctx could hide that no request is open
	}
	select {
	case <-h.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("finish open requests: %w", ctx.Err())
	}
}

// awaitCut waits until the requests whose connections were closed have ended, at most cutWithin. What stops later, such as
// the recorder of calls, then sees the last of them.
func (h *holding) awaitCut(ctx context.Context) {
	h.drain()
	limit := clock.Real().NewTimer(cutWithin)
	defer limit.Stop()
	select {
	case <-h.empty:
	case <-limit.C():
		h.log.WarnContext(ctx, "requests that were cut off have not ended", "limit_s", cutWithin.Seconds())
	}
}

// Graced returns w with a Stop that cuts off the requests that are still open when their grace period is over. This is
// logged and is not an error. The function grace receives the context of Stop and returns the grace period.
func Graced(w process.Worker, log *slog.Logger, grace func(context.Context) time.Duration) process.Worker {
	stop := w.Stop
	w.Stop = func(ctx context.Context) error {
		within := grace(ctx)
		limited, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		err := stop(limited)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			log.InfoContext(ctx, "open requests were cut off at the end of the grace period", "grace_s", within.Seconds())
			return nil
		}
		return err
	}
	return w
}

// Graced calls the function Graced with the grace period that SERVICE_STOP_GRACE sets.
func (e *Env) Graced(w process.Worker) process.Worker {
	w.StopTimeout = e.Stop.Limit()
	return Graced(w, e.Log, func(context.Context) time.Duration { return e.Stop.StopGrace })
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
	if h.leaving.Load() || h.ages.over(r) {
		w.Header().Set("Connection", "close") // without effect on an upgrade, whose handler writes the head itself
	}
	h.next.ServeHTTP(w, r)
}

// Relay implements httprelay.Relay. It declines all requests unless the service's handler relays them, too.
func (h *holding) Relay(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
	next, ok := h.next.(httprelay.Relay)
	if !ok || h.leaving.Load() || !h.enter() {
		return httprelay.Declined
	}
	defer h.leave()
	return next.Relay(c, r)
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
	// Notify the service first, so that it also soon ends a request that enters before draining is set.
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

// settle closes the channel empty if the process is draining and no request is open. No request can enter after that.
// The caller holds mu.
func (h *holding) settle() {
	if h.draining && h.open == 0 {
		close(h.empty)
	}
}
