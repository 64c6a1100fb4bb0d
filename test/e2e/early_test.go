package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// sendFirst is a Python program that sends requests with large bodies and prints the statuses of the responses. As all
// clients that use urllib, it sends the whole body before it reads the response.
const sendFirst = `
import json, sys, urllib.error, urllib.request
for method, url, token, size in json.load(sys.stdin):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + token}
    try:
        print(urllib.request.urlopen(urllib.request.Request(url, b" " * size, headers, method=method)).status)
    except urllib.error.HTTPError as err:
        print(err.code)
    except OSError as err:
        print(err)
`

// earlyRefusals sends large bodies to routes that refuse them before they have read them, and requires that the client
// gets the response.
func earlyRefusals(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	const large = 9_000_000
	requests := [][]any{}
	want := []string{}
	add := func(status int, method, path, token string, size int) {
		requests = append(requests, []any{method, s.URL + path, token, size})
		want = append(want, fmt.Sprint(status))
	}
	for _, rt := range drawnRoutes(t) {
		if rt.Credential == "user" && rt.Method != http.MethodGet && rt.Method != "*" {
			add(http.StatusUnauthorized, rt.Method, fillPath(rt, ""), "nonsense", large)
		}
	}
	for _, size := range []int{1<<20 + 1, large, 20_000_000} {
		add(http.StatusUnauthorized, http.MethodPost, "/api/jobs", "nonsense", size)
		add(http.StatusUnauthorized, http.MethodPost, "/api/ingest/metrics", c.access, size)
		add(http.StatusRequestEntityTooLarge, http.MethodPost, "/api/ingest/logs", c.ingest, size)
		add(http.StatusNotFound, http.MethodPost, "/api/ingest/nope", c.ingest, size)
		add(http.StatusMethodNotAllowed, http.MethodPut, "/api/ingest/metrics", c.ingest, size)
		add(http.StatusForbidden, http.MethodPut, "/api/blobs/runs/x?expires=1&size=1&sha256=x&signature=x", "nonsense", size)
		add(http.StatusUnauthorized, http.MethodPost, "/inference/"+c.deploymentID+"/v1/completions", c.access, size)
	}
	add(http.StatusRequestEntityTooLarge, http.MethodPost, "/api/jobs", c.access, large)
	add(http.StatusRequestEntityTooLarge, http.MethodPost, "/api/ingest/metrics", c.ingest, large)
	given, err := json.Marshal(requests)
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, "python3", "-c", sendFirst)
	cmd.Stdin = bytes.NewReader(given)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, got, len(want))
	for i, status := range got {
		require.Equal(t, want[i], status, "%v", requests[i])
	}
}
