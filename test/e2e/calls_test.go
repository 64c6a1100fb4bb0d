package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// requireCalls requires that the services have called exactly those that the Helm chart lists, after a training, a
// deployment, a chat and a page of the audit log. The chart's network policies permit only these calls.
func requireCalls(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testenv.Root(t), "deploy", "helm", "signalbox", "files", "services.yaml"))
	require.NoError(t, err)
	var table map[string]struct{ Calls, Relays []string }
	require.NoError(t, yaml.Unmarshal(raw, &table))
	var want []string
	for name, of := range table {
		for _, to := range of.Calls {
			want = append(want, name+" "+to+" grpc")
		}
		for _, to := range of.Relays {
			want = append(want, name+" "+to+" http")
		}
	}
	slices.Sort(want)
	require.NoError(t, l.Client.Get(ctx, auditPath, nil, nil)) // auth reads the log of every service
	var seen []string
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		// The gateway closes idle connections of its relays, so use them again.
		for method, path := range map[string]string{http.MethodPost: "/api/ingest/metrics", http.MethodGet: "/inference/" + l.Deployment.ID + "/v1/models"} {
			_, err := l.Client.With(l.Token).Call(ctx, method, path, nil)
			require.NoError(c, err)
		}
		seen = append(seen, s.Calls()...)
		slices.Sort(seen)
		seen = slices.Compact(seen)
		require.Equal(c, want, seen)
	}, testenv.StageTimeout, 10*time.Millisecond)
}
