// Package form serves the endpoints whose form the OAuth RFCs fix: token, revocation and device
// authorization, which take forms, and the metadata documents under /.well-known. What a form means is
// auth's; this package reads it strictly and passes auth's answer on.
//
// It promises: a form is application/x-www-form-urlencoded of at most 16 KiB and 32 fields, in UTF-8,
// each field given once, and nothing in the query; what else comes is refused before auth hears of it.
// Errors are RFC 6749's with `detail` beside them. Answers to forms are never stored and no cookie is read
// or set: what a caller shows is in the form, so pages of any origin may ask and read. The device flow alone
// is not for them: its codes are bound to the address of whoever asks, and a page that could make its
// visitor's browser ask would begin a flow that tells the visitor his own address when he decides.
package form

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Auth is the part of auth that the forms speak to.
type Auth interface {
	IssueToken(ctx context.Context, in *authpeerv1.IssueTokenRequest, opts ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error)
	RevokeToken(ctx context.Context, in *authpeerv1.RevokeTokenRequest, opts ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error)
	AuthorizeDevice(ctx context.Context, in *authpeerv1.AuthorizeDeviceRequest, opts ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error)
}

// The paths of OAuth.
const (
	PathToken  = "/api/oauth/token" //nolint:gosec // a path
	PathRevoke = "/api/oauth/revoke"
	PathDevice = "/api/oauth/device_authorization"
)

// OAuth serves the endpoints that take forms.
type OAuth struct {
	Auth Auth
	// Client is the address that a request came from.
	Client func(*http.Request) string
	// Foreign is why a request that a page of another origin sent is refused, or nil.
	Foreign func(*http.Request) *fault.Error
	Log     *slog.Logger
}

// grantDevice is the grant type of the device flow.
const grantDevice = "urn:ietf:params:oauth:grant-type:device_code"

// ServeHTTP implements http.Handler.
func (o *OAuth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != PathDevice:
		if shared(w, r, "POST") {
			return
		}
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", "OPTIONS, POST") // and no word of other origins, which is a no to their pages
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Pragma", "no-cache")
	// RFC 6749 5.2: who tried to authenticate by this header is told so. Clients here have no secrets; a
	// bearer is not a client's and, as on every open route, not looked at.
	if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Basic") {
		refuse(w, &problem{
			status: http.StatusUnauthorized, word: "invalid_client", text: "clients are public and do not authenticate; send client_id in the form",
			header: http.Header{"Www-Authenticate": {`Basic realm="signalbox"`}},
		})
		return
	}
	form, p := read(w, r)
	if p != nil {
		refuse(w, p)
		return
	}
	if r.URL.Path == PathDevice || form["grant_type"] == grantDevice {
		if f := o.Foreign(r); f != nil {
			refuse(w, failed(f))
			return
		}
	}
	out, err := o.call(r, form)
	if err != nil {
		refuse(w, failed(err))
		return
	}
	if err := give(w, out); err != nil {
		o.Log.ErrorContext(r.Context(), "answer could not be made", slog.String("route", r.Pattern), slog.Any("error", err))
		refuse(w, failed(err))
	}
}

func (o *OAuth) call(r *http.Request, form map[string]string) (*authpeerv1.OAuthAnswer, error) {
	switch r.URL.Path {
	case PathToken:
		return o.Auth.IssueToken(r.Context(), &authpeerv1.IssueTokenRequest{Form: form, ClientAddress: o.Client(r)})
	case PathRevoke:
		return o.Auth.RevokeToken(r.Context(), &authpeerv1.RevokeTokenRequest{Form: form})
	case PathDevice:
		return o.Auth.AuthorizeDevice(r.Context(), &authpeerv1.AuthorizeDeviceRequest{Form: form, ClientAddress: o.Client(r)})
	default:
		return nil, fmt.Errorf("no form is served at %s", r.Pattern)
	}
}

// shared lets pages of any origin read the answer, and answers their browser's question before it asks
// for real. No credentials: the browser then keeps its cookies to itself.
func shared(w http.ResponseWriter, r *http.Request, methods string) (answered bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version")
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
	return true
}
