package oauth

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The names of the documents that GetMetadata returns.
const (
	documentServer   = "authorization-server"
	documentResource = "protected-resource"
	documentKeys     = "jwks"
)

// keySet returns the public keys that verify access tokens, as a JWK set.
type keySet interface {
	JWKS(ctx context.Context) ([]byte, error)
}

// serverMetadata is the document of RFC 8414. It has no fields for client registration and client metadata documents,
// because these are not implemented.
type serverMetadata struct {
	Issuer                 string   `json:"issuer"`
	AuthorizationEndpoint  string   `json:"authorization_endpoint"`
	TokenEndpoint          string   `json:"token_endpoint"`
	DeviceEndpoint         string   `json:"device_authorization_endpoint"`
	RevocationEndpoint     string   `json:"revocation_endpoint"`
	KeysURI                string   `json:"jwks_uri"`
	Scopes                 []string `json:"scopes_supported"`
	ResponseTypes          []string `json:"response_types_supported"`
	ResponseModes          []string `json:"response_modes_supported"`
	GrantTypes             []string `json:"grant_types_supported"`
	Challenges             []string `json:"code_challenge_methods_supported"`
	TokenAuthentication    []string `json:"token_endpoint_auth_methods_supported"`
	RevokingAuthentication []string `json:"revocation_endpoint_auth_methods_supported"`
	IssuerInResponse       bool     `json:"authorization_response_iss_parameter_supported"`
	Resources              []string `json:"protected_resources"`
}

// resourceMetadata is the document of RFC 9728.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Bearer   []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

func metadataOf(publicURL string) serverMetadata {
	base := Base(publicURL)
	return serverMetadata{
		Issuer: base, AuthorizationEndpoint: base + "/api/oauth/authorize", TokenEndpoint: base + "/api/oauth/token",
		DeviceEndpoint: base + "/api/oauth/device_authorization", RevocationEndpoint: base + "/api/oauth/revoke",
		KeysURI: base + "/.well-known/jwks.json", Scopes: Scopes(),
		ResponseTypes: []string{"code"}, ResponseModes: []string{"query"}, GrantTypes: []string{grantCode, grantRefresh, grantDevice},
		Challenges: []string{"S256"}, TokenAuthentication: []string{"none"}, RevokingAuthentication: []string{"none"},
		IssuerInResponse: true, Resources: []string{Resource(publicURL)},
	}
}

// document returns one of the three documents as JSON.
func document(ctx context.Context, name, publicURL string, keys keySet) ([]byte, error) {
	var doc any
	switch name {
	case documentServer:
		doc = metadataOf(publicURL)
	case documentResource:
		doc = resourceMetadata{
			Resource: Resource(publicURL), Servers: []string{Base(publicURL)}, Scopes: Scopes(), Bearer: []string{"header"}, Name: "Signalbox",
		}
	case documentKeys:
		return keys.JWKS(ctx)
	default:
		return nil, fault.Absentf("document", name)
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode the metadata: %w", err)
	}
	return body, nil
}
