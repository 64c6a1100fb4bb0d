// Package webpage serves what browsers open: the built files of the console and of the documentation, and the few
// pages that exist outside them: signing in, approving a command-line client, and the redirects to an OpenID provider
// and back.
//
// It promises:
//
//   - A page contains no secret, and loading it changes nothing. A user's actions on it are requests to the API,
//     with the access token that the page's script holds in memory.
//   - Scripts and styles are files of this binary. The content security policy blocks all others, except styles of
//     elements in the console and the documentation.
//   - Only names of built files are ever opened. A missing file of /assets is 404, never the console's page.
//   - `next` redirects only to a path of this installation.
//   - A client that does not accept HTML gets errors as the API's JSON.
package webpage

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
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
	PathFiles    = "/assets/" // the console's files whose names contain a hash
	PathDocs     = "/docs"
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
	// Console and Docs are the built files of the console and of the documentation; nil means those in the binary.
	Console, Docs fs.FS
}

// Pages serves the pages and their files.
type Pages struct {
	deps   Deps
	assets assets
	html   *template.Template
	site   *site
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
	built, err := newSite(d.Console, d.Docs)
	if err != nil {
		return nil, err
	}
	return &Pages{deps: d, assets: files, html: html, site: built}, nil
}

// ServeHTTP implements http.Handler.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	switch path := r.URL.Path; path {
	case PathLogin:
		err = p.login(w, r)
	case PathDevice:
		err = p.device(w, r)
	case PathStart:
		err = p.start(w, r)
	case PathCallback:
		err = p.callback(w, r)
	default:
		if strings.HasPrefix(path, PathAssets) {
			err = p.asset(w, r)
		} else {
			err = p.page(w, r)
		}
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
	// Command builds what is missing. Documents are files of the source that a reader may open instead.
	Command   string
	Documents []string
	// Installation is the installation's name. Announcement is the admins' text for the sign-in page. Both are empty
	// on a page that does not need auth's settings.
	Installation, Announcement string
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

// isolate sets headers that keep pages of other origins away from a page, and the page away from devices.
func isolate(h http.Header) {
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// show writes a page. If the template fails, it writes nothing and returns the error.
func (p *Pages) show(w http.ResponseWriter, name string, status int, v view) error {
	var b bytes.Buffer
	if err := p.html.ExecuteTemplate(&b, name, v); err != nil {
		return fmt.Errorf("render page %s: %w", name, err)
	}
	h := w.Header()
	isolate(h)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone
	return nil
}
