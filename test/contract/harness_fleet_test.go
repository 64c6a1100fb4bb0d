package contract

import (
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// certificateRequest returns a certificate request with a new key.
func (b *builder) certificateRequest() string {
	b.Helper()
	request, err := fixtures.CertificateRequest()
	require.NoError(b, err)
	return request
}

// addCertificateRequest sets a variable to a certificate request, escaped for a JSON string.
func (b *builder) addCertificateRequest() {
	b.set("certificate_request", strings.ReplaceAll(b.certificateRequest(), "\n", `\n`))
}

// addGhost creates a fleet with a node that has joined but never connects, so that no work runs on it.
func (b *builder) addGhost() {
	b.Helper()
	admin, name := b.as("admin"), "ghosts-"+strings.ReplaceAll(b.address(), ".", "-")
	var fleet created
	b.do(admin, http.MethodPost, "/api/fleets", map[string]any{"name": name, "kind": "agent", "pools": []string{name}}, &fleet)
	var join struct {
		Token string `json:"token"`
	}
	b.do(admin, http.MethodPost, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, &join)
	var node struct {
		ID string `json:"node_id"`
	}
	b.do(b.caller(), http.MethodPost, "/api/fleets/join",
		map[string]any{"token": join.Token, "hostname": name, "certificate_request": b.certificateRequest()}, &node)
	b.set("ghost_node", node.ID)
	b.set("ghost_pool", name)
}
