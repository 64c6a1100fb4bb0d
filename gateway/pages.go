package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/oauthform"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gateway/internal/webpage"
	"github.com/signalbox-dev/signalbox/gen/route"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// fronts builds the handlers of the OAuth forms and of the pages. Requests to them pass the steps of a call except the
// origin check, the credential check, and the JSON decoding and encoding.
func (g *Gateway) fronts(context.Context) error {
	oauth := authpeerv1.NewOAuthPeerServiceClient(g.deps.Conns.Auth)
	pages, err := webpage.New(webpage.Deps{
		Config: g.signIn, OIDC: authpeerv1.NewOidcPeerServiceClient(g.deps.Conns.Auth), Client: g.proxies.Client,
		Session: g.response.Session, Secure: g.cfg.secure(), Fail: g.fail, Console: g.deps.Console, Docs: g.deps.Docs,
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

// missing returns a 501 fault, instead of a 404 or 405, for an endpoint that the authorization server's documents name
// but that does not exist. For any other request it returns the given fault.
func (g *Gateway) missing(r *http.Request, refused *fault.Error) *fault.Error {
	if refused == nil || refused.Kind != fault.Absent && refused.Kind != fault.MethodNotAllowed {
		return refused
	}
	text := ""
	switch {
	case r.URL.Path == "/api/mcp":
		text = "this version of the server has no Model Context Protocol endpoint"
	case r.URL.Path == "/api/oauth/authorize" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		text = "this version of the server has no page on which users approve programs; programs sign in with the device flow"
	default:
		return refused
	}
	if f := g.hosts.Check(r); f != nil {
		return f
	}
	return fault.New(fault.Unconfigured, "not_implemented", "%s", text)
}

// site returns the match of a request for the console or the documentation, and no fault, if the table has no route
// for its path. It returns any other match and fault unchanged. No service receives such a request, and maintenance
// does not close it: the console shows the notice.
func (g *Gateway) site(r *http.Request, m *router.Match, refused *fault.Error) (*router.Match, *fault.Error) {
	if refused == nil || refused.Kind != fault.Absent || router.CheckPagePath(r) != nil {
		return m, refused
	}
	pages, _ := g.own["page"].(*webpage.Pages)
	pattern, ok := pages.Site(r)
	if !ok {
		return m, refused
	}
	return &router.Match{Route: &router.Route{Route: route.Route{
		Method: r.Method, Pattern: pattern, Kind: route.Raw, Handler: "page", Credential: "none", InMaintenance: true,
	}}}, nil
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
	// A slow body must not occupy the connection longer than the time limit (as in serveCall).
	_ = http.NewResponseController(w).SetReadDeadline(clock.Real().Now().Add(g.cfg.RequestTimeout))
	own.ServeHTTP(w, r.WithContext(ctx))
}
