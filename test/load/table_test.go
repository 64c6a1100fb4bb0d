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
	ownName      = "signalbox"
)

func servers() []string { return []string{engineName, nginxName, standardName, ownName} }

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
		for _, server := range servers()[1:] {
			r := f.row(name, server)
			r.add(of.added, r[of.whole][last]-direct[last])
		}
	}
}

// table returns the medians of the loads and their ratios to those of nginx.
func (f figures) table(loads []string) string {
	var out strings.Builder
	line := func(name, figure string, columns ...string) {
		fmt.Fprintf(&out, "%-36s%-30s", name, figure)
		for _, c := range columns {
			fmt.Fprintf(&out, "%*s", max(len(c), 9)+2, c)
		}
		out.WriteString("\n")
	}
	ofStandard, ofOwn := standardName+" / "+nginxName, ownName+" / "+nginxName
	line("load", "median", append(servers(), ofStandard, ofOwn)...)
	for _, name := range loads {
		first := name
		for _, m := range measures() {
			nginx := f.row(name, nginxName).median(m)
			if m == callCPUAll {
				nginx = f.row(name, nginxName).median(callCPU) // nginx has no database
			}
			columns := make([]string, 0, len(servers()))
			for _, server := range servers() {
				columns = append(columns, number(f.row(name, server).median(m)))
			}
			own := f.row(name, ownName).median(m)
			if math.IsNaN(own) {
				continue
			}
			line(first, string(m), append(columns, fmt.Sprintf("%*s", len(ofStandard), ratio(f.row(name, standardName).median(m), nginx)),
				fmt.Sprintf("%*s", len(ofOwn), ratio(own, nginx)))...)
			first = ""
		}
	}
	return out.String()
}

// ratio returns a figure divided by that of nginx, or - if that is not a positive number.
func ratio(v, nginx float64) string {
	if math.IsNaN(nginx) || nginx <= 0 {
		return "-"
	}
	return number(v / nginx)
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
	for _, round := range []float64{3, 1, 2} {
		for i, name := range servers() {
			r := f.row("1 connection", name)
			r.add(callRate, 1000/float64(i+1))
			r.add(callMedian, round*float64(i+1))
		}
		f.addDelays("1 connection")
		f.row("1 connection", nginxName).add(callCPU, 20)
		f.row("1 connection", ownName).add(callCPUAll, 30)
	}
	var got []string
	for line := range strings.Lines(f.table([]string{"1 connection"})) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"load median engine nginx net/http signalbox net/http / nginx signalbox / nginx",
		"1 connection calls/s 1000 500 333 250 0.667 0.5",
		"p50 ms 2 4 6 8 1.5 2",
		"added p50 ms - 2 4 6 2 3",
		"CPU us a call, with Postgres - - - 30 - 1.5",
	}, got)
}
