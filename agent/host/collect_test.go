package host

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func TestTheTimeToCollectCountsOverRestarts(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ whole, away, want time.Duration }{
		"at once":                          {15 * time.Minute, 0, 15 * time.Minute},
		"a restart in between":             {15 * time.Minute, 4 * time.Minute, 11 * time.Minute},
		"a last try, just before the end":  {15 * time.Minute, 15*time.Minute - time.Second, time.Minute},
		"a last try, long after":           {15 * time.Minute, 72 * time.Hour, time.Minute},
		"a last try is no more than whole": {time.Second, time.Hour, time.Second},
		"a clock that was set back":        {15 * time.Minute, -time.Hour, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, clk := t.TempDir(), clock.NewFake(began)
			h := &Host{cfg: Config{CollectTimeout: c.whole}, deps: Deps{Clock: clk}}
			left, err := bareWork(h, executor.Key{WorkID: "w"}, dir).collectTime()
			require.NoError(t, err)
			require.Equal(t, c.whole, left)
			h.deps.Clock = clock.NewFake(began.Add(c.away))
			left, err = bareWork(h, executor.Key{WorkID: "w"}, dir).collectTime()
			require.NoError(t, err)
			require.Equal(t, c.want, left)
		})
	}
}
