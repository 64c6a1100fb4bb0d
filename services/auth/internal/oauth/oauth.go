// Package oauth is the authorization server: a person lets a program act for him on one resource (OAuth 2.1,
// with PKCE by RFC 7636, resource indicators by RFC 8707, the issuer in the answer by RFC 9207, revocation by
// RFC 7009 and metadata by RFC 8414 and RFC 9728), and the forms of the device flow.
//
// It promises:
//   - a code gives tokens once, within its minute, to the client, the redirect address and the verifier that
//     it was made for; a code that comes again ends what it gave;
//   - a refresh token is used once, and one that comes again ends its whole family;
//   - an access token of a grant is for its one resource and never for the API, and none of the API is for it;
//   - what it refuses it refuses in the words of the RFCs.
//
// Clients are public: the built-in one of the command line, which has the device flow alone, and those that
// Clients.Register wrote, which have codes alone. Registration by HTTP and clients that are named by their
// metadata document come with the resource that needs them.
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
	// RefreshTTL is how long a refresh token may be.
	RefreshTTL = 30 * 24 * time.Hour
	// kept is how long a grant that ended can still be told apart from one that never was.
	kept = 24 * time.Hour
)

// The grant types.
const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	grantDevice  = "urn:ietf:params:oauth:grant-type:device_code"
)

// scopeRead is what a client gets that asks for nothing in particular.
const scopeRead = "read"

// Scopes are what a client may be allowed on a resource.
func Scopes() []string {
	return []string{scopeRead, "jobs:plan", "jobs:control", "deployments:request", "annotate", "eval:run"}
}

// Tokens are the answer of the token endpoint.
type Tokens struct {
	Access  secret.String
	Expires time.Duration
	// Refresh and Scope are empty for tokens of the API.
	Refresh secret.String
	Scope   string
}

// The words of RFC 6749 5.2 and 4.1.2.1, RFC 8707 and RFC 7009.
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

// refused is an error in the words of an RFC. All of them are 400: RFC 6749 5.2 has 401 for clients that
// tried to authenticate by a header, which the edge refuses, since no client here can.
func refused(word, description string) *fault.Error {
	return fault.New(fault.Refused, "", "%s", description).WithOAuth(word)
}

// badGrant is the one answer to every code and refresh token that does not hold.
func badGrant() *fault.Error {
	return refused(wordGrant, "the code or token is unknown, used, expired, revoked or not of this client")
}

// Base is the issuer, Resource the one resource, of an installation at this address.
func Base(publicURL string) string { return strings.TrimSuffix(publicURL, "/") }

// Resource is what tokens of a grant are for.
func Resource(publicURL string) string { return Base(publicURL) + "/api/mcp" }
