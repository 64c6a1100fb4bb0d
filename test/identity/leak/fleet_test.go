package leak

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// changeFleet sends, as an admin, requests that change fleets, nodes, the hardware configuration and public links.
func (h *installation) changeFleet(ctx context.Context, t *testing.T) {
	t.Helper()
	do := func(method, path string, body, out any) {
		t.Helper()
		require.NoError(t, h.admin.Do(ctx, method, path, body, out), "%s %s", method, path)
	}
	name := "ghosts" + randomName(t)
	var fleet, join struct{ ID, Token string }
	do(http.MethodPost, "/api/fleets", map[string]any{"name": name, "kind": "agent", "pools": []string{name}}, &fleet)
	at := "/api/fleets/" + fleet.ID
	do(http.MethodPost, at+"/join-tokens", map[string]any{}, &join)
	h.credentialStore.add("join token of a fleet", join.Token)
	request, err := fixtures.CertificateRequest()
	require.NoError(t, err)
	var node struct {
		ID string `json:"node_id"`
	}
	do(http.MethodPost, "/api/fleets/join", map[string]any{"token": join.Token, "hostname": name, "certificate_request": request}, &node)
	do(http.MethodDelete, at+"/join-tokens/"+join.ID, nil, nil)
	do(http.MethodPost, "/api/cluster/nodes/"+node.ID+"/cordon", map[string]any{}, nil)
	do(http.MethodPost, "/api/cluster/nodes/"+node.ID+"/drain", map[string]any{"mode": "wait"}, nil)
	do(http.MethodPost, "/api/cluster/nodes/"+node.ID+"/uncordon", nil, nil)
	do(http.MethodDelete, "/api/cluster/nodes/"+node.ID, nil, nil)
	do(http.MethodPatch, "/api/cluster/pools/"+name, map[string]any{"isolation": "none"}, nil)
	do(http.MethodPatch, at, map[string]any{"state": "disabled"}, nil)
	do(http.MethodDelete, at, nil, nil)
	series := []any{map[string]any{"key": name, "model": "any", "vram_gb": 0}}
	do(http.MethodPut, "/api/admin/hardware/config", map[string]any{"series": series, "profiles": []any{}}, nil)

	var share struct{ ID, Token string }
	do(http.MethodPost, "/api/shares", map[string]any{"kind": "job", "target_ids": []string{h.loop.Job.ID}}, &share)
	h.credentialStore.add("token of a public link", share.Token)
	for _, part := range []string{"", "/metrics", "/config"} {
		do(http.MethodGet, "/api/share/"+share.Token+part, nil, nil)
	}
	do(http.MethodDelete, "/api/shares/"+share.ID, nil, nil)
}
