package load

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// part is a part of a measurement with the CPU time that it has used.
type part struct {
	name string
	cpu  time.Duration
	// periods is the number of periods of the part's quota in which it had work, and held the number of those in which it
	// has used up its quota. Both are 0 without a quota.
	periods, held int
}

// spending is the CPU time that the machine and the parts of a measurement have used.
type spending struct {
	at           time.Time
	parts        []part
	busy, stolen time.Duration // of the machine; stolen by other virtual machines
}

// spent returns what was used so far. All parts but the given replicas are those without a quota.
func (s *scaled) spent(replicas ...*backend) spending {
	s.b.Helper()
	out := spending{at: time.Now()}
	others := part{name: "other services"}
	limited := map[string]bool{}
	for _, r := range replicas {
		p := part{name: r.process.Name, cpu: cpuTime(r.process.PID(), false)}
		p.periods, p.held = s.quotas.periods(r.process)
		out.parts, limited[p.name] = append(out.parts, p), true
	}
	for name, p := range s.Processes {
		if !limited[name] {
			others.cpu += cpuTime(p.PID(), false)
		}
	}
	out.parts = append(out.parts,
		part{name: "Postgres", cpu: s.database.databaseTime(s.b)},
		part{name: "load generator", cpu: cpuTime(os.Getpid(), false)},
		part{name: "engine", cpu: cpuTimeOf(s.b, "mockengine")}, others)
	out.busy, out.stolen = machineTime(s.b)
	return out
}

// since returns what was used since an earlier moment, in cores.
func (s spending) since(before spending) string {
	seconds := s.at.Sub(before.at).Seconds()
	cores := func(now, then time.Duration) float64 { return (now - then).Seconds() / seconds }
	var out strings.Builder
	rest := cores(s.busy, before.busy)
	for i, p := range s.parts {
		used := cores(p.cpu, before.parts[i].cpu)
		rest -= used
		fmt.Fprintf(&out, "%s %.2f", p.name, used)
		if p.periods > 0 {
			fmt.Fprintf(&out, " (held back in %d of %d periods)", p.held-before.parts[i].held, p.periods-before.parts[i].periods)
		}
		out.WriteString(", ")
	}
	fmt.Fprintf(&out, "the rest %.2f; %.2f of %d cores busy, %.2f stolen", max(0, rest), cores(s.busy, before.busy), runtime.NumCPU(),
		cores(s.stolen, before.stolen))
	return out.String()
}

// cpuTimeOf returns the CPU time of all processes with the given name.
func cpuTimeOf(b *testing.B, name string) (total time.Duration) {
	b.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/comm")
	require.NoError(b, err)
	for _, path := range all {
		got, err := os.ReadFile(path)
		pid, notNumber := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && notNumber == nil && strings.TrimSpace(string(got)) == name { // the process may have ended
			total += cpuTime(pid, false)
		}
	}
	return total
}

// machineTime returns the CPU time that the machine has used, and the CPU time that other virtual machines have taken from
// it.
func machineTime(b *testing.B) (busy, stolen time.Duration) {
	b.Helper()
	raw, err := os.ReadFile("/proc/stat")
	require.NoError(b, err)
	line, _, _ := strings.Cut(string(raw), "\n")
	const idle, iowait, steal, tick = 4, 5, 8, 10 * time.Millisecond
	for i, text := range strings.Fields(line) {
		ticks, _ := strconv.Atoi(text) // the first field is the name
		switch {
		case i == steal:
			stolen = time.Duration(ticks) * tick
		case i < steal && i != idle && i != iowait: // the fields after it are parts of others
			busy += time.Duration(ticks) * tick
		}
	}
	return busy, stolen
}

func TestSpending_since(t *testing.T) {
	t.Parallel()
	began := time.Now()
	before := spending{at: began, busy: time.Minute, parts: []part{{"ingest-a", time.Second, 100, 90}, {name: "Postgres", cpu: time.Second}}}
	after := spending{at: began.Add(2 * time.Second), busy: time.Minute + 3*time.Second, stolen: time.Second, parts: []part{
		{"ingest-a", 2 * time.Second, 120, 108}, {name: "Postgres", cpu: 2500 * time.Millisecond},
	}}
	require.Equal(t, fmt.Sprintf("ingest-a 0.50 (held back in 18 of 20 periods), Postgres 0.75, the rest 0.25; 1.50 of %d cores busy, 0.50 stolen",
		runtime.NumCPU()), after.since(before))
}
