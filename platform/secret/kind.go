package secret

import "strings"

// Kinds of opaque tokens.
const (
	KindIngest     = "ing" // reports of one run
	KindDeployment = "dtk" // calls to one deployment
	KindRefresh    = "rft" // refresh cookie of a session
	KindFleetJoin  = "fjt" // registration of an agent
	KindShare      = "shr" // public share link
	KindDevice     = "dvc" // polling in the OAuth device flow
	KindCode       = "acd" // OAuth authorization code
	KindLease      = "lse" // renewal of an attempt's lease
	KindLink       = "lnk" // sign-in link for the machine of the server
)

// kinds returns all kinds of opaque tokens.
func kinds() []string {
	return []string{KindIngest, KindDeployment, KindRefresh, KindFleetJoin, KindShare, KindDevice, KindCode, KindLease, KindLink}
}

// The `typ` of the JSON web tokens that services sign.
const (
	TypAccess = "at+jwt"         // access tokens of users (RFC 9068)
	TypCaller = "svc-caller+jwt" // identities of callers, from service to service
)

// Credential returns which kind of credential a text looks like, for the error of a route that expects another kind. It
// returns "" for any other text.
func Credential(s string) string {
	switch Kind(s) {
	case KindIngest:
		return "an ingest token"
	case KindDeployment:
		return "a deployment token"
	case KindRefresh:
		return "a refresh token"
	case KindFleetJoin:
		return "a join token"
	case KindShare:
		return "a share token"
	case KindLease:
		return "a lease token"
	case KindLink:
		return "a sign-in link"
	}
	if strings.HasPrefix(s, "eyJ") && strings.Count(s, ".") == 2 {
		return "an access token"
	}
	return ""
}
