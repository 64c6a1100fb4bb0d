package work

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What rewraps values under another key derives the place from the column's name.
func TestAnEnginesKeyIsSealedForItsColumn(t *testing.T) {
	t.Parallel()
	require.Equal(t, "work.engine_key:wrk_1", keyPlace("wrk_1"))
}
