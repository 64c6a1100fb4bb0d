package clients

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
)

// record is one call in the record of the deployment's traffic.
type record struct {
	Model            *string `json:"model"`
	Path             string  `json:"path"`
	Status           int     `json:"status"`
	Outcome          string  `json:"outcome"`
	PromptTokens     *int    `json:"prompt_tokens"`
	CompletionTokens *int    `json:"completion_tokens"`
}

// requireRecords checks what the deployment recorded of the scenarios. The argument calls is the number of all calls.
func requireRecords(ctx context.Context, t *testing.T, l *e2eflow.Loop, clients, calls int) {
	t.Helper()
	want := map[string]string{
		"answer": "ok", "compressed": "ok", "stream": "ok", "response": "ok", "responses": "ok", "embedding": "ok", "audio": "ok",
		"cut": "upstream_truncated", "border": "upstream_truncated", "failure": "engine_error", "final": "engine_error", "page": "engine_error",
		"missing": "client_error", "lost": "engine_error", "late": "engine_timeout", "pause": "engine_timeout",
	}
	counted := map[string][2]int{
		"answer": {3, 4}, "compressed": {3, 4}, "stream": {3, 4}, "response": {3, 4}, "responses": {3, 4}, "embedding": {64, 0},
	}
	seen := map[string]int{}
	for _, r := range readRecords(ctx, t, l, calls) {
		if r.Model == nil {
			continue
		}
		name, _, _ := strings.Cut(*r.Model, "/")
		if outcome, is := want[name]; is {
			require.Equal(t, outcome, r.Outcome, *r.Model)
			seen[name]++
		}
		if tokens, is := counted[name]; is {
			require.NotNil(t, r.PromptTokens, *r.Model)
			require.Equal(t, tokens[0], *r.PromptTokens, *r.Model)
			if tokens[1] > 0 {
				require.NotNil(t, r.CompletionTokens, *r.Model)
				require.Equal(t, tokens[1], *r.CompletionTokens, *r.Model)
			}
		}
	}
	for name := range want {
		require.Equal(t, clients, seen[name], "each client must have one call of the scenario "+name)
	}
}

// readRecords returns the records of n calls. A call is recorded after its response.
func readRecords(ctx context.Context, t *testing.T, l *e2eflow.Loop, n int) []record {
	t.Helper()
	_, err := l.AwaitTraffic(ctx, n)
	require.NoError(t, err)
	var records []record
	require.NoError(t, l.Client.Do(ctx, http.MethodGet, "/api/model-deployments/"+l.Deployment.ID+"/traffic?limit=500", nil, &records))
	return records
}
