package webpage

import (
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// bindingLife is how long a user may take to sign in at the provider.
const bindingLife = 10 * time.Minute

// binding returns the cookie that ties a provider's response to the browser that started the sign-in. The cookie
// grants no access. Over https it has a __Host- name, so that sibling hosts cannot set it; that prefix requires the
// path /.
func (p *Pages) binding(value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{ //nolint:gosec // Secure if browsers use https; Lax because the provider redirects the browser here
		Name: "service_oidc", Value: value, Path: PathCallback, MaxAge: int(life.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: p.deps.Secure,
	}
	if p.deps.Secure {
		c.Name, c.Path = "__Host-service_oidc", "/"
	}
	if life <= 0 {
		c.MaxAge = -1
	}
	return c
}

// visited refuses requests for images, frames and the like, by which a page of another site could start or finish a
// sign-in of its visitor unnoticed.
func visited(r *http.Request) error {
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" {
		return fault.New(fault.Forbidden, "cross_origin", "this address cannot be loaded inside another page; open it in the browser's address bar")
	}
	return nil
}

// start redirects the browser to the OpenID provider.
func (p *Pages) start(w http.ResponseWriter, r *http.Request) error {
	if err := visited(r); err != nil {
		return err
	}
	next := local(r.URL.Query().Get("next"))
	if next == "" {
		next = PathLogin // the login page shows who is signed in
	}
	out, err := p.deps.OIDC.BeginOidc(r.Context(), &authpeerv1.BeginOidcRequest{Next: next, ClientAddress: p.deps.Client(r)})
	if err != nil {
		return err //nolint:wrapcheck // the fault is shown to the user
	}
	at, err := url.Parse(out.GetAuthorizationUrl())
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return fault.New(fault.Internal, "", "auth returned an invalid provider URL")
	}
	http.SetCookie(w, p.binding(out.GetBinding(), bindingLife))
	w.Header().Set("Location", at.String())
	w.WriteHeader(http.StatusFound)
	return nil
}

// callback handles the provider's redirect back to this installation.
func (p *Pages) callback(w http.ResponseWriter, r *http.Request) error {
	if err := visited(r); err != nil {
		return err
	}
	in, err := providerResponse(r.URL.RawQuery)
	if err != nil {
		return err
	}
	name := p.binding("", 0).Name
	if cookies := r.CookiesNamed(name); len(cookies) == 1 {
		in.Binding = cookies[0].Value
	}
	in.ClientAddress = p.deps.Client(r)
	var md metadata.MD
	out, err := p.deps.OIDC.FinishOidc(r.Context(), in, grpc.Header(&md))
	http.SetCookie(w, p.binding("", 0))
	if err != nil {
		return err //nolint:wrapcheck // the fault is shown to the user
	}
	next := local(out.GetNext())
	if next == "" {
		next = PathLogin
	}
	p.deps.Session(w.Header(), md)
	w.Header().Set("Location", next)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// providerResponse reads the provider's response from the query. It ignores unknown parameters.
func providerResponse(query string) (*authpeerv1.FinishOidcRequest, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fault.New(fault.Refused, "oidc_answer", "could not read the provider's response")
	}
	in := &authpeerv1.FinishOidcRequest{}
	for _, field := range []struct {
		name string
		most int
		into *string
	}{
		{"state", 512, &in.State},
		{"code", 4096, &in.Code},
		{"iss", 2048, &in.Iss},
		{"error", 256, &in.Error},
	} {
		given := values[field.name]
		if len(given) > 1 || len(given) == 1 && !readable(given[0], field.most) {
			return nil, fault.New(fault.Refused, "oidc_answer", "could not read the provider's response: invalid %s", field.name)
		}
		if len(given) == 1 {
			*field.into = given[0]
		}
	}
	if in.GetState() == "" || (in.GetCode() == "") == (in.GetError() == "") {
		return nil, fault.New(fault.Refused, "oidc_answer", "the request is not a complete response of the provider; start the sign-in again")
	}
	return in, nil
}

func readable(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
