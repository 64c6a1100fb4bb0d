// Package oauth is the authorization server. With it a user authorizes a program to act on one resource (OAuth 2.1,
// with PKCE by RFC 7636, resource indicators by RFC 8707, the issuer in the response by RFC 9207, revocation by
// RFC 7009 and metadata by RFC 8414 and RFC 9728). It also has the form endpoints of the device flow.
//
// It promises:
//   - a code gives tokens once, within its minute, to the client, the redirect address and the verifier that
//     it was issued for; a code that is used again ends the tokens that it gave;
//   - a refresh token is used once, and a second use ends its whole family;
//   - an access token of a grant is valid for its one resource and never for the API, and no access token of the
//     API is valid for that resource;
//   - its errors have the codes of the RFCs.
//
// Clients are public: the built-in one of the command line, which may only use the device flow, and those that
// Clients.Register stores, which may only use codes. Registration by HTTP and clients identified by a metadata
// document are not implemented until a resource needs them.
package oauth

import (
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// CodeTTL is how long a code may be exchanged.
	CodeTTL = time.Minute
	// RefreshTTL is how long a refresh token is valid.
	RefreshTTL = 30 * 24 * time.Hour
	// kept is how long a grant is stored after its codes and tokens expire.
	kept = 24 * time.Hour
)

// The grant types.
const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	grantDevice  = "urn:ietf:params:oauth:grant-type:device_code"
)

// scopeRead is the scope of a client that requests none.
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

// refused returns an error with a code of an RFC. Its status is always 400: RFC 6749 5.2 has 401 for clients that
// authenticate with a header, but no client here can, and the gateway rejects such requests.
func refused(word, description string) *fault.Error {
	return fault.New(fault.Refused, "", "%s", description).WithOAuth(word)
}

// badGrant is the one error for all codes and refresh tokens that are not valid.
func badGrant() *fault.Error {
	return refused(wordGrant, "the code or token is unknown, used, expired, revoked or issued to another client")
}

// Base returns the issuer of an installation with this public URL.
func Base(publicURL string) string { return strings.TrimSuffix(publicURL, "/") }

// Resource returns the resource that the tokens of a grant are valid for.
func Resource(publicURL string) string { return Base(publicURL) + "/api/mcp" }
