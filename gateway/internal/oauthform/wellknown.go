package oauthform

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Documents is the part of auth that provides the documents.
type Documents interface {
	GetMetadata(ctx context.Context, in *authpeerv1.GetMetadataRequest, opts ...grpc.CallOption) (*authpeerv1.Metadata, error)
}

// WellKnown serves the documents under /.well-known; they need no credential.
type WellKnown struct {
	Documents Documents
	// OIDC reports whether users sign in through an OpenID provider.
	OIDC func(*http.Request) (bool, error)
	// Fail writes an error response.
	Fail func(http.ResponseWriter, *http.Request, error)
	Log  *slog.Logger
}

const wellKnown = "/.well-known/"

// document returns the name of auth's document for a path. Clients try all paths that the RFCs define for the
// server's metadata, so all of them serve the same document.
func document(path string) string {
	switch strings.TrimPrefix(path, wellKnown) {
	case "oauth-protected-resource", "oauth-protected-resource/api/mcp":
		return "protected-resource"
	case "jwks.json":
		return "jwks"
	default:
		return "authorization-server"
	}
}

// ServeHTTP implements http.Handler.
func (k *WellKnown) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if shared(w, r, "GET, HEAD") {
		return
	}
	body, err := k.body(r)
	if err != nil {
		k.Fail(w, r, err)
		return
	}
	write(w, http.StatusOK, body)
}

func (k *WellKnown) body(r *http.Request) ([]byte, error) {
	if r.URL.Path == wellKnown+"openid-configuration" {
		if on, err := k.OIDC(r); err != nil || !on {
			return nil, failedOr(err, fault.New(fault.Absent, "", "Not Found"))
		}
	}
	out, err := k.Documents.GetMetadata(r.Context(), &authpeerv1.GetMetadataRequest{Document: document(r.URL.Path)})
	if err != nil {
		return nil, fmt.Errorf("get metadata: %w", err)
	}
	if !json.Valid(out.GetBody()) {
		k.Log.ErrorContext(r.Context(), "could not build the response: auth's document is not JSON", slog.String("route", r.Pattern))
		return nil, fault.New(fault.Internal, "", "the document is not JSON")
	}
	return out.GetBody(), nil
}

func failedOr(err error, other *fault.Error) error {
	if err != nil {
		return err
	}
	return other
}
