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

// expected is what is recorded of a scenario: the outcome and the tokens, which are -1 for null.
type expected struct {
	outcome            string
	prompt, completion int
}

func records() map[string]expected {
	return map[string]expected{
		"plain": {"ok", 3, 4}, "compressed": {"ok", 3, 4}, "stream": {"ok", 3, 4}, "response": {"ok", 3, 4}, "responses": {"ok", 3, 4},
		"embedding": {"ok", 64, -1}, "audio": {"ok", -1, -1}, "missing": {"client_error", -1, -1}, "failure": {"engine_error", -1, -1},
		"final": {"engine_error", -1, -1}, "page": {"engine_error", -1, -1}, "lost": {"engine_error", -1, -1},
		"cut": {"upstream_truncated", -1, -1}, "border": {"upstream_truncated", -1, -1},
		"late": {"engine_timeout", -1, -1}, "pause": {"engine_timeout", -1, -1},
	}
}

// requireRecords checks what the deployment recorded of the scenarios that the engine has executed for each client. The
// argument calls is the number of calls without a model.
func requireRecords(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop, calls int, executions map[string]int) {
	t.Helper()
	want, got := map[string]expected{}, map[string]expected{}
	for model, n := range executions {
		name, _, _ := strings.Cut(model, "/")
		if e, is := records()[name]; is {
			want[model] = e
		}
		calls += n
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
		return -1
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
