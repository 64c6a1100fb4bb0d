package e2e

import (
	"context"
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
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, want, s.Calls()) }, testenv.StageTimeout, 10*time.Millisecond)
}
