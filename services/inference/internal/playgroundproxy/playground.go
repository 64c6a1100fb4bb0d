// Package playgroundproxy owns the calls of playground sessions and their transcripts. These calls need no deployment
// token: the registry decides for each call whether the logged-in caller may make it. When a session ends, its open
// calls are cut. The caller receives the reason if the response has not begun, or if it is an uncompressed event stream
// or a WebSocket.
//
// Only store.go contains SQL, and only server.go handles protobuf messages.
package playgroundproxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/services/inference/internal/proxy"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
)

// Admitted is a call that the registry has admitted.
type Admitted struct {
	Replica          *routing.Replica
	ExpiresAt        time.Time
	UserID, Username string
}

// Sessions accesses the playground sessions of the registry.
type Sessions interface {
	// Admit returns the replica of a target of the session, if the caller may call it.
	Admit(ctx context.Context, sessionID string, target int32) (Admitted, error)
	// Keep marks a session as in use and returns the time at which it expires. If the session has ended, Keep returns a
	// fault.Conflict.
	Keep(ctx context.Context, sessionID string) (time.Time, error)
	// See returns an error if the caller may not see the session.
	See(ctx context.Context, sessionID string) error
}

const (
	// HeaderCaller contains the identity that auth signed for this request. The gateway sets it.
	HeaderCaller = "X-Service-Caller"
	// callerLife is the maximum time for which the identity in HeaderCaller is valid.
	callerLife = time.Minute
	// keepEvery is how often an open call checks whether its session has ended.
	keepEvery = 20 * time.Second
	// keepLeast is the minimum time between two checks.
	keepLeast = 100 * time.Millisecond
	// askWithin limits the time of one request to the registry.
	askWithin = 10 * time.Second
)

// Handler serves /api/playground/sessions/{id}/targets/{target}/v1/....
type Handler struct {
	Sessions Sessions
	Proxy    *proxy.Proxy
	Store    *Store
	Clock    clock.Clock
	IDs      *id.Source
	Log      *slog.Logger
}

// where is the parsed path of a request.
type where struct {
	enginepath.Path

	target int32
	clean  bool
	// wrong is the error if the target is not a valid number, otherwise nil.
	wrong *fault.Error
}

// place parses the path of a request. It returns an error if the path is not below a target.
func place(u *url.URL) (where, *fault.Error) {
	path, verdict := enginepath.Read(u)
	switch {
	case verdict == enginepath.Bad && path.Prefix == "":
		return where{}, enginepath.BadPath()
	case path.Number == "":
		return where{}, enginepath.NotFound()
	}
	target, wrong := counted(path.Number)
	return where{path, target, verdict == enginepath.Good, wrong}, nil
}

// counted parses the number of a target. Targets are numbered from 1.
func counted(number string) (int32, *fault.Error) {
	n, err := strconv.ParseInt(number, 10, 32)
	switch {
	case err != nil || strconv.FormatInt(n, 10) != number:
		return 0, fault.InvalidFields(fault.At(fault.TypeIntParsing, "Input should be a valid integer", "path", "target"))
	case n < 1:
		return 0, fault.InvalidFields(fault.At(fault.TypeGreaterThanEqual, "Input should be greater than or equal to 1", "path", "target"))
	}
	return int32(n), nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := h.requestID(r)
	at, unplaced := place(r.URL)
	if err := h.Proxy.Draining(); err != nil {
		w.Header().Set(fault.HeaderRefused, err.Code)
		proxy.WriteError(w, err, requestID)
		return
	}
	if unplaced != nil {
		fault.WriteOpenAI(w, unplaced, requestID)
		return
	}
	token := r.Header.Get(HeaderCaller)
	if token == "" {
		fault.WriteOpenAI(w, fault.New(fault.Unauthenticated, "", "Not authenticated"), requestID)
		return
	}
	if at.wrong != nil {
		fault.WriteOpenAI(w, at.wrong, requestID)
		return
	}
	asCaller := authn.WithToken(r.Context(), token, h.Clock.Now().Add(callerLife))
	admitted, err := h.admit(asCaller, at)
	if fault.Is(err, fault.Invalid) {
		err = fault.From(err).Under("path")
	}
	switch {
	case err != nil:
		fault.WriteOpenAI(w, err, requestID)
		return
	case !at.clean:
		fault.WriteOpenAI(w, enginepath.BadPath(), requestID)
		return
	}
	ctx, leave := h.watch(r.Context(), at.ID, admitted.ExpiresAt)
	defer leave()
	turn := &turn{store: h.Store, log: h.Log, sessionID: at.ID, target: at.target, by: admitted}
	h.Proxy.WithRecorder(turn).Guest(ctx, w, r, proxy.Guest{
		RequestID: requestID, Prefix: at.Prefix, Target: at.At(r.URL), Session: at.ID, Number: at.target,
		Replica: admitted.Replica, Capture: turn,
	})
}

func (h *Handler) admit(ctx context.Context, at where) (Admitted, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return h.Sessions.Admit(ctx, at.ID, at.target)
}

func (h *Handler) requestID(r *http.Request) string {
	if given := obs.RequestID(r.Context()); id.Check(id.Request, given) == nil {
		return given
	}
	return h.IDs.New(id.Request)
}

// watch returns a context that ends when the session ends. The function leave must be run when the call of the session
// has ended.
func (h *Handler) watch(ctx context.Context, sessionID string, until time.Time) (_ context.Context, leave func()) {
	ctx, cut := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			timer := h.Clock.NewTimer(max(keepLeast, min(keepEvery, until.Sub(h.Clock.Now()))))
			select {
			case <-ctx.Done():
			case <-timer.C():
				if err := h.keep(ctx, sessionID, &until); err != nil {
					cut(err)
				}
			}
			timer.Stop()
		}
	}()
	return ctx, func() { cut(nil); <-done }
}

// keep returns an error if the session has ended. While the registry is unavailable, the session counts as open until
// the last expiry that the registry reported.
func (h *Handler) keep(ctx context.Context, sessionID string, until *time.Time) error {
	limited, cancel := context.WithTimeout(authn.Background(ctx), askWithin)
	defer cancel()
	at, err := h.Sessions.Keep(limited, sessionID)
	switch {
	case err == nil:
		*until = at
		return nil
	case fault.Is(err, fault.Conflict), fault.Is(err, fault.Absent):
		return fault.From(err)
	case ctx.Err() != nil:
		return nil
	case !h.Clock.Now().Before(*until):
		return fault.New(fault.Conflict, "session_over", "the playground session has expired")
	}
	h.Log.WarnContext(ctx, "cannot check a playground session with the registry", "error", err)
	return nil
}
