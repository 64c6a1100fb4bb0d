package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/signalbox-dev/signalbox/gateway/internal/apidoc"
	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/reverseproxy"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// handlers builds the handlers of the raw routes.
func (g *Gateway) handlers(context.Context) error {
	ingest, err := g.mounted("ingest", g.deps.Ingest, g.cfg.IngestAddr)
	if err != nil {
		return err
	}
	inference, err := g.mounted("inference", g.deps.Inference, g.cfg.InferenceAddr)
	if err != nil {
		return err
	}
	blobs := g.deps.Blobs
	if blobs == nil {
		blobs = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.fail(w, r, fault.New(fault.Absent, "", "Not Found"))
		})
	}
	described := apidoc.Headers{Headers: g.guard.Headers, NewID: func() string { return g.deps.IDs.New(id.Request) }}
	calls, err := described.Protoset(route.Table())
	if err != nil {
		return err
	}
	g.relay, _ = g.deps.Inference.(httprelay.Relay)
	g.raw = map[string]http.Handler{
		"health": g.document(map[string]string{"status": "ok"}), "ingest": ingest, "inference": inference, "playground": inference, "blobs": blobs,
		"version": g.document(g.deps.Version.Members()),
		"openapi": described.OpenAPI(), "protoset": calls,
	}
	return nil
}

// mounted returns the service's handler in this process or, if that is nil, a relay to the service's address.
func (g *Gateway) mounted(service string, own http.Handler, addr string) (http.Handler, error) {
	switch {
	case own != nil:
		return own, nil
	case addr == "":
		return nil, fmt.Errorf("%s has neither a handler in this process nor an address", service)
	}
	var secured *tls.Config
	if g.deps.RelayTLS != nil {
		secured = g.deps.RelayTLS(service)
	}
	if secured == nil {
		return nil, fmt.Errorf("the connection to %s has no TLS settings", service)
	}
	r := reverseproxy.New(reverseproxy.Upstream{
		Service: service, Address: addr, TLS: secured,
		SendOnce: service == "inference", // ingest recognizes repeated reports
	}, g.deps.Log, g.proxies.Client, g.fail)
	g.idle = append(g.idle, r.Close)
	return r, nil
}

// serveRaw passes a request to its handler without reading or wrapping the body. Health and version are served until
// the listener closes.
func (g *Gateway) serveRaw(w http.ResponseWriter, r *http.Request, m *router.Match, late bool) {
	open := m.Handler == "health" || m.Handler == "version"
	if late && !open {
		g.refuseDraining(w, r)
		return
	}
	if err := g.serving(r.Context(), m.Route.Route); err != nil {
		g.fail(w, r, err)
		return
	}
	if len(g.proxies) > 0 {
		r = r.WithContext(r.Context())
		r.RemoteAddr = net.JoinHostPort(g.proxies.Client(r), "0")
	}
	if m.Credential == "user" {
		known, over, err := g.identified(r, m.Route.Route)
		if err != nil {
			g.fail(w, r, err)
			return
		}
		defer over()
		r = known
	}
	if r.Method == http.MethodGet && m.Handler == "ingest" && m.Credential == "ingest" { // a long poll: a training run waits for a signal
		waits, over := reverseproxy.WithStop(r, g.stop)
		defer over()
		r = waits
	}
	g.raw[m.Handler].ServeHTTP(w, r)
}

func (g *Gateway) refuseDraining(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	g.fail(w, r, draining())
}

// fail writes an error response. It gives the request an id if it has none yet.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	if obs.RequestID(r.Context()) == "" {
		r = r.WithContext(obs.WithRequestID(r.Context(), g.deps.IDs.New(id.Request)))
	}
	middleware.Fail(w, r, err)
}

// document returns a handler that serves a fixed JSON object.
func (g *Gateway) document(members map[string]string) http.Handler {
	body, err := g.codec.Marshal(members)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			g.fail(w, r, err)
			return
		}
		g.guard.Headers(w.Header())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", g.deps.IDs.New(id.Request))
		_, _ = w.Write(body) // the client may be gone
	})
}

// identified returns a copy of a user's request for a service's HTTP handler. The copy has the identity that auth
// signed instead of the credential. Its context ends when the user loses access. The caller must call the returned
// function over when the request has ended.
func (g *Gateway) identified(r *http.Request, rt route.Route) (_ *http.Request, over func(), _ error) {
	if f := g.guard.Check(r); f != nil {
		return r, nil, f
	}
	ctx, claim, err := g.vouched(r.Context(), r, rt)
	if err != nil {
		return r, nil, err
	}
	lasting, over := g.lasting(r.Context(), g.checker.Recheck(ctx, claim))
	in := r.WithContext(lasting)
	in.Header = r.Header.Clone()
	in.Header.Del("Authorization")
	in.Header.Set(headerCaller, authn.Token(ctx, g.deps.Clock.Now()))
	return in, over, nil
}

// lasting returns a context that ends once the function check reports that the caller's access has changed. The
// context's cause is check's error. A response or a WebSocket may last for hours, so one check at its start is not
// enough. Maintenance does not end the context.
func (g *Gateway) lasting(ctx context.Context, check func(context.Context) error) (_ context.Context, over func()) {
	ctx, cut := context.WithCancelCause(ctx)
	recheck, done := g.deps.Clock.NewTicker(sse.Recheck), make(chan struct{})
	go func() {
		defer close(done)
		defer recheck.Stop()
		for ctx.Err() == nil {
			select {
			case <-recheck.C():
				if err := sse.Revoked(ctx, check); err != nil && !fault.HasCode(err, fault.CodeMaintenance) {
					cut(fault.From(err))
				}
			case <-ctx.Done():
			}
		}
	}()
	return ctx, func() { cut(nil); <-done }
}

// headerCaller is the header that carries the signed identity from the gateway to a service's HTTP handler.
const headerCaller = "X-Service-Caller"
