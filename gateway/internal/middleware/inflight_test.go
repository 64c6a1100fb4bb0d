package middleware_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestInFlightDrainWaitsForRequests(t *testing.T) {
	t.Parallel()
	h := middleware.NewInFlight()
	require.True(t, h.Enter())
	require.True(t, h.Enter())
	h.Leave()
	h.Drain()
	require.False(t, h.Enter(), "Enter fails while draining")
	require.False(t, closed(h.Empty()))
	h.Drain()
	h.Leave()
	require.True(t, closed(h.Empty()))
	h.Drain()
}

func TestInFlightEmptyWithoutRequests(t *testing.T) {
	t.Parallel()
	h := middleware.NewInFlight()
	require.True(t, h.Enter())
	h.Leave()
	require.False(t, closed(h.Empty()), "draining has not begun")
	h.Drain()
	require.True(t, closed(h.Empty()))
}

// In every interleaving of Enter and Drain, a request is either refused or counted, and Empty waits for the counted
// requests.
func TestInFlightEnterRacesWithDrain(t *testing.T) {
	t.Parallel()
	for range 200 {
		h := middleware.NewInFlight()
		var wg sync.WaitGroup
		var mu sync.Mutex
		inside := 0
		for range 8 {
			wg.Go(func() {
				if !h.Enter() {
					return
				}
				mu.Lock()
				inside++
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				h.Leave()
			})
		}
		h.Drain()
		<-h.Empty()
		mu.Lock()
		require.Zero(t, inside)
		mu.Unlock()
		wg.Wait()
	}
}
