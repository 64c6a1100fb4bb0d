package identity

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// fleetNeeds returns the preparations for the routes of fleets, the cluster and public links.
func (w *harness) fleetNeeds() map[string]preparation {
	return map[string]preparation{
		"PATCH /api/fleets/{fleet_id}":                              w.fleet,
		"DELETE /api/fleets/{fleet_id}":                             w.fleet,
		"GET /api/fleets/{fleet_id}/join-tokens":                    w.fleet,
		"DELETE /api/fleets/{fleet_id}/join-tokens/{join_token_id}": w.joinToken,
		"GET /api/cluster/nodes/{node_id}":                          w.node,
		"POST /api/cluster/nodes/{node_id}/drain":                   w.node,
		"POST /api/cluster/nodes/{node_id}/cordon":                  w.node,
		"POST /api/cluster/nodes/{node_id}/uncordon":                w.node,
		"DELETE /api/cluster/nodes/{node_id}":                       w.node,
		"PATCH /api/cluster/pools/{pool}":                           w.fleet,
		"DELETE /api/shares/{share_id}":                             w.share,
		"GET /api/share/{token}":                                    w.share,
		"GET /api/share/{token}/metrics":                            w.share,
		"GET /api/share/{token}/config":                             w.share,
		"GET /api/share/{token}/samples":                            w.share,
	}
}

// joinToken creates a join token in a new fleet.
func (w *harness) joinToken(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	w.fleet(ctx, t, o)
	w.creates("join_token_id", http.MethodPost, "/api/fleets/{fleet_id}/join-tokens", map[string]any{})(ctx, t, o)
}

// node adds a node to a new fleet. No agent ever connects as this node, so no work runs on it.
func (w *harness) node(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	w.fleet(ctx, t, o)
	var join struct{ Token string }
	w.people["admin"].do(ctx, t, w.Installation, http.MethodPost, "/api/fleets/"+o["fleet_id"]+"/join-tokens", map[string]any{}, &join)
	request, err := fixtures.CertificateRequest()
	require.NoError(t, err)
	var node struct {
		ID string `json:"node_id"`
	}
	w.people["nobody"].do(ctx, t, w.Installation, http.MethodPost, "/api/fleets/join", map[string]any{
		"token": join.Token, "hostname": "ghost", "inventory": map[string]any{},
		"certificate_request": request,
	}, &node)
	o["node_id"] = node.ID
}

// share creates a public link, which belongs to the owner and shows all fields.
func (w *harness) share(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	var made struct{ ID, Token string }
	w.people["owner"].do(ctx, t, w.Installation, http.MethodPost, "/api/shares", map[string]any{
		"kind": "job", "target_ids": []string{o["run_id"]}, "fields": []string{"metrics", "config", "samples"},
	}, &made)
	o["share_id"], o["token"] = made.ID, made.Token
}
