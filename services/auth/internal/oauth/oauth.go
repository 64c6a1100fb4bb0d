// Package oauth is the authorization server, with which a user authorizes a program to act on one resource. It
// implements OAuth 2.1 with PKCE (RFC 7636), resource indicators (RFC 8707), the issuer in the response (RFC 9207),
// revocation (RFC 7009) and metadata (RFC 8414 and RFC 9728). It also has the form endpoints of the device flow.
//
// It promises:
//   - a code gives tokens once, within one minute, and only to the client that it was issued to, with the right
//     verifier and, if the client sends one, the same redirect address; if a code is used again, the tokens that it
//     gave become invalid;
//   - a refresh token gives tokens once; if it is used again, all tokens of its grant become invalid;
//   - an access token of a grant is valid only for the grant's resource and never for the API, and no access token of
//     the API is valid for that resource;
//   - errors that a client receives have the codes of the RFCs.
//
// Clients are public: they have no secret. The built-in client of the command line may use only the device flow. The
// clients that Clients.Register stores may use only codes and refresh tokens. Clients
// cannot register over HTTP or identify themselves by a metadata document.
package oauth

import (
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// CodeTTL is how long a code is valid.
	CodeTTL = time.Minute
	// RefreshTTL is how long a refresh token is valid.
	RefreshTTL = 30 * 24 * time.Hour
)

// The grant types.
const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	grantDevice  = "urn:ietf:params:oauth:grant-type:device_code"
)

// scopeRead is the scope of a client that does not request a scope.
const scopeRead = "read"

// Scopes returns the scopes that a client may have on a resource.
func Scopes() []string {
	return []string{scopeRead, "jobs:plan", "jobs:control", "deployments:request", "annotate", "eval:run"}
}

// Tokens is the response of the token endpoint.
type Tokens struct {
	Access  secret.String
	Expires time.Duration
	// Refresh and Scope are empty for tokens of the API.
	Refresh secret.String
	Scope   string
}

// The error codes of RFC 6749 5.2 and 4.1.2.1, RFC 8707 and RFC 7009.
const (
	wordRequest      = "invalid_request"
	wordClient       = "invalid_client"
	wordGrant        = "invalid_grant"
	wordUnauthorized = "unauthorized_client"
	wordGrantType    = "unsupported_grant_type"
	wordScope        = "invalid_scope"
	wordTarget       = "invalid_target"
	wordResponseType = "unsupported_response_type"
	wordDenied       = "access_denied"
	wordTokenType    = "unsupported_token_type"
)

// refused returns an error with an error code of an RFC. Its status is always 400. RFC 6749 5.2 requires 401 only for
// clients that authenticate with a header, and the gateway rejects such requests with 401 itself.
func refused(word, description string) *fault.Error {
	return fault.New(fault.Refused, "", "%s", description).WithOAuth(word)
}

// badGrant returns the error for every code or refresh token that is not valid. It does not reveal the reason.
func badGrant() *fault.Error {
	return refused(wordGrant, "the code or token is unknown, used, expired, revoked or issued to another client")
}

// Base returns the issuer of an installation with this public URL.
func Base(publicURL string) string { return strings.TrimSuffix(publicURL, "/") }

// Resource returns the resource for which the tokens of a grant are valid.
func Resource(publicURL string) string { return Base(publicURL) + "/api/mcp" }
