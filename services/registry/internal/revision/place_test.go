package revision

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The rewrap command derives the key's context from the table and column name, so keyPlace must match that form.
func TestEngineKeySealContext(t *testing.T) {
	t.Parallel()
	require.Equal(t, "revision.api_key:rev_1", keyPlace("rev_1"))
}
