package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/oauthform"
	"github.com/signalbox-dev/signalbox/gateway/internal/webpage"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// fronts builds the handlers of the OAuth forms and of the pages. Requests to them pass the steps of a call except the
// origin check, the credential check, and the JSON decoding and encoding.
func (g *Gateway) fronts(context.Context) error {
	oauth := authpeerv1.NewOAuthPeerServiceClient(g.deps.Conns.Auth)
	pages, err := webpage.New(webpage.Deps{
		Config: g.signIn, OIDC: authpeerv1.NewOidcPeerServiceClient(g.deps.Conns.Auth), Client: g.proxies.Client,
		Session: g.response.Session, Secure: g.cfg.secure(), Fail: g.fail,
	})
	if err != nil {
		return err
	}
	g.own = map[string]http.Handler{
		"oauth": &oauthform.OAuth{Auth: oauth, Client: g.proxies.Client, Foreign: g.guard.Check, Log: g.deps.Log},
		"wellknown": &oauthform.WellKnown{Documents: oauth, Fail: g.fail, Log: g.deps.Log, OIDC: func(r *http.Request) (bool, error) {
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

// signIn gets the sign-in settings from auth, as an anonymous caller.
func (g *Gateway) signIn(r *http.Request) (*authv1.AuthConfig, error) {
	ctx, err := g.checker.Caller(r.Context(), bearer.Claim{Client: g.proxies.Client(r), InMaintenance: true})
	if err != nil {
		return nil, err
	}
	return authv1.NewAuthServiceClient(g.deps.Conns.Auth).GetConfig(ctx, &authv1.GetConfigRequest{})
}

// serveOwn runs one of the gateway's own handlers under the time limit of a call.
func (g *Gateway) serveOwn(w http.ResponseWriter, r *http.Request, c *middleware.Call, own http.Handler) {
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.RequestTimeout)
	defer cancel()
	if err := g.serving(ctx, c.Route.Route); err != nil {
		g.fail(w, r, err)
		return
	}
	// As for calls, a slow body must not occupy the connection longer than the time limit.
	_ = http.NewResponseController(w).SetReadDeadline(clock.Real().Now().Add(g.cfg.RequestTimeout))
	own.ServeHTTP(w, r.WithContext(ctx))
}
