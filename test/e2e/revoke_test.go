package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// createDeploymentToken creates a deployment that has no promoted revision, and a token for it. It waits until the
// inference service accepts the token.
func createDeploymentToken(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop, name string) {
	t.Helper()
	require.NoError(t, l.Client.Post(ctx, "/api/model-deployments", map[string]string{"name": l.Name + "-" + name}, &l.Deployment))
	require.NoError(t, l.MakeToken(ctx, "ci"))
	s.Until(ctx, "the token is known", func() bool { return inferenceError(ctx, t, l) == "no_ready_revision" })
}

// inferenceError returns the error code of an inference request. Every request fails, because no revision is
// promoted.
func inferenceError(ctx context.Context, t *testing.T, l *e2eflow.Loop) string {
	t.Helper()
	a, err := l.Client.With(l.Token).Call(ctx, http.MethodGet, "/inference/"+l.Deployment.ID+"/v1/models", nil)
	require.NoError(t, err)
	var body struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal(a.Body, &body), "%s", a.Body)
	return body.Error.Code
}

// revokeToken deletes the token of the loop and returns the response.
func revokeToken(ctx context.Context, t *testing.T, l *e2eflow.Loop) (status int, body string) {
	t.Helper()
	a, err := l.Client.Call(ctx, http.MethodDelete, "/api/model-deployments/"+l.Deployment.ID+"/tokens/"+l.TokenID, nil)
	require.NoError(t, err)
	return a.Status, string(a.Body)
}

// TestTokenRevocation_ignoresDeadReplicas ends the only instance of the inference service in different ways and
// starts it again. The default lease is far longer than a revocation may take, but the first DELETE must return 204.
func TestTokenRevocation_ignoresDeadReplicas(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*testenv.StageTimeout)
	defer cancel()
	one := func(end func(p *testenv.Process)) func(*testenv.Installation) {
		return func(s *testenv.Installation) {
			p := s.Processes["inference"]
			end(p)
			p.Start()
			s.AwaitServing()
		}
	}
	ways := map[string]map[string]func(s *testenv.Installation){
		"single": {
			"ctrl-c": func(s *testenv.Installation) { interrupt(t, s); s.StartSingle() },
			"kill":   func(s *testenv.Installation) { testenv.KillAll(t, s); s.StartSingle() },
		},
		"split": {
			"ctrl-c": one(func(p *testenv.Process) { _, ok := p.Stop(testenv.StageTimeout); require.True(t, ok, p.Tail()) }),
			"kill":   one((*testenv.Process).Kill),
		},
	}
	for kind, start := range testenv.DrawnKinds(t) {
		t.Run(kind, func(t *testing.T) {
			s := start(t, testenv.Options{})
			l := s.Loop(ctx)
			for name, restart := range ways[kind] {
				t.Run(name, func(t *testing.T) {
					createDeploymentToken(ctx, t, s, l, name)
					restart(s)
					s.Until(ctx, "the token is known again", func() bool { return inferenceError(ctx, t, l) == "no_ready_revision" })
					status, body := revokeToken(ctx, t, l)
					require.Equal(t, http.StatusNoContent, status, "%s\n%s", body, s.Tail())
					require.Equal(t, "token_invalid", inferenceError(ctx, t, l))
				})
			}
		})
	}
}

// TestTokenRevocation_waitsForLeaseOfFrozenReplica freezes the only instance of the inference service. The instance
// might continue at any time, so the revocation must wait until its lease has expired. When the instance continues,
// it must reject the token.
func TestTokenRevocation_waitsForLeaseOfFrozenReplica(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	s := testenv.Split(t, testenv.Options{Env: map[string]string{"SERVICE_AUTH_LEASE": "5s"}})
	l := s.Loop(ctx)
	createDeploymentToken(ctx, t, s, l, "frozen")
	p := s.Processes["inference"]
	p.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { p.Signal(syscall.SIGCONT) })
	s.Until(ctx, "the revocation is in force", func() bool {
		status, body := revokeToken(ctx, t, l)
		if status != http.StatusNoContent {
			require.Equal(t, http.StatusBadGateway, status, body)
			require.Contains(t, body, "replica_unreached")
		}
		return status == http.StatusNoContent
	})
	p.Signal(syscall.SIGCONT)
	require.Contains(t, []string{"lease_over", "token_invalid"}, inferenceError(ctx, t, l))
	s.Until(ctx, "the replica rejects the token again", func() bool { return inferenceError(ctx, t, l) == "token_invalid" })
}
