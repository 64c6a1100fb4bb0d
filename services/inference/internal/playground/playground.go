// Package playground relays the calls of playground sessions and keeps what was said in them. Who may call what is
// the registry's to say, for each call anew: there is no token, and an address means nothing without a login. A
// call is cut when its session ends, with words that say so.
//
// store.go alone speaks SQL, server.go alone speaks proto.
package playground

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/services/inference/internal/lease"
	"github.com/signalbox-dev/signalbox/services/inference/internal/proxy"
)

// Admitted is a call that the registry lets in.
type Admitted struct {
	Replica          *lease.Replica
	ExpiresAt        time.Time
	UserID, Username string
}

// Sessions is the registry's word.
type Sessions interface {
	Admit(ctx context.Context, sessionID string, target int32) (Admitted, error)
	// Keep notes that a session is in use and answers its end; one that has ended is a conflict.
	Keep(ctx context.Context, sessionID string) (time.Time, error)
	See(ctx context.Context, sessionID string) error
}

const (
	// Prefix is where sessions are called.
	Prefix = "/api/playground/sessions/"
	// HeaderCaller carries the identity that auth signed for this request; the gateway sets it.
	HeaderCaller = "X-Service-Caller"
	// callerLife is how long that identity is good for.
	callerLife = time.Minute
	// keepEvery is how often a call that goes on asks whether its session does.
	keepEvery = 20 * time.Second
	// keepLeast is the pause of a call that its session should have ended already.
	keepLeast = 100 * time.Millisecond
	// askWithin bounds one question to the registry.
	askWithin = 10 * time.Second
)

// Handler answers /api/playground/sessions/{id}/targets/{target}/v1/....
type Handler struct {
	Sessions Sessions
	Proxy    *proxy.Proxy
	Store    *Store
	Clock    clock.Clock
	IDs      *id.Source
	Log      *slog.Logger
}

// where is a request's place.
type where struct {
	session string
	target  int32
	path    string
	clean   bool
	// wrong is why the target is no number of one.
	wrong *fault.Error
}

// place reads the path of a request; ok is false for what is no target's.
func place(u *url.URL) (where, bool) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), Prefix)
	if !ok {
		return where{}, false
	}
	session, rest, _ := strings.Cut(rest, "/targets/")
	number, rest, _ := strings.Cut(rest, "/")
	if number == "" || rest != "v1" && !strings.HasPrefix(rest, "v1/") {
		return where{}, false
	}
	target, wrong := counted(number)
	path, clean := proxy.Target("/" + rest)
	return where{session, target, path, clean, wrong}, true
}

// counted reads the number of a target, which is counted from 1.
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
	at, ok := place(r.URL)
	if h.Proxy.Draining() {
		w.Header().Set("Connection", "close")
		fault.WriteOpenAI(w, fault.New(fault.Unavailable, "draining", "This server is stopping"), requestID)
		return
	}
	if !ok {
		fault.WriteOpenAI(w, fault.New(fault.Absent, "not_found", "Not Found"), requestID)
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
	asked := authn.WithToken(r.Context(), token, h.Clock.Now().Add(callerLife))
	admitted, err := h.admit(asked, at)
	if fault.Is(err, fault.Invalid) {
		err = fault.From(err).Under("path")
	}
	switch {
	case err != nil:
		fault.WriteOpenAI(w, err, requestID)
		return
	case !at.clean:
		fault.WriteOpenAI(w, fault.New(fault.Refused, "bad_path", "The path must not hold dot segments, backslashes, control bytes or encoded slashes"), requestID)
		return
	}
	ctx, leave := h.watch(r.Context(), at.session, admitted.ExpiresAt)
	defer leave()
	turn := &turn{store: h.Store, log: h.Log, sessionID: at.session, target: at.target, by: admitted}
	h.Proxy.With(turn).Guest(ctx, w, r, proxy.Guest{
		RequestID: requestID, Target: &url.URL{Path: at.path, RawQuery: r.URL.RawQuery}, Session: at.session, Number: at.target,
		Replica: admitted.Replica, Capture: turn,
	})
}

func (h *Handler) admit(ctx context.Context, at where) (Admitted, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return h.Sessions.Admit(ctx, at.session, at.target)
}

func (h *Handler) requestID(r *http.Request) string {
	if given := obs.RequestID(r.Context()); id.Check(id.Request, given) == nil {
		return given
	}
	return h.IDs.New(id.Request)
}

// watch is the context of a call: it ends with the session. leave must be called.
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

// keep asks whether the session goes on. While the registry cannot be asked it does, up to the end that is known.
func (h *Handler) keep(ctx context.Context, sessionID string, until *time.Time) error {
	asked, cancel := context.WithTimeout(authn.Background(ctx), askWithin)
	defer cancel()
	at, err := h.Sessions.Keep(asked, sessionID)
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
	h.Log.WarnContext(ctx, "the registry cannot be asked about a playground session", "error", err)
	return nil
}
