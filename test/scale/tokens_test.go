package scale

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// manyTokens creates and revokes tokens while two replicas of inference serve many others.
func (h *harness) manyTokens(ctx context.Context, t *testing.T) {
	t.Helper()
	l := h.loop
	require.NoError(t, l.Client.Post(ctx, "/api/model-deployments", map[string]string{"name": l.Name}, &l.Deployment))
	require.NoError(t, l.MakeToken(ctx, "first"))
	deployments, tokens := size(200, 10_000), size(2000, 100_000)
	h.copies(ctx, "registry.deployment", l.Deployment.ID, deployments, map[string]string{"id": "'dep_fill' || lpad(i::text, 22, '0')", "name": "'fill-' || i"})
	h.copies(ctx, "registry.deployment_token", l.TokenID, tokens, map[string]string{
		"id": "'dtk_fill' || lpad(i::text, 22, '0')", "name": "'fill-' || i", "hash": "sha256(i::text::bytea)",
		"deployment_id": "'dep_fill' || lpad((1 + i % " + "(SELECT count(*) - 1 FROM registry.deployment)" + ")::text, 22, '0')",
	})
	p := h.Processes["inference"] // restart it, because it was not notified of the copied rows
	p.Stop(testenv.StageTimeout)
	p.Start()
	grpc, calls, gateway := h.FreeAddress(), h.FreeAddress(), h.FreeAddress()
	h.StartReplica("inference", "inference-two", map[string]string{
		"SERVICE_INFERENCE_LISTEN": grpc, "SERVICE_INFERENCE_HTTP_LISTEN": calls, "SERVICE_INFERENCE_SPOOL": testenv.Folder(t),
	})
	h.StartReplica("gateway", "gateway-two", map[string]string{"SERVICE_LISTEN": gateway, "SERVICE_GATEWAY_INFERENCE_ADDR": calls})
	other := &testenv.Installation{T: t, URL: "http://" + gateway}
	other.AwaitServing()
	h.AwaitServing()
	call := func(url string) *client.Response {
		a, err := client.New(url, nil).With(l.Token).Call(ctx, http.MethodGet, "/inference/"+l.Deployment.ID+"/v1/models", nil)
		require.NoError(t, err)
		return a
	}
	// accepted reports whether a replica has accepted the token: the replica then looks for a revision, which the
	// deployment lacks. A replica that cannot be reached or has not loaded its state responds with 503 too, but with
	// another code.
	accepted := func(url string) bool {
		a := call(url)
		return a.Status == http.StatusServiceUnavailable && strings.Contains(string(a.Body), `"no_ready_revision"`)
	}
	urls := []string{h.URL, other.URL}
	for _, url := range urls {
		h.Until(ctx, "the replica has loaded its state", func() bool { return accepted(url) })
	}
	var known, revoked []time.Duration
	for range size(3, 20) {
		require.NoError(t, l.MakeToken(ctx, "next"))
		began := time.Now()
		for _, url := range urls {
			h.Until(ctx, "the token is known", func() bool { return accepted(url) })
		}
		known = append(known, time.Since(began))
		began = time.Now()
		require.NoError(t, l.Client.Do(ctx, http.MethodDelete, "/api/model-deployments/"+l.Deployment.ID+"/tokens/"+l.TokenID, nil, nil))
		revoked = append(revoked, time.Since(began))
		for _, url := range urls {
			require.Equal(t, http.StatusUnauthorized, call(url).Status, "a revoked token must not be accepted")
		}
	}
	report(t, slices.Max(known) <= time.Second, "a new token works on two replicas after %s at most (1s), with %d tokens and %d deployments", slices.Max(known), tokens, deployments)
	report(t, slices.Max(revoked) <= 2*time.Second, "a revocation is acknowledged after %s at most (2s)", slices.Max(revoked))
}
