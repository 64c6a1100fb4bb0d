package revision

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What rewraps values under another key derives the place from the column's name.
func TestAnEnginesKeyIsSealedForItsColumn(t *testing.T) {
	t.Parallel()
	require.Equal(t, "revision.api_key:rev_1", keyPlace("rev_1"))
}
