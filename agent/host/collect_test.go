package host

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func TestWork_collectTime_acrossRestarts(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ whole, away, want time.Duration }{
		"no restart":                      {15 * time.Minute, 0, 15 * time.Minute},
		"restart":                         {15 * time.Minute, 4 * time.Minute, 11 * time.Minute},
		"last try just before the end":    {15 * time.Minute, 15*time.Minute - time.Second, time.Minute},
		"last try long after the end":     {15 * time.Minute, 72 * time.Hour, time.Minute},
		"last try within the whole limit": {time.Second, time.Hour, time.Second},
		"clock set back":                  {15 * time.Minute, -time.Hour, 15 * time.Minute},
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
