package identity

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// cheapHashing returns settings that make password hashes cheap, because these tests do not test hashing.
func cheapHashing() map[string]string {
	return map[string]string{"SERVICE_AUTH_HASH_MEMORY_KIB": "64", "SERVICE_AUTH_HASH_ITERATIONS": "1"}
}

// `make test` tests one in rowShare rows of the table.
const rowShare = 10

// TestAuthorization checks the cells of the authorization table against a running installation.
func TestAuthorization(t *testing.T) {
	optionsFile := filepath.Join(t.TempDir(), "changed.json")
	env := cheapHashing()
	env["WIDEN"] = optionsFile // read only by the changed signalboxd
	s := testenv.Single(t, testenv.Options{Env: env})
	w := newHarness(t.Context(), t, s)
	t.Run("credentials", func(t *testing.T) { w.requireCredentialPlaces(t.Context(), t) })
	t.Run("routes", func(t *testing.T) { w.routes(t.Context(), t) })
	t.Run("times", func(t *testing.T) { w.requireSameTimes(t) })
	t.Run("archived project", func(t *testing.T) { w.requireArchivedRejectsWrites(t.Context(), t) })
	t.Run("widened options", func(t *testing.T) { w.requireCellsFail(t.Context(), t, optionsFile) })
}

func (w *harness) routes(ctx context.Context, t *testing.T) {
	t.Helper()
	requests := 0
	rows := draw.Routes(t, rowShare, routes.Load().Rows, routes.Row.Name, served)
	for _, r := range rows {
		t.Run(r.Name(), func(t *testing.T) {
			results := map[string]string{}
			for _, c := range cells(r) {
				a, object := w.sendCell(ctx, t, c)
				assert.Empty(t, w.fault(c, a))
				results[c.relation] = normalized(a, object)
				requests++
			}
			rule := routes.Load().Rules[r.Rule]
			if want := rule["hidden"]; want == rule["absent"] && results["absent"] != "" {
				assert.Equal(t, results["absent"], results["hidden"], "a hidden object must look like a missing one")
			}
		})
	}
	require.GreaterOrEqual(t, requests, len(rows), "every row must have a cell")
	if draw.Whole() {
		require.Greater(t, requests, 1000)
	}
	t.Logf("sent %d requests", requests)
}
