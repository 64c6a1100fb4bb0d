package console

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runSize is how long a run is that the browser is measured with.
type runSize struct {
	Points int `json:"points"`
	Keys   int `json:"keys"`
	Lines  int `json:"lines"`
	Rounds int `json:"rounds"`
}

// figures are what a user waits for on the pages of a long run.
type figures struct {
	Report  float64 `json:"report_s"`
	Initial float64 `json:"initial_kb"`
	Chart   float64 `json:"chart_ms"`
	// Search includes the time of the browser's driver; SearchPage is the last search as the page measured it.
	Search     float64 `json:"search_ms"`
	SearchPage float64 `json:"search_page_ms"`
	LogEnd     float64 `json:"log_end_ms"`
	Heap       float64 `json:"heap_mb"`
	Cards      int     `json:"cards"`
	Canvases   int     `json:"canvases"`
}

// requireMeasures opens a run of 1,000,000 points, 1,500 keys and 2,500,000 lines if CONSOLE=all, and a fiftieth of it
// otherwise. It prints what a user waits for. No time is asserted, because the machine may be loaded.
func requireMeasures(ctx context.Context, t *testing.T, task consoleTask) {
	t.Helper()
	task.Size = &runSize{Points: 20_000, Keys: 30, Lines: 50_000, Rounds: 1}
	if os.Getenv("CONSOLE") == "all" {
		task.Size = &runSize{Points: 1_000_000, Keys: 1_500, Lines: 2_500_000, Rounds: 5}
	}
	var f figures
	drive(ctx, t, task, "measure.mjs", &f)
	require.LessOrEqual(t, f.Canvases, 12)
	require.Equal(t, task.Size.Keys, f.Cards)
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	t.Logf("a run of %d points, %d keys, %d lines, reported in %.0f s; medians of %d; load %s",
		task.Size.Points, task.Size.Keys, task.Size.Lines, f.Report, task.Size.Rounds, strings.Fields(string(load))[0])
	t.Logf("chart usable after %.0f ms (at most 1,500)", f.Chart)
	t.Logf("key search %.0f ms with the driver, %.0f ms in the page (at most 100)", f.Search, f.SearchPage)
	t.Logf("end of the log after %.0f ms (at most 300)", f.LogEnd)
	t.Logf("initial JavaScript %.1f KB gzipped (at most 230); heap %.0f MB; %d canvases", f.Initial, f.Heap, f.Canvases)
}
