package load

import (
	"fmt"
	"math"
	"testing"
)

const (
	// tokens and pace are the number of events of a stream and the microseconds between two of them.
	tokens, pace = 30, 100_000
	// pacedConnections is the highest number of connections of paced calls. Below it, each connection sends perConnection
	// calls a second, so that at most one in a hundred is the first of its connection, which is slower.
	pacedConnections, perConnection = 64, 100
	// firstRate, rateStep and lastRate are the rates of paced calls: the first, the factor to the next, and the last.
	firstRate, rateStep, lastRate = 300, 1.2, 40_000
	// reached is the part of a rate that must be reached for the rate to count as served.
	reached = 0.95
)

// limits returns the limits of the 99th percentile of paced calls in milliseconds.
func limits() []float64 { return []float64{1, 5, 10} }

// benchCase is a load that each server gets.
type benchCase struct {
	name string
	// peers is true if the load without a proxy shows nothing.
	peers bool
	run   func(b *testing.B, g *generator, t *target, r row)
}

// cases returns the loads of a round, in the order of the table.
func cases() (out []benchCase) {
	for _, n := range []int{1, 16, 64} {
		out = append(out, benchCase{name: connections(n), run: func(b *testing.B, g *generator, t *target, r row) {
			b.Helper()
			measureCalls(b, g, t, r, n)
		}})
	}
	for _, n := range []int{500, 1000} {
		for _, start := range []struct {
			name string
			ramp int // milliseconds
		}{{"within 100 ms", 100}, {"over a second", 1000}} {
			name := fmt.Sprintf("%d streams, started %s", n, start.name)
			out = append(out, benchCase{name: name, peers: true, run: func(b *testing.B, g *generator, t *target, r row) {
				b.Helper()
				measureStreams(b, g, t, r, n, start.ramp)
			}})
		}
	}
	return append(out, benchCase{name: fmt.Sprintf("paced calls, up to %d connections", pacedConnections), peers: true, run: measurePaced})
}

func connections(n int) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}

// measureCalls sends calls one after the other on each connection.
func measureCalls(b *testing.B, g *generator, t *target, r row, conns int) {
	b.Helper()
	before := t.databaseTime(b)
	got := g.run(b, t, "closed", "-c", fmt.Sprint(conns), "-sec", fmt.Sprint(g.seconds))
	r.add(callRate, got["rps"])
	r.add(callMedian, got["p50_ms"])
	r.add(callTail, got["p99_ms"])
	r.add(failed, got["errs"])
	if len(t.pids) == 0 {
		return
	}
	each := got["cpu_s/10k"] * 100 // microseconds
	r.add(callCPU, each)
	if t.database != 0 {
		spent := t.databaseTime(b) - before
		r.add(callCPUAll, each+float64(spent.Microseconds())/(got["rps"]*float64(g.seconds)))
	}
	r.add(memory, got["rss_MiB"])
}

// measureStreams opens streams within the milliseconds of ramp and reads them to their end.
func measureStreams(b *testing.B, g *generator, t *target, r row, streams, ramp int) {
	b.Helper()
	got := g.run(b, t, "stream", "-c", fmt.Sprint(streams), "-ramp_ms", fmt.Sprint(ramp),
		"-tokens", fmt.Sprint(tokens), "-pace_us", fmt.Sprint(pace))
	r.add(firstMedian, got["ttfb_p50"])
	r.add(firstTail, got["ttfb_p99"])
	r.add(eventCPU, got["cpu_us/event"])
	r.add(memory, got["rss_MiB"])
	r.add(cut, got["errs"])
}

// measurePaced sends calls at rising rates, each for a second, and stores the highest rate at which the 99th percentile was
// within each limit. A call is sent at its time only if its connection is free then, so a server that is too slow does not
// reach the rate. Two rates in a row that are not reached end the search, because one alone may be an accident.
func measurePaced(b *testing.B, g *generator, t *target, r row) {
	b.Helper()
	best := map[float64]float64{}
	for rate, missed := float64(firstRate), 0; rate <= lastRate && missed < 2; rate *= rateStep {
		conns := min(math.Ceil(rate/perConnection), pacedConnections)
		got := g.run(b, t, "rate", "-c", fmt.Sprint(conns), "-sec", "1", "-rps", fmt.Sprint(math.Round(rate)))
		// Each connection waits for the time of the next call before it ends, so the generator divides the calls of a
		// second by a longer time.
		served := got["rps"] * (1 + conns/rate)
		if served < reached*rate || got["errs"] > 0 {
			missed++
			continue
		}
		missed = 0
		for _, limit := range limits() {
			if got["p99_ms"] <= limit {
				best[limit] = served
			}
		}
	}
	for _, limit := range limits() {
		r.add(rateAt(limit), best[limit])
	}
}
