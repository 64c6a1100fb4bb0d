// Package webpage serves the few pages that exist outside the console: signing in, approving a command-line
// client, and the redirects to an OpenID provider and back.
//
// It promises:
//
//   - A page contains no secret, and loading it changes nothing. A user's actions on it are requests to the API,
//     with the access token that the page's script holds in memory.
//   - Scripts and styles are files of this binary. The content security policy blocks all others.
//   - `next` redirects only to a path of this installation.
//   - A client that does not accept HTML gets errors as the API's JSON.
package webpage

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// policy is the pages' content security policy. It requires Trusted Types and allows no policy that creates them, so
// that not even the pages' own scripts can turn text into markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// The paths of the pages.
const (
	PathLogin    = "/login"
	PathDevice   = "/device"
	PathCallback = "/auth/callback"
	PathStart    = "/api/auth/oidc/start"
	PathAssets   = "/pages/"
)

// OIDC is the part of auth that signs users in through a provider.
type OIDC interface {
	BeginOidc(ctx context.Context, in *authpeerv1.BeginOidcRequest, opts ...grpc.CallOption) (*authpeerv1.BeginOidcResponse, error)
	FinishOidc(ctx context.Context, in *authpeerv1.FinishOidcRequest, opts ...grpc.CallOption) (*authpeerv1.FinishOidcResponse, error)
}

// Deps are the dependencies of the pages.
type Deps struct {
	// Config returns auth's sign-in settings.
	Config func(*http.Request) (*authv1.AuthConfig, error)
	OIDC   OIDC
	// Client returns the address that a request came from.
	Client func(*http.Request) string
	// Session sets the cookie that auth's metadata carries.
	Session func(http.Header, metadata.MD)
	// Secure reports whether browsers use https.
	Secure bool
	// Fail writes an error response in the API's format.
	Fail func(http.ResponseWriter, *http.Request, error)
}

// Pages serves the pages and their files.
type Pages struct {
	deps   Deps
	assets assets
	html   *template.Template
}

// New reads the pages that are embedded in the binary.
func New(d Deps) (*Pages, error) {
	files, err := load()
	if err != nil {
		return nil, err
	}
	html, err := template.New("").Funcs(template.FuncMap{"asset": files.path}).ParseFS(content, "html/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	return &Pages{deps: d, assets: files, html: html}, nil
}

// ServeHTTP implements http.Handler.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	switch r.URL.Path {
	case PathLogin:
		err = p.login(w, r)
	case PathDevice:
		err = p.device(w, r)
	case PathStart:
		err = p.start(w, r)
	case PathCallback:
		err = p.callback(w, r)
	default:
		err = p.asset(w, r)
	}
	if err != nil {
		p.fail(w, r, err)
	}
}

// view is the data of a page's template.
type view struct {
	Title  string
	Script string
	// Next is the path to open after signing in, or empty.
	Next     string
	Password bool
	Provider string
	// UserCode is the code from the query of the address.
	UserCode string
	Failed   *failure
	// Installation is the installation's name. Announcement is the admins' text for the sign-in page. Both are empty
	// on a page that does not need auth's settings.
	Installation, Announcement string
}

type failure struct {
	Title, Text, RequestID string
	Again                  bool
}

func (p *Pages) login(w http.ResponseWriter, r *http.Request) error {
	cfg, err := p.deps.Config(r)
	if err != nil {
		return err
	}
	v := view{
		Title: "Sign in", Script: "login.js", Next: local(r.URL.Query().Get("next")),
		Installation: cfg.GetInstallation(), Announcement: cfg.GetAnnouncement(),
	}
	for _, method := range cfg.GetMethods() {
		switch method {
		case "password":
			v.Password = true
		case "oidc":
			v.Provider = cmp.Or(cfg.GetOidc().GetName(), cfg.GetOidc().GetIssuer(), "your provider")
		}
	}
	return p.show(w, "login", http.StatusOK, v)
}

func (p *Pages) device(w http.ResponseWriter, r *http.Request) error {
	cfg, err := p.deps.Config(r)
	if err != nil {
		return err
	}
	return p.show(w, "device", http.StatusOK, view{
		Title: "Connect a device", Script: "device.js", UserCode: userCode(r.URL.Query().Get("user_code")), Installation: cfg.GetInstallation(),
	})
}

// fail shows an error page to a browser and writes the API's error to other clients.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		p.deps.Fail(w, r, err)
		return
	}
	requestID := obs.RequestID(r.Context())
	f, rendered := fault.From(err), fault.Render(err, requestID)
	for _, name := range []string{"Retry-After", "Connection"} {
		if value := rendered.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	shown := &failure{Title: "Something went wrong", Text: sentence(f.Text()), RequestID: requestID, Again: true}
	switch {
	case r.URL.Path == PathCallback || r.URL.Path == PathStart:
		shown.Title = "Sign-in failed"
	case f.Kind == fault.Absent:
		shown.Title, shown.Again = "Page not found", false
	}
	if failed := p.show(w, "failed", rendered.Status, view{Title: shown.Title, Failed: shown}); failed != nil {
		p.deps.Fail(w, r, err)
	}
}

// sentence returns a fault's text with a capital letter and a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}

// show writes a page. If the template fails, it writes nothing and returns the error.
func (p *Pages) show(w http.ResponseWriter, name string, status int, v view) error {
	var b bytes.Buffer
	if err := p.html.ExecuteTemplate(&b, name, v); err != nil {
		return fmt.Errorf("render page %s: %w", name, err)
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone
	return nil
}
