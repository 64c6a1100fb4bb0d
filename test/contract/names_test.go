package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestPathAndEnvironmentNames checks the specification's rules for names. All paths are below /api/, except those of
// inference, the health check, the HTML pages, and documents whose path an RFC defines. No path, header or
// environment variable contains the product's name.
func TestPathAndEnvironmentNames(t *testing.T) {
	t.Parallel()
	for _, rt := range route.Table() {
		switch {
		case strings.HasPrefix(rt.Pattern, "/api/"), rt.Pattern == "/healthz", rt.Pattern == "/inference/{deployment_id}/v1/{rest...}":
		default:
			// These routes are HTML pages, or documents whose path is defined by an RFC.
			require.Contains(t, []string{"page", "wellknown"}, rt.Handler, rt.Pattern)
		}
		require.NotContains(t, strings.ToLower(rt.Pattern), "signalbox")
	}
	root := testenv.Root(t)
	for _, dir := range []string{"cmd", "services", "gateway", "agent", "internal", "platform", "sdk/python/src", "deploy/env"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			require.NotContains(t, string(raw), "SIGNALBOX_", path)
			require.NotContains(t, string(raw), "X-Signalbox", path)
			return err
		}))
	}
}

// TestClientUsesOnlyHTTPAPI checks that the client of the command line uses only the HTTP API: it must not
// import a generated client, a service or a database.
func TestClientUsesOnlyHTTPAPI(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(testenv.Root(t), "internal", "client", "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, other := range []string{"signalbox/gen/", "signalbox/services/", "pgx"} {
			require.NotContains(t, string(raw), other, f)
		}
	}
}
