package gateway

import (
	"context"
	"net/http"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gateway/internal/edge"
	"github.com/signalbox-dev/signalbox/gateway/internal/match"
	"github.com/signalbox-dev/signalbox/gateway/internal/shape"
	"github.com/signalbox-dev/signalbox/gateway/internal/wire"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// refreshRPC is the one call that gets the refresh cookie.
const refreshRPC = "signalbox.auth.v1.AuthService/Refresh"

// ServeHTTP implements http.Handler: the public API, and its calls for gRPC clients.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if wire.Wants(r) {
		g.wire.ServeHTTP(w, r)
		return
	}
	m, refused := g.router.Find(r)
	// Probes of health come by any name, and learn nothing.
	if refused == nil && m.Handler != "health" {
		refused = g.hosts.Check(r)
	}
	if refused == nil && m.Kind == route.Raw && g.own[m.Handler] == nil {
		g.serveRaw(w, r, m)
		return
	}
	if refused != nil {
		m = &match.Match{Route: &match.Route{}}
	}
	requestID := g.deps.IDs.New(id.Request)
	w.Header().Set(fault.HeaderRequestID, requestID)
	g.guard.Headers(w.Header())
	ctx := edge.WithCall(obs.WithRequestID(r.Context(), requestID), &edge.Call{Match: m, URL: r.URL, Refused: refused})
	r = r.WithContext(ctx)
	r.Pattern = m.Pattern
	g.rest.ServeHTTP(w, r)
}

// serveREST is the inside of rest: one call of a service.
func (g *Gateway) serveREST(w http.ResponseWriter, r *http.Request) {
	c := edge.CallOf(r.Context())
	switch {
	case g.draining.Load():
		g.refuseDraining(w, r)
		return
	case c.Refused != nil:
		g.fail(w, r, c.Refused)
		return
	}
	if own := g.own[c.Handler]; own != nil {
		g.serveOwn(w, r, own)
		edge.Linger(r)
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
	edge.Linger(r)
}

// admit checks the request's origin and credential and answers the context of its calls.
func (g *Gateway) admit(ctx context.Context, r *http.Request, c *edge.Call) (_ context.Context, credential string, _ error) {
	if f := g.guard.Check(r); f != nil {
		return ctx, "", f
	}
	return g.vouched(ctx, r, c.Credential)
}

// vouched has auth vouch for the caller of a route that wants kind.
func (g *Gateway) vouched(ctx context.Context, r *http.Request, kind string) (_ context.Context, credential string, _ error) {
	if kind != "none" {
		token, f := bearer.User(r.Header)
		if f != nil {
			return ctx, "", f
		}
		credential = token
	}
	ctx, err := g.checker.Caller(ctx, credential, g.proxies.Client(r))
	return ctx, credential, err
}

// serveCall checks what the generated handlers would let through and hands the request to them.
func (g *Gateway) serveCall(w http.ResponseWriter, r *http.Request, c *edge.Call) error {
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.RequestTimeout)
	defer cancel()
	// A body that trickles holds the connection no longer than the call; the connection's deadline is
	// the machine's time.
	_ = http.NewResponseController(w).SetReadDeadline(clock.Real().Now().Add(g.cfg.RequestTimeout))
	ctx, _, err := g.admit(ctx, r, c)
	if err != nil {
		return err
	}
	query, f := g.shapes[c.Route].Query(r.URL.RawQuery)
	if f == nil {
		f = g.shapes[c.Route].Vars(c.Values)
	}
	if f == nil {
		c.Metadata, f = edge.Metadata(r.Header)
	}
	if f == nil {
		c.Body, f = edge.Body(w, r, c.Match, g.codec)
	}
	if f != nil {
		return f
	}
	if c.RPC == refreshRPC {
		if cookies := r.CookiesNamed(g.cfg.cookie()); len(cookies) == 1 {
			c.Metadata.Set(edge.MetadataRefresh, cookies[0].Value)
		}
	}
	g.mux.ServeHTTP(w, edge.Inner(r.WithContext(ctx), query, c.Body))
	return nil
}

func tooManyStreams() error {
	return fault.New(fault.Limited, "streams", "too many streams are open with this credential")
}

// serveStream opens a stream and shows it until it ends.
func (g *Gateway) serveStream(w http.ResponseWriter, r *http.Request, c *edge.Call) error {
	ctx, credential, err := g.admit(r.Context(), r, c)
	if err != nil {
		return err
	}
	release, ok := g.limit.Take(credential)
	if !ok {
		return tooManyStreams()
	}
	defer release()
	form, stream := g.shapes[c.Route], g.streams[c.Route]
	in := stream.Request()
	c.Resumed = r.Header.Get(shape.HeaderResume) != ""
	if f := form.Fill(in, c.Match, r); f != nil {
		return f
	}
	again := g.checker.Again(ctx, credential, g.proxies.Client(r))
	if err := stream.Run(w, r.WithContext(ctx), in, g.stop, again); err != nil {
		return edge.Placed(c, err)
	}
	return nil
}

var _ http.Handler = (*Gateway)(nil)
