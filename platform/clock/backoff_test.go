package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff_Wait_doublesUpToMax(t *testing.T) {
	t.Parallel()
	p := Backoff{Base: 100 * time.Millisecond, Max: time.Second, Jitter: func() float64 { return 0.5 }}
	for _, c := range []struct {
		try  int
		want time.Duration
	}{
		{-1, 75 * time.Millisecond},
		{0, 75 * time.Millisecond},
		{1, 150 * time.Millisecond},
		{2, 300 * time.Millisecond},
		{4, 750 * time.Millisecond},
		{1 << 30, 750 * time.Millisecond},
	} {
		require.Equal(t, c.want, p.Wait(c.try), "try %d", c.try)
	}
}

func TestBackoff_Wait_jitterRange(t *testing.T) {
	t.Parallel()
	for _, chance := range []float64{0, 0.25, 0.999} {
		got := Backoff{Base: time.Second, Max: time.Minute, Jitter: func() float64 { return chance }}.Wait(0)
		require.GreaterOrEqual(t, got, 500*time.Millisecond)
		require.Less(t, got, time.Second)
	}
}
