package httpguard

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConnections_unused(t *testing.T) {
	t.Parallel()
	const stop = time.Minute
	for name, c := range map[string]struct {
		now    time.Duration
		uses   []time.Duration // the times of the last request of each connection; 0 means that it has an open one
		want   time.Duration
		active bool
	}{
		"no connection":                  {stop, nil, 0, false},
		"used now":                       {stop, []time.Duration{0}, 0, true},
		"used long before the stop":      {stop, []time.Duration{time.Second}, minIdle, false},
		"used just before the stop":      {stop, []time.Duration{stop - 1}, minIdle, false},
		"used since the stop":            {stop + minIdle, []time.Duration{time.Second, stop + minIdle/4}, minIdle / 4, false},
		"idle since the stop":            {stop + minIdle, []time.Duration{time.Second, stop}, 0, false},
		"one idle, one used":             {stop + minIdle/2, []time.Duration{time.Second, 0}, minIdle / 2, true},
		"idle since long after the stop": {stop + 9*minIdle, []time.Duration{stop + minIdle}, 0, false},
	} {
		now := time.Duration(0)
		s := connections{open: map[*use]struct{}{}, elapsed: func() time.Duration { return now }}
		for _, use := range c.uses {
			one := &conn{}
			s.set(one, http.StateNew)
			s.set(one, http.StateActive)
			if now = use; use != 0 {
				s.set(one, http.StateIdle)
			}
		}
		now = c.now
		got, active := s.unused(stop)
		require.Equal(t, c.want, max(got, 0), name)
		require.Equal(t, c.active, active, name)
	}
}

// A stop that ends too early to wait for idle connections, for example after Ctrl-C, is not delayed by them.
func TestConnections_awaitIdle_tooLittleTime(t *testing.T) {
	t.Parallel()
	s := connections{open: map[*use]struct{}{}, elapsed: func() time.Duration { return 0 }, changed: make(chan struct{}, 1)}
	one := &conn{}
	s.set(one, http.StateNew)
	ctx, cancel := context.WithTimeout(t.Context(), minIdle-time.Millisecond)
	defer cancel()
	s.awaitIdle(ctx, 0)
	require.NoError(t, ctx.Err())

	s.set(one, http.StateActive)
	over, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	s.awaitIdle(over, 0)
	require.Error(t, over.Err(), "an open request must be awaited")
}
