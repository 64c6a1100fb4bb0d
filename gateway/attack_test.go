package gateway_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// These tests cover pitfalls of Go's libraries in a public server. Each test attacks the public listener.
// services/inference tests what an engine may see and return: TestEngineHeader_heldNames,
// TestCallerHeadersFiltered, TestEngineHeadersFiltered, TestOtherUpgradesIgnored.

// encoding/json matches field names in any case and keeps the last value of a repeated name. The gateway refuses both.
func TestMisspelledAndRepeatedNamesRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for body, fault := range map[string]string{
		`{"name":"mine","kind":"agent","pools":["p"],"NAME":"victim"}`:     "extra_forbidden",
		`{"name":"mine","kind":"agent","pools":["p"],"Name":"victim"}`:     "extra_forbidden",
		`{"name":"mine","kind":"agent","pools":["p"],"name":"victim"}`:     "duplicate_key",
		`{"name":"mine","kind":"agent","pools":["p"],"na\u006de":"v"}`:     "duplicate_key",
		`{"name":"mine","kind":"agent","pools":["p"],"ﬁeet":1}`:            "extra_forbidden",
		`{"name":"mine","kind":"agent","pools":["p"],"\u212Aind":"agent"}`: "extra_forbidden", // the Kelvin sign folds to k
	} {
		got := r.do("POST", "/api/fleets", body, as(adminToken, "Content-Type", "application/json")...)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, body)
		require.Contains(t, got.body, fault, body)
	}
	got := r.do("POST", "/api/fleets/flt_1/join-tokens", `{"maxUses":1}`, as(adminToken, "Content-Type", "application/json")...)
	require.Equal(t, http.StatusUnprocessableEntity, got.status, "a camelCase name is unknown")
	for _, call := range r.all() {
		require.Equal(t, "Authenticate", call.method)
	}
}

// By default, grpc-gateway forwards Grpc-Metadata-* headers as metadata, and appends the value of
// Grpc-Metadata-Authorization to the metadata key authorization.
func TestClientHeadersNeverSetIdentity(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	two := r.do("GET", "/api/jobs/job_1", "", append(as(userToken), "Authorization", "Bearer "+adminToken)...)
	require.Equal(t, http.StatusUnauthorized, two.status, "two credentials are ambiguous")
	require.Empty(t, r.reached())
	r.do("GET", "/api/jobs/job_1", "", as(userToken,
		"Grpc-Metadata-Authorization", "Bearer "+adminToken, "grpc-metadata-x-service-caller", "forged", "X-Service-Caller", "forged",
		"X_Service_Caller", "forged", "X-User-Id", "admin", "Grpc-Metadata-X-User-Id", "admin", "X-Forwarded-For", "10.0.0.1")...)
	call := r.reached()[1]
	require.Equal(t, "GetJob", call.method)
	require.Equal(t, "operator", call.caller.Role, "the identity is the one that auth returned for the bearer")
	require.Equal(t, "127.0.0.1", call.caller.ClientAddr)
	require.Empty(t, call.md.Get("authorization"), "the bearer is not forwarded")
	require.Len(t, call.md.Get("x-service-caller"), 1)
	require.Empty(t, call.md.Get("x-user-id"))
	require.Equal(t, "job_1", call.in.(*jobsv1.GetJobRequest).GetJobId())
}

// If the gateway accepted an upgrade, the client would have an unchecked tunnel to the service behind the gateway.
func TestGatewayRefusesUpgrades(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for _, path := range []string{"/healthz", "/api/jobs/job_1", "/login", "/.well-known/jwks.json"} {
		for _, upgrade := range []string{"h2c", "websocket", "TLS/1.0", "h2c, websocket"} {
			conn := r.dial()
			_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: "+upgrade+
				"\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\nGET /admin/shutdown HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			read := bufio.NewReader(conn)
			resp, err := http.ReadResponse(read, nil)
			require.NoError(t, err)
			require.NotEqual(t, http.StatusSwitchingProtocols, resp.StatusCode, "%s %s", upgrade, path)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			_, err = read.ReadByte()
			require.ErrorIs(t, err, io.EOF, "the connection must end after one response: %s %s", upgrade, path)
		}
	}
}

// http.ServeMux passes encoded dots and slashes to the handler, and redirects requests with plain ones.
func TestTraversalPathsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for _, prefix := range []string{"/api/jobs/", "/inference/d1/v1/", "/api/blobs/", "/pages/", "/.well-known/"} {
		for _, tail := range []string{
			"../../metrics", "..%2f..%2fmetrics", "%2e%2e/metrics", "%2E%2e%2Fmetrics", "a%5cb", "a%00b", "a%0d%0ab", "./x", "..", "%2e", "%252e%252e/x", "a//b", "//a", "a/../../d2/v1/models",
		} {
			status, handler, body := r.target(prefix+tail, "Authorization: Bearer "+userToken)
			require.Contains(t, []int{400, 404}, status, prefix+tail) // target also requires that the response has no Location header
			require.Empty(t, handler, prefix+tail)
			require.Contains(t, body, `"detail":`, prefix+tail)
		}
	}
	require.Empty(t, r.all())
}
