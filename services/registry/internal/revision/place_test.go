package revision

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Key rotation derives the context of each encrypted value from the names of the table and the column, so the result
// of keyPlace must not change.
func TestEngineKeySealContext(t *testing.T) {
	t.Parallel()
	require.Equal(t, "revision.api_key:rev_1", keyPlace("rev_1"))
}
