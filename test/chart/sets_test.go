package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSets(t *testing.T) {
	t.Parallel()
	names := sets(t)
	require.GreaterOrEqual(t, len(names), 12)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := render(t, readSet(t, name))
			require.NotEmpty(t, r.notes)
		})
	}
}
