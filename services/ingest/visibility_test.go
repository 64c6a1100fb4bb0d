package ingest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest"
)

// The row of a run holds the visibility of its project and the version of this visibility.
func TestRunRow_keepsVisibilityVersion(t *testing.T) {
	t.Parallel()
	h := open(t)
	tr := h.replica(ingest.Config{}).train()
	h.jobs.mu.Lock()
	owner := h.jobs.owners[tr.run]
	owner.Visibility, owner.VisibilityVersion = "all", 4
	h.jobs.mu.Unlock()
	tr.post("logs", "", `"chunks":["a line\n"]`)
	var visibility string
	var version int64
	require.NoError(t, h.db.Pool(ingest.Name).QueryRow(t.Context(), `SELECT visibility, visibility_version FROM run WHERE id = $1`, tr.run).
		Scan(&visibility, &version))
	require.Equal(t, "all", visibility)
	require.EqualValues(t, 4, version)
}
