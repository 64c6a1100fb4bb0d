package console

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// walk is what the browser saw on one journey. Faults are violations of the policy, requests to other hosts, and errors
// that the journey does not expect.
type walk struct {
	Name, Failed string
	Faults, Said []string
	Seconds      float64
}

// firstJourney is walked in every test.
const firstJourney = "find"

// consoleJourneys are the other files of the folder journey, which describe them.
func consoleJourneys() []string {
	return []string{"first", "live", "runs", "tabs", "compare", "serve", "playground", "share", "hardware", "phone", "submit", "untrusted", slurmJourney}
}

// requireJourneys walks journeys of users through the console: the first and one that the seed selects, all in a long test,
// those and the demo for make console-test, or those that JOURNEYS names.
func requireJourneys(ctx context.Context, t *testing.T, s *testenv.Installation, task consoleTask) {
	t.Helper()
	task.Journeys = append([]string{firstJourney}, draw.Some(draw.New(t), 1, consoleJourneys(), draw.Itself)...)
	if os.Getenv("CONSOLE") == "all" {
		task.Journeys = append(task.Journeys, demoJourney)
	}
	if only := os.Getenv("JOURNEYS"); only != "" {
		task.Journeys = strings.Split(only, ",")
	}
	if slices.Contains(task.Journeys, demoJourney) {
		task.IDs["demo"], task.IDs["demoPassword"] = startDemo(ctx, t, s.FreeAddress())
	}
	if slices.Contains(task.Journeys, slurmJourney) {
		maps.Copy(task.IDs, startSlurm(ctx, t, s, task))
	}
	task.IDs["link"] = s.SignInLink(ctx)
	task.IDs["signalbox"] = testenv.Bin(t, "signalbox")
	var walks []walk
	drive(ctx, t, task, "journeys.mjs", &walks)
	require.Len(t, walks, len(task.Journeys))
	for _, w := range walks {
		t.Run(w.Name, func(t *testing.T) {
			t.Logf("%.1f s %s", w.Seconds, strings.Join(w.Said, "; "))
			require.Empty(t, w.Failed)
			require.Empty(t, w.Faults)
		})
	}
}
