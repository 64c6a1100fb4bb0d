package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gateway/internal/edge"
	"github.com/signalbox-dev/signalbox/gateway/internal/form"
	"github.com/signalbox-dev/signalbox/gateway/internal/page"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// fronts makes the handlers that are neither calls of the API nor bytes: the forms of the OAuth RFCs and
// the pages. They go through everything that a call goes through, but the body's and the answer's JSON.
func (g *Gateway) fronts(context.Context) error {
	oauth := authpeerv1.NewOAuthPeerServiceClient(g.deps.Conns.Auth)
	pages, err := page.New(page.Deps{
		Config: g.signIn, OIDC: authpeerv1.NewOidcPeerServiceClient(g.deps.Conns.Auth), Client: g.proxies.Client,
		Session: g.answer.Session, Secure: g.cfg.secure(), Fail: g.fail,
	})
	if err != nil {
		return err
	}
	g.own = map[string]http.Handler{
		"oauth": &form.OAuth{Auth: oauth, Client: g.proxies.Client, Foreign: g.guard.Check, Log: g.deps.Log},
		"wellknown": &form.WellKnown{Documents: oauth, Fail: g.fail, Log: g.deps.Log, OIDC: func(r *http.Request) (bool, error) {
			cfg, err := g.signIn(r)
			return slices.Contains(cfg.GetMethods(), "oidc"), err
		}},
		"page": pages,
	}
	for _, rt := range g.router.Routes() {
		if rt.Handler != "" && g.raw[rt.Handler] == nil && g.own[rt.Handler] == nil {
			return fmt.Errorf("no handler %q for %s", rt.Handler, rt.Pattern)
		}
	}
	return nil
}

// signIn asks auth how people sign in, on behalf of nobody in particular.
func (g *Gateway) signIn(r *http.Request) (*authv1.AuthConfig, error) {
	ctx, err := g.checker.Caller(r.Context(), bearer.Claim{Client: g.proxies.Client(r), InMaintenance: true})
	if err != nil {
		return nil, err
	}
	return authv1.NewAuthServiceClient(g.deps.Conns.Auth).GetConfig(ctx, &authv1.GetConfigRequest{})
}

// serveOwn runs one of the gateway's own handlers, for as long as a call may take.
func (g *Gateway) serveOwn(w http.ResponseWriter, r *http.Request, c *edge.Call, own http.Handler) {
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.RequestTimeout)
	defer cancel()
	if err := g.serving(ctx, r, c.Route.Route); err != nil {
		g.fail(w, r, err)
		return
	}
	// As for calls: a body that trickles holds the connection no longer than that.
	_ = http.NewResponseController(w).SetReadDeadline(clock.Real().Now().Add(g.cfg.RequestTimeout))
	own.ServeHTTP(w, r.WithContext(ctx))
}
