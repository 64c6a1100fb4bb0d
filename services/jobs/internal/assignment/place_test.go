package assignment

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Key rotation derives the context of each sealed value from the column name, so the context of the engine keys must
// not change.
func TestEngineKeySealContext(t *testing.T) {
	t.Parallel()
	require.Equal(t, "work.engine_key:wrk_1", keyPlace("wrk_1"))
}
