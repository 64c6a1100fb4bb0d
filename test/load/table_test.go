package load

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names of the servers, in the order of the table.
const (
	engineName   = "engine"
	nginxName    = "nginx"
	standardName = "net/http"
	beforeName   = "before"
	ownName      = "signalbox"
)

// measure is the name of a figure in the table.
type measure string

const (
	callRate    measure = "calls/s"
	callMedian  measure = "p50 ms"
	callTail    measure = "p99 ms"
	addedMedian measure = "added p50 ms"
	addedTail   measure = "added p99 ms"
	callCPU     measure = "CPU us a call"
	callCPUAll  measure = "CPU us a call, with Postgres"
	firstMedian measure = "first event, p50 ms"
	firstTail   measure = "first event, p99 ms"
	eventCPU    measure = "CPU us an event"
	memory      measure = "memory MiB"
	failed      measure = "failed"
	cut         measure = "streams cut"
)

// measures returns all measures in the order of the table.
func measures() []measure {
	list := []measure{callRate, callMedian, callTail, addedMedian, addedTail, callCPU, callCPUAll, firstMedian, firstTail, eventCPU, memory, failed, cut}
	for _, limit := range limits() {
		list = append(list, rateAt(limit))
	}
	return list
}

// rateAt is the rate of calls at a limit of the 99th percentile in milliseconds.
func rateAt(limit float64) measure { return measure(fmt.Sprintf("calls/s, p99 up to %g ms", limit)) }

// row holds the values of each round by measure, of one server under one load.
type row map[measure][]float64

// add adds the value of a round.
func (r row) add(m measure, v float64) { r[m] = append(r[m], v) }

// median returns the median of a measure, or NaN if it was not measured.
func (r row) median(m measure) float64 {
	if len(r[m]) == 0 {
		return math.NaN()
	}
	return median(slices.Clone(r[m]))
}

// figures holds the rows by load and server.
type figures map[string]map[string]row

// row returns the row of a server under a load.
func (f figures) row(name, server string) row {
	if f[name] == nil {
		f[name] = map[string]row{}
	}
	if f[name][server] == nil {
		f[name][server] = row{}
	}
	return f[name][server]
}

// addDelays adds, for the last round, by how much each proxy makes calls slower than without a proxy.
func (f figures) addDelays(name string) {
	for _, of := range []struct{ whole, added measure }{{callMedian, addedMedian}, {callTail, addedTail}} {
		direct := f.row(name, engineName)[of.whole]
		if len(direct) == 0 {
			continue
		}
		last := len(direct) - 1
		for server, r := range f[name] {
			if server != engineName {
				r.add(of.added, r[of.whole][last]-direct[last])
			}
		}
	}
}

// comparison is a column with the figures of a server divided by those of another.
type comparison struct{ server, by string }

func (c comparison) title() string { return c.server + " / " + c.by }

// of returns the ratio of the medians. The CPU time of a server that has no database is compared with the whole CPU time.
func (c comparison) of(rows map[string]row, m measure) string {
	by := rows[c.by].median(m)
	if m == callCPUAll && math.IsNaN(by) {
		by = rows[c.by].median(callCPU)
	}
	if math.IsNaN(by) || by <= 0 {
		return number(math.NaN())
	}
	return number(rows[c.server].median(m) / by)
}

// comparisons returns the columns with ratios: of each other proxy to nginx, and to the earlier version if it was measured.
func comparisons(servers []string) []comparison {
	var out []comparison
	for _, server := range servers {
		if server != engineName && server != nginxName {
			out = append(out, comparison{server: server, by: nginxName})
		}
	}
	if slices.Contains(servers, beforeName) {
		out = append(out, comparison{server: ownName, by: beforeName})
	}
	return out
}

// table returns the medians of all loads, and ratios.
func (f figures) table(servers []string) string {
	ratios := comparisons(servers)
	titles := slices.Clone(servers)
	for _, c := range ratios {
		titles = append(titles, c.title())
	}
	var out strings.Builder
	line := func(name, figure string, columns []string) {
		fmt.Fprintf(&out, "%-38s%-30s", name, figure)
		for i, text := range columns {
			fmt.Fprintf(&out, "%*s", max(len(titles[i]), 9)+2, text)
		}
		out.WriteString("\n")
	}
	line("load", "median", titles)
	for _, c := range cases() {
		name, first := c.name, c.name
		for _, m := range measures() {
			if math.IsNaN(f.row(name, ownName).median(m)) {
				continue
			}
			var columns []string
			for _, server := range servers {
				columns = append(columns, number(f.row(name, server).median(m)))
			}
			for _, r := range ratios {
				columns = append(columns, r.of(f[name], m))
			}
			line(first, string(m), columns)
			first = ""
		}
	}
	return out.String()
}

// number returns a figure with three digits, or - if it does not exist.
func number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

func TestFigures_table(t *testing.T) {
	t.Parallel()
	f := figures{}
	servers := []string{engineName, nginxName, standardName, beforeName, ownName}
	for _, round := range []float64{3, 1, 2} {
		for i, name := range servers {
			r := f.row("1 connection", name)
			r.add(callRate, 1000/float64(i+1))
			r.add(callMedian, round*float64(i+1))
		}
		f.addDelays("1 connection")
		f.row("1 connection", nginxName).add(callCPU, 20)
		f.row("1 connection", ownName).add(callCPUAll, 30)
	}
	var got []string
	for line := range strings.Lines(f.table(servers)) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"load median engine nginx net/http before signalbox net/http / nginx before / nginx signalbox / nginx signalbox / before",
		"1 connection calls/s 1000 500 333 250 200 0.667 0.5 0.4 0.8",
		"p50 ms 2 4 6 8 10 1.5 2 2.5 1.25",
		"added p50 ms - 2 4 6 8 2 3 4 1.33",
		"CPU us a call, with Postgres - - - - 30 - - 1.5 -",
	}, got)
}
