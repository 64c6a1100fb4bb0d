package clients

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// record is one call in the record of the deployment's traffic.
type record struct {
	Model            *string `json:"requested_model"`
	Path             string  `json:"path"`
	Status           int     `json:"status"`
	Outcome          string  `json:"outcome"`
	PromptTokens     *int    `json:"prompt_tokens"`
	CompletionTokens *int    `json:"completion_tokens"`
}

// expected is what is recorded of a scenario: the outcome and the tokens.
type expected struct {
	outcome            string
	prompt, completion int
}

func records() map[string]expected {
	return map[string]expected{
		"plain": {"ok", 3, 4}, "compressed": {"ok", 3, 4}, "stream": {"ok", 3, 4}, "response": {"ok", 3, 4}, "responses": {"ok", 3, 4},
		"embedding": {"ok", 64, 0}, "audio": {"ok", 0, 0}, "missing": {"client_error", 0, 0}, "failure": {"engine_error", 0, 0},
		"final": {"engine_error", 0, 0}, "page": {"engine_error", 0, 0}, "lost": {"engine_error", 0, 0},
		"cut": {"upstream_truncated", 0, 0}, "border": {"upstream_truncated", 0, 0},
		"late": {"engine_timeout", 0, 0}, "pause": {"engine_timeout", 0, 0},
	}
}

// requireRecords checks what the deployment recorded of the scenarios that the engine has executed for each client.
func requireRecords(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop, clients int, executions map[string]int) {
	t.Helper()
	calls, want, got := 1, map[string]expected{}, map[string]expected{} // one call has read the executions
	for model, n := range executions {
		name, _, _ := strings.Cut(model, "/")
		if e, is := records()[name]; is {
			want[model] = e
		}
		calls += n
	}
	if len(want) > 2*clients {
		calls += 2 * clients // the scenarios early and model, which have no model
	}
	for _, r := range readRecords(ctx, t, s, l, calls) {
		if r.Model != nil && want[*r.Model] != (expected{}) {
			got[*r.Model] = expected{r.Outcome, value(r.PromptTokens), value(r.CompletionTokens)}
		}
	}
	require.Equal(t, want, got)
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// readRecords returns the records of n calls. A call is recorded after its response.
func readRecords(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop, n int) []record {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, testenv.StageTimeout)
	defer cancel()
	var records []record
	s.Until(ctx, fmt.Sprintf("%d calls are recorded", n), func() bool {
		records = nil
		err := l.Client.Do(ctx, http.MethodGet, "/api/model-deployments/"+l.Deployment.ID+"/traffic?limit=500", nil, &records)
		return err == nil && len(records) >= n
	})
	return records
}
