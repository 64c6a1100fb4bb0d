package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gateway/internal/grpcproxy"
	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// refreshRPC is the only call that receives the refresh cookie.
const refreshRPC = "signalbox.auth.v1.AuthService/Refresh"

// ServeHTTP implements http.Handler. It serves the public API to REST clients and to gRPC clients.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	held := g.hold.Enter()
	if held {
		defer g.hold.Leave()
	}
	if g.leaving.Load() {
		w.Header().Set("Connection", "close") // net/http sends GOAWAY on a connection of HTTP/2
	}
	if grpcproxy.Wants(r) && !enginepath.Under(r.URL.Path) {
		g.wire.ServeHTTP(w, r.WithContext(withLate(r.Context(), !held)))
		return
	}
	m, refused := g.router.Find(r)
	m, refused = g.site(r, m, g.missing(r, refused))
	// Health probes may use any host name; the response reveals nothing.
	if refused == nil && m.Handler != "health" {
		refused = g.hosts.Check(r)
	}
	if refused == nil && m.Kind == route.Raw && g.own[m.Handler] == nil {
		g.serveRaw(w, r, m, !held)
		return
	}
	if refused != nil {
		m = &router.Match{Route: &router.Route{}}
	}
	requestID := g.deps.IDs.New(id.Request)
	w.Header().Set(fault.HeaderRequestID, requestID)
	g.guard.Headers(w.Header())
	if strings.HasPrefix(m.Pattern, middleware.SharePrefix) {
		g.guard.Shared(w.Header())
	}
	ctx := middleware.WithCall(obs.WithRequestID(r.Context(), requestID), &middleware.Call{Match: m, URL: r.URL, Refused: refused, Late: !held})
	r = r.WithContext(ctx)
	r.Pattern = m.Pattern
	g.rest.ServeHTTP(w, r)
}

// serveREST serves one request. The handler g.rest calls it and adds the log line, trace and recovery from panics.
func (g *Gateway) serveREST(w http.ResponseWriter, r *http.Request) {
	c := middleware.CallOf(r.Context())
	switch {
	case c.Late:
		g.refuseDraining(w, r)
		return
	case c.Refused != nil:
		g.fail(w, r, c.Refused)
		return
	}
	if own := g.own[c.Handler]; own != nil {
		g.serveOwn(w, r, c, own)
		return
	}
	if c.Kind == route.Stream {
		if err := g.serveStream(w, r, c); err != nil {
			g.fail(w, r, err)
		}
		return
	}
	if err := g.serveCall(w, r, c); err != nil {
		g.fail(w, r, err)
	}
}

// admit checks the request's origin and credential and returns the context for its calls.
func (g *Gateway) admit(ctx context.Context, r *http.Request, c *middleware.Call) (context.Context, bearer.Claim, error) {
	if f := g.guard.Check(r); f != nil {
		return ctx, bearer.Claim{}, g.unserved(ctx, c.Route.Route, f)
	}
	return g.vouched(ctx, r, c.Route.Route)
}

// vouched has auth check the caller of a route and returns a context with the identity that auth signed.
func (g *Gateway) vouched(ctx context.Context, r *http.Request, rt route.Route) (context.Context, bearer.Claim, error) {
	claim := bearer.Claim{Client: g.proxies.Client(r), InMaintenance: rt.InMaintenance}
	if rt.Credential != "none" {
		token, f := bearer.User(r.Header)
		if f != nil {
			return ctx, claim, g.unserved(ctx, rt, f)
		}
		claim.Credential = token
	}
	ctx, err := g.checker.Caller(ctx, claim)
	return ctx, claim, named(rt, err)
}

// forAdmins rejects callers without the admin role if the route requires that role. It is called before the body is
// parsed. The service checks the role again. A caller with an invalid token or a temporary password is left to the
// service, which returns the reason.
func (g *Gateway) forAdmins(ctx context.Context, rt route.Route) error {
	if rt.Role != authn.RoleAdmin {
		return nil
	}
	c, err := authn.UnverifiedCaller(authn.Token(ctx, g.deps.Clock.Now()))
	if err != nil || c.PasswordDrawn {
		return nil //nolint:nilerr // the service rejects an invalid token, too
	}
	return c.RequireAdmin()
}

// limitOf returns how long a call of the route may take.
func (g *Gateway) limitOf(rt route.Route) time.Duration {
	if rt.Limit > 0 {
		return time.Duration(rt.Limit) * time.Second
	}
	return g.cfg.RequestTimeout
}

// serveCall makes the checks that the generated handlers lack and then passes the request to them.
func (g *Gateway) serveCall(w http.ResponseWriter, r *http.Request, c *middleware.Call) error {
	limit := g.limitOf(c.Route.Route)
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	// A slow body must not occupy the connection longer than the call. Connection deadlines use the real clock.
	_ = http.NewResponseController(w).SetReadDeadline(clock.Real().Now().Add(limit))
	ctx, _, err := g.admit(ctx, r, c)
	if err == nil {
		err = g.forAdmins(ctx, c.Route.Route)
	}
	if err != nil {
		return err
	}
	query, f := g.shapes[c.Route].Query(r.URL.RawQuery)
	if f == nil {
		f = g.shapes[c.Route].Vars(c.Values)
	}
	if f == nil {
		c.Metadata, f = middleware.Metadata(r.Header)
	}
	if f == nil {
		c.Body, f = middleware.Body(w, r, c.Match, g.codec)
	}
	if f != nil {
		return f
	}
	if c.RPC == refreshRPC {
		if cookies := r.CookiesNamed(g.cfg.cookie()); len(cookies) == 1 {
			c.Metadata.Set(middleware.MetadataRefresh, cookies[0].Value)
		}
	}
	g.rpcs[c.Route](w, middleware.Inner(r.WithContext(ctx), query, c.Body), c.Variables())
	return nil
}

func tooManyStreams() error {
	return fault.New(fault.Limited, "streams", "too many streams are open with this credential")
}

// serveStream opens a stream and relays its events until it ends.
func (g *Gateway) serveStream(w http.ResponseWriter, r *http.Request, c *middleware.Call) error {
	ctx, claim, err := g.admit(r.Context(), r, c)
	if err != nil {
		return err
	}
	release, ok := g.limit.Take(claim.Credential)
	if !ok {
		return tooManyStreams()
	}
	defer release()
	form, stream := g.shapes[c.Route], g.streams[c.Route]
	in := stream.Request()
	c.Resumed = r.Header.Get(router.HeaderResume) != ""
	if f := form.Fill(in, c.Match, r); f != nil {
		return f
	}
	md, f := middleware.Metadata(r.Header)
	if f != nil {
		return f
	}
	// Only the stream itself has the client's metadata; the repeated checks of the caller do not.
	if err := stream.Run(w, r.WithContext(metadata.NewOutgoingContext(ctx, md)), in, g.stop, g.checker.Recheck(ctx, claim)); err != nil {
		return middleware.WithLocations(c, err)
	}
	return nil
}

var _ http.Handler = (*Gateway)(nil)
