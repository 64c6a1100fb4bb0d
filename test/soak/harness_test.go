package soak_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/soak"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// divisor is the number by which the test divides all ages at which rows are deleted.
	divisor = 1000
	// shortest is the minimum age. An upload must not be deleted because of its age while it is in progress.
	shortest = 5 * time.Second
	// usual is the length of the test in CI.
	usual = 70 * time.Second
	// long is the minimum length of a test that compares sizes exactly. In a shorter test, a single job more or less
	// changes the sizes too much.
	long = 10 * time.Minute
)

// harness is an installation whose retention ages are divided by divisor, and the load on it.
type harness struct {
	t      *testing.T
	s      *testenv.Installation
	conn   *pgx.Conn
	source source
	length time.Duration
	ages   map[string]time.Duration

	mu     sync.Mutex
	rounds map[string]int
	errs   []error
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, length: usual, ages: map[string]time.Duration{}, rounds: map[string]int{}}
	if text := os.Getenv("SOAK"); text != "" {
		var err error
		h.length, err = time.ParseDuration(text)
		require.NoError(t, err, "SOAK must be a duration, such as 60m")
	}
	env := map[string]string{}
	_, settings := inSource(t)
	for name, text := range settings {
		days, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		// No age is longer than a sixth of the test, so that the installation has reached its final size after half of
		// the test.
		h.ages[name] = max(shortest, min(time.Duration(days*24*float64(time.Hour)/divisor), h.length/6))
		env[name] = strconv.FormatFloat(h.ages[name].Hours()/24, 'f', 9, 64)
	}
	h.s = testenv.Single(t, testenv.Options{Env: env})
	h.conn = h.s.Connect(t.Context())
	h.source = h.export()
	return h
}

// names returns the tables behind an entry of soak.Tables. If the entry has no schema, names returns a table for each
// schema.
func names(table soak.Table) []string {
	if strings.Contains(table.Name, ".") {
		return []string{table.Name}
	}
	var out []string
	for _, schema := range []string{"auth", "jobs", "ingest", "registry", "inference"} {
		out = append(out, schema+"."+table.Name)
	}
	return out
}

// late returns two kinds of tables: those with rows past their age, with the number of these rows, and those with
// more rows than their limit, with the number of all rows. A row is past its age only after the additional grace
// time.
func (h *harness) late(grace time.Duration) map[string]int64 {
	h.t.Helper()
	out := map[string]int64{}
	count := func(name, from string, args ...any) int64 {
		var n int64
		require.NoError(h.t, h.conn.QueryRow(h.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n), name)
		return n
	}
	past := func(name, from string, age time.Duration) {
		if n := count(name, from, age+grace); n > 0 {
			out[name] = n
		}
	}
	for _, table := range soak.Tables() {
		age := table.Within
		if table.Setting != "" {
			age = h.ages[table.Setting]
		}
		for _, name := range names(table) {
			if table.Since != "" && age > 0 {
				past(name, name+` WHERE `+table.Since+` < now() - $1::interval`, age)
			}
			if n := count(name, name); table.Most > 0 && n > table.Most {
				out[name] = n
			}
		}
	}
	const engines = `jobs.work WHERE kind = 'engine' AND phase = 'gone' AND released_at IS NOT NULL AND updated_at < now() - $1::interval`
	past("jobs.work of engines", engines, h.ages["SERVICE_JOBS_ENGINE_DAYS"])
	const run = ` d JOIN ingest.run r ON r.id = d.run_id WHERE r.closed_at < now() - $1::interval AND r.id <> '`
	for _, name := range []string{"ingest.metric_batch", "ingest.log_chunk", "ingest.artifact", "ingest.mark"} {
		past(name, name+run+h.source.l.Job.RunID+`'`, h.ages["SERVICE_RUN_DATA_DAYS"])
	}
	return out
}

// pauses returns the time between the beginnings of two rounds. Sign-ins are rare, because sign-ins from one address
// are limited.
func pauses() map[string]time.Duration {
	return map[string]time.Duration{
		"jobs": 2 * time.Second, "uploads": time.Second, "deployments": time.Second, "sign-ins": 10 * time.Second,
		"engines": 2 * time.Second, "sessions": 4 * time.Second,
	}
}

// repeat runs one kind of round until the context ends.
func (h *harness) repeat(ctx context.Context, name string, round func(ctx context.Context, n int) error) {
	tick := time.NewTicker(pauses()[name])
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		err := round(ctx, n)
		if ctx.Err() != nil {
			return
		}
		h.mu.Lock()
		if h.rounds[name]++; err != nil {
			h.errs = append(h.errs, fmt.Errorf("%s: %w", name, err))
		}
		h.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
