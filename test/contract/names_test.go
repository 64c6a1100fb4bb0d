package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/stand"
)

// TestRulesOfNames holds what the specification says of paths and of names: everything of the API is below /api/ but
// inference and the health check, and on the wire and in the environment the neutral word stands, never the product's.
func TestRulesOfNames(t *testing.T) {
	t.Parallel()
	for _, rt := range route.Table() {
		switch {
		case strings.HasPrefix(rt.Pattern, "/api/"), rt.Pattern == "/healthz", rt.Pattern == "/inference/{deployment_id}/v1/{rest...}":
		default:
			// Pages for people, and what the RFCs put at the root.
			require.Contains(t, []string{"page", "wellknown"}, rt.Handler, rt.Pattern)
		}
		require.NotContains(t, strings.ToLower(rt.Pattern), "signalbox")
	}
	root := stand.Root(t)
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

// TestTheClientHasNoOtherWayIn: what the command line uses speaks HTTP to the API alone; it imports no generated
// client, no service and no database.
func TestTheClientHasNoOtherWayIn(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(stand.Root(t), "internal", "client", "*.go"))
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
