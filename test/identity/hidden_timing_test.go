package identity

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/draw"
)

const (
	// visibleDifference is the smallest difference between two medians that a caller could use.
	visibleDifference = 100 * time.Microsecond
	// chance is the accepted probability that one measurement finds a difference on any route by chance.
	chance = 0.001
	// samplesPerKind is how often each of the two requests of a route is sent.
	samplesPerKind = 240
)

// pairSamples holds the durations of requests for a hidden object, which the caller may not see, and for an absent
// one.
type pairSamples struct{ hidden, absent []time.Duration }

// differ reports whether a caller could tell the two kinds apart. The parameter routes is the number of routes that
// are measured.
func (s pairSamples) differ(routes int) bool {
	difference := (Median(s.hidden) - Median(s.absent)).Abs()
	return difference > visibleDifference && RankSum(s.hidden, s.absent) < chance/float64(routes)
}

func (s pairSamples) String() string {
	return fmt.Sprintf("2 x %d: hidden %s, absent %s, p %.5f", len(s.hidden), Median(s.hidden), Median(s.absent), RankSum(s.hidden, s.absent))
}

// hiddenRows returns the rows whose rule is that a hidden object looks like an absent one.
func hiddenRows() []routes.Row {
	var rows []routes.Row
	for _, r := range routes.Load().Rows {
		rule := routes.Load().Rules[r.Rule]
		if rule["hidden"] == rule["absent"] && rule["hidden"] != "-" && r.Object() != "" {
			rows = append(rows, r)
		}
	}
	return rows
}

// sample sends the two requests of a route in pairs, and reverses their order after each pair.
func (w *harness) sample(ctx context.Context, t *testing.T, r routes.Row) pairSamples {
	t.Helper()
	cells := []cell{{Row: r, relation: "hidden"}, {Row: r, relation: "absent"}}
	prepared := []objects{w.prepare(ctx, t, cells[0]), w.prepare(ctx, t, cells[1])}
	var s pairSamples
	into := []*[]time.Duration{&s.hidden, &s.absent}
	const warmUp = 10
	for n := range warmUp + samplesPerKind {
		for k := range cells {
			k = (k + n) % len(cells)
			a, _ := w.sendPrepared(ctx, t, cells[k], prepared[k])
			require.GreaterOrEqual(t, a.status, 400, "%s: %s", r.Name(), a.body)
			if n >= warmUp {
				*into[k] = append(*into[k], a.took)
			}
		}
	}
	return s
}

// timedRoutes is the number of routes that `make test` measures.
const timedRoutes = 5

// requireSameTimes measures the routes that return the same error for a hidden object and for an absent one. The time
// of the response must not show which of the two it is.
func (w *harness) requireSameTimes(t *testing.T) {
	t.Helper()
	all := hiddenRows()
	require.Greater(t, len(all), 100)
	rows := draw.Some(draw.New(t), timedRoutes, all, routes.Row.Name)
	for _, r := range rows {
		t.Run(r.Name(), func(t *testing.T) {
			first := w.sample(t.Context(), t, r)
			t.Log(first)
			if first.differ(len(all)) {
				second := w.sample(t.Context(), t, r)
				assert.False(t, second.differ(len(all)), "the response times for a hidden and for an absent object differ in both measurements: %s; %s", first, second)
			}
		})
	}
	t.Logf("measured %d of %d routes", len(rows), len(all))
}

// TestPairSamples_differ compares samples whose difference is known.
func TestPairSamples_differ(t *testing.T) {
	t.Parallel()
	series := func(base time.Duration) (list []time.Duration) {
		for n := range samplesPerKind {
			list = append(list, base+time.Duration(n%20)*10*time.Microsecond)
		}
		return list
	}
	const routes = 200
	require.False(t, pairSamples{series(2 * time.Millisecond), series(2 * time.Millisecond)}.differ(routes))
	require.False(t, pairSamples{series(2 * time.Millisecond), series(2080 * time.Microsecond)}.differ(routes), "a difference below visibleDifference must not count")
	require.True(t, pairSamples{series(2 * time.Millisecond), series(2150 * time.Microsecond)}.differ(routes))
}
