package freeport

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLock_heldUntilTestEnds(t *testing.T) {
	// The test is not parallel, because a process that another test starts has the locks open until it executes its
	// program.
	var ports []string
	t.Run("use", func(t *testing.T) {
		ports = Lock(t, 3)
		for _, port := range ports {
			require.False(t, lock(t, port), port)
		}
	})
	for _, port := range ports {
		require.True(t, lock(t, port), port)
	}
}
