package load

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// steadyRate is the number of calls a second of BenchmarkSteadyCalls, on steadyConnections connections.
	steadyRate, steadyConnections = 500, 64
	// catchUp is how long the record may take to have the calls that were made while the database was stopped.
	catchUp = 2 * time.Minute
	// growth is by how much the memory may grow from the second third of the time to the last.
	growth = 1.1
)

// BenchmarkSteadyCalls sends calls at a fixed rate for a long time, and further calls while the database server is
// stopped. It prints the figures of each minute. No call may fail, each must be in the record after the server has
// returned, and the memory of signalboxd must not keep growing before the server is stopped.
//
//	BENCH_MINUTES  minutes of calls (30)
//	BENCH_AWAY     minutes of calls while the database server is stopped (5)
//	BENCH_TOOLS    folder with the sources of loadgen and mockengine
func BenchmarkSteadyCalls(b *testing.B) {
	programs, before := buildTools(b), machineLoad(b)
	d := startDatabase(b)
	p := newProxyBench(b, programs, testenv.Options{Env: map[string]string{"SERVICE_DATABASE_ADMIN_URL": d.server.AdminURL().Reveal()}},
		func(ctx context.Context, _ *testenv.Installation) *pgx.Conn { return d.connect(ctx) })
	s := &steady{b: b, generator: &generator{program: programs.loadgen}, target: p.target(ownName)}
	minutes := size(b, "BENCH_MINUTES", 30)
	s.send("minute", minutes)
	sizes := slices.Clone(s.memory)
	d.stop()
	s.send("without the database, minute", size(b, "BENCH_AWAY", 5))
	d.start()
	p.db = d.connect(b.Context())
	counted := p.counted(b.Context())
	recorded := p.stored(b.Context(), "deployment_id", p.loop.Deployment.ID, counted, catchUp)
	fmt.Fprintf(os.Stdout, "%d calls failed; %d calls reached the engine: %d unrecorded; load of the machine before: %s, after: %s\n",
		s.failed, counted, counted-recorded, before, machineLoad(b))
	require.Zero(b, s.failed, "no call may fail")
	require.Equal(b, counted, recorded, "each call must be recorded")
	third := len(sizes) / 3
	if third > 0 {
		second, last := median(slices.Clone(sizes[third:2*third])), median(slices.Clone(sizes[len(sizes)-third:]))
		fmt.Fprintf(os.Stdout, "memory, median of the second third: %.0f MiB, of the last third: %.0f MiB\n", second, last)
		require.LessOrEqual(b, last, growth*second, "the memory must not keep growing")
	}
	b.ReportMetric(0, "ns/op")
}

// steady sends calls at a fixed rate and keeps the figures.
type steady struct {
	b         *testing.B
	generator *generator
	target    *target
	failed    int
	memory    []float64 // MiB after each minute
}

// send sends calls for a number of minutes and prints the figures of each.
func (s *steady) send(title string, minutes int) {
	s.b.Helper()
	for minute := range minutes {
		got := s.generator.run(s.b, s.target, "rate", "-rps", fmt.Sprint(steadyRate), "-c", fmt.Sprint(steadyConnections), "-sec", "60")
		s.failed += int(got["errs"])
		s.memory = append(s.memory, got["rss_MiB"])
		fmt.Fprintf(os.Stdout, "%s %d: %.0f calls/s, p50 %.2f ms, p99 %.2f ms, CPU %.0f us a call, memory %.0f MiB, %.0f failed\n", title, minute+1,
			got["rps"], got["p50_ms"], got["p99_ms"], got["cpu_s/10k"]*100, got["rss_MiB"], got["errs"])
	}
}

// database is a database server that the installation does not run itself.
type database struct {
	b      *testing.B
	config local.Config
	server *local.Server
}

// startDatabase starts a database server, which is stopped when the benchmark ends.
func startDatabase(b *testing.B) *database {
	b.Helper()
	bin, err := local.Find("", filepath.Join(testenv.Root(b), ".cache", "postgres"))
	require.NoError(b, err)
	d := &database{b: b, config: local.Config{BinDir: bin, Dir: filepath.Join(testenv.Folder(b), "database"), Entropy: rand.Reader}}
	d.start()
	b.Cleanup(func() { _ = d.server.Stop(context.WithoutCancel(b.Context())) })
	return d
}

func (d *database) start() {
	d.b.Helper()
	var err error
	d.server, err = local.Start(d.b.Context(), d.config)
	require.NoError(d.b, err)
}

func (d *database) stop() {
	d.b.Helper()
	require.NoError(d.b, d.server.Stop(d.b.Context()))
}

// connect connects to the database of the installation.
func (d *database) connect(ctx context.Context) *pgx.Conn {
	d.b.Helper()
	config, err := pgx.ParseConfig(d.server.AdminURL().Reveal())
	require.NoError(d.b, err)
	config.Database = "signalbox"
	conn, err := pgx.ConnectConfig(ctx, config)
	require.NoError(d.b, err)
	d.b.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	return conn
}

const (
	// busyStreams is the number of streams of BenchmarkBusyStreams. It opens busyAtOnce of them at a time.
	busyStreams, busyAtOnce = 10_000, 1000
)

// BenchmarkBusyStreams opens streams while programs use all cores. No stream may be cut, and each must be in the record.
func BenchmarkBusyStreams(b *testing.B) {
	programs, before := buildTools(b), machineLoad(b)
	p := newProxyBench(b, programs, testenv.Options{}, ownDatabase)
	g, t := &generator{program: programs.loadgen}, p.target(ownName)
	useCores(b)
	broken := 0
	for n := range busyStreams / busyAtOnce {
		r := row{}
		measureStreams(b, g, t, r, busyAtOnce, 1000)
		broken += int(r.median(cut))
		fmt.Fprintf(os.Stdout, "streams %d to %d: first event p50 %.1f ms, p99 %.1f ms, CPU %.0f us an event, %.0f cut; load %s\n", n*busyAtOnce+1,
			(n+1)*busyAtOnce, r.median(firstMedian), r.median(firstTail), r.median(eventCPU), r.median(cut), machineLoad(b))
	}
	counted := p.counted(b.Context())
	recorded := p.stored(b.Context(), "deployment_id", p.loop.Deployment.ID, counted, catchUp)
	fmt.Fprintf(os.Stdout, "%d of %d streams cut; %d reached the engine: %d unrecorded; load of the machine before: %s, after: %s\n",
		broken, busyStreams, counted, counted-recorded, before, machineLoad(b))
	require.Zero(b, broken, "no stream may be cut")
	require.Equal(b, counted, recorded, "each stream must be recorded")
	b.ReportMetric(0, "ns/op")
}

// useCores uses all cores until the benchmark ends.
func useCores(b *testing.B) {
	b.Helper()
	var running sync.WaitGroup
	for range runtime.NumCPU() {
		running.Go(func() {
			for b.Context().Err() == nil {
			}
		})
	}
	b.Cleanup(running.Wait)
}
