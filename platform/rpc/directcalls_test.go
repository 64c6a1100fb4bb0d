package rpc

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// goroutine returns the first words of the caller's stack, "goroutine" and its number.
func goroutine() string {
	stack := make([]byte, 64)
	name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), " [")
	return name
}

func TestDirectCalls_start_reusesWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, on := newDirectCalls(), make(chan string)
		workers := map[string]bool{}
		for range 100 {
			require.True(t, c.enter())
			c.start(func() { defer c.leave(); on <- goroutine() })
			workers[<-on] = true
			synctest.Wait() // until the worker rests
		}
		require.Len(t, workers, 1)
		c.close()
		c.wait()
	})
}

// synctest.Test fails if a goroutine is left, so this test also shows that the workers end.
func TestDirectCalls_wait_endsWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, release := newDirectCalls(), make(chan struct{})
		for range 3 * maxResting {
			require.True(t, c.enter())
			c.start(func() { defer c.leave(); <-release })
		}
		close(release)
		synctest.Wait()
		require.EqualValues(t, maxResting, c.resting.Load(), "the other workers end with their calls")
		last, over := make(chan struct{}), make(chan struct{})
		require.True(t, c.enter())
		c.start(func() { defer c.leave(); <-last })
		c.close()
		require.False(t, c.enter())
		go func() { defer close(over); c.wait() }()
		synctest.Wait()
		select {
		case <-over:
			require.Fail(t, "wait did not wait for the last call")
		default:
		}
		close(last)
		<-over
	})
}
