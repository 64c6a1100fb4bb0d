// Package oauthform serves the endpoints that the OAuth RFCs define: token, revocation and device
// authorization, which accept forms, and the metadata documents under /.well-known. auth interprets the
// forms; this package parses them strictly and writes auth's response.
//
// It promises:
//
//   - A form is application/x-www-form-urlencoded of at most 16 KiB and 32 fields, in UTF-8. No field is repeated,
//     and the query is empty. All other requests are refused before auth is called.
//   - Errors have the JSON members of RFC 6749, plus `detail`.
//   - Responses to forms are never cached, and no cookie is read or set. All credentials are in the form, so
//     pages of any origin may send it and read the response.
//   - Pages of other origins cannot use the device flow. Its codes are bound to the client's address. If a foreign
//     page could start a flow in its visitor's browser, the confirmation page would show the visitor's own
//     address, and the visitor would have no reason to suspect the request.
package oauthform

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

// Auth is the part of auth that handles the forms.
type Auth interface {
	IssueToken(ctx context.Context, in *authpeerv1.IssueTokenRequest, opts ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error)
	RevokeToken(ctx context.Context, in *authpeerv1.RevokeTokenRequest, opts ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error)
	AuthorizeDevice(ctx context.Context, in *authpeerv1.AuthorizeDeviceRequest, opts ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error)
}

// The paths of the endpoints that accept forms.
const (
	PathToken  = "/api/oauth/token" //nolint:gosec // a path
	PathRevoke = "/api/oauth/revoke"
	PathDevice = "/api/oauth/device_authorization"
)

// OAuth serves the endpoints that accept forms.
type OAuth struct {
	Auth Auth
	// Client returns the address that a request came from.
	Client func(*http.Request) string
	// Foreign returns the fault of a request that a page of another origin sent, or nil.
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
		w.Header().Set("Allow", "OPTIONS, POST") // no CORS headers, so browsers block pages of other origins
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Pragma", "no-cache")
	// RFC 6749 5.2 requires 401 for a client that tried to authenticate with the Authorization header. Clients here have
	// no secrets. A bearer token does not identify a client and is ignored, as on every route without a credential.
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
		o.Log.ErrorContext(r.Context(), "could not build the response", slog.String("route", r.Pattern), slog.Any("error", err))
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
		return nil, fmt.Errorf("no form handler for %s", r.Pattern)
	}
}

// shared lets pages of any origin read the response. If the request is a browser's CORS preflight, shared responds to
// it and returns true. The response does not allow credentials, so the browser sends no cookies.
func shared(w http.ResponseWriter, r *http.Request, methods string) (done bool) {
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
