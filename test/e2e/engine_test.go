package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// serveWithSecondEngine serves the run's Hugging Face export with mlx-lm. The platform has no driver for mlx-lm, so
// the deployment contains the command that starts mlx-lm. In long runs, the export is also served by the engine that the
// platform chooses for it, transformers, whose environment has 4 GB.
func serveWithSecondEngine(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop) {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(testenv.Root(t), "agent", "engine", "locks", "mlxlm.lock"))
	require.NoError(t, err)
	export, err := l.FindArtifact(ctx, "hf_export", "safetensors")
	require.NoError(t, err)
	version, err := l.Register(ctx, export)
	require.NoError(t, err)
	engines := map[string]map[string]any{"mlx": {
		"engine": "command", "requirements": string(lock),
		"command": []string{"python", "-m", "mlx_lm", "server", "--model", "default", "--host", "{host}", "--port", "{port}"},
	}}
	if draw.Whole() {
		engines["transformers"] = map[string]any{}
	}
	for name, serving := range engines {
		second := *l
		require.NoError(t, second.Deploy(ctx, l.Name+"-"+name, version, serving))
		require.NoError(t, second.PromoteTooEarly(ctx))
		require.NoError(t, second.AwaitReady(ctx), s.Tail())
		require.NoError(t, second.Promote(ctx))
		require.NoError(t, second.MakeToken(ctx, "application"))
		q := testenv.SolvedQuestion(ctx, t, l)
		answer, err := second.Chat(ctx, q.Question)
		require.NoError(t, err, s.Tail())
		require.Equal(t, q.Expected, answer, name)
		streamed, events, err := second.ChatStream(ctx, q.Question)
		require.NoError(t, err)
		require.Equal(t, q.Expected, streamed, name)
		require.Positive(t, events)
	}
}
