package load

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// recordingClients send recordedCalls calls together. The record must have every one.
	recordingClients, recordedCalls = 64, 64 * 300
	// recordedWithin is how long the record may take to have them all. The recorder stores calls that it had to write to
	// disk every two seconds.
	recordedWithin = 10 * time.Second
)

// BenchmarkProxy compares calls through the inference proxy with the same calls through nginx and through the reverse
// proxy of the standard library, in front of the same engine. All servers get the same load one after the other in each
// round, and the table shows the medians of the rounds. It asserts no time.
//
//	BENCH_ROUNDS   rounds (5)
//	BENCH_SECONDS  length of a load of calls in seconds (3)
//	BENCH_LOADS    regular expression of the names of loads; all if it is empty
//	BENCH_BEFORE   folder with the programs of an earlier version, which is measured too
//	BENCH_TOOLS    folder with the sources of loadgen and mockengine
func BenchmarkProxy(b *testing.B) {
	nginx := nginxProgram(b) // before anything takes time
	before, n := machineLoad(b), size(b, "BENCH_ROUNDS", rounds)
	programs := buildTools(b)
	p := newProxyBench(b, programs, testenv.Options{}, ownDatabase)
	targets := []*target{
		{name: engineName, addr: p.engine, path: chatPath},
		startNginx(b, nginx, p.FreeAddress(), p.engine),
		startReverseProxy(b, p.FreeAddress(), p.engine),
	}
	if folder := os.Getenv("BENCH_BEFORE"); folder != "" {
		targets = append(targets, newProxyBench(b, programs, testenv.Options{Programs: folder}, ownDatabase).target(beforeName))
	}
	targets = append(targets, p.target(ownName))
	f := measureAll(b, programs, targets, n)
	counted, rows := p.underLoad(b.Context())
	recorded := p.record(b.Context())
	fmt.Fprintf(os.Stdout, "%s\nrounds: %d; load of the machine before: %s, after: %s\n", f.table(names(targets)), n, before, machineLoad(b))
	fmt.Fprintf(os.Stdout, "calls of the loads: %d counted, %d recorded; %d calls of %d clients: %d unrecorded\n",
		counted, rows, recordedCalls, recordingClients, recordedCalls-recorded)
	require.Equal(b, counted, rows, "each call that reached the engine must be recorded")
	require.Equal(b, recordedCalls, recorded, "each call must be recorded")
	b.ReportMetric(0, "ns/op")
}

// names returns the names of the servers.
func names(targets []*target) (out []string) {
	for _, t := range targets {
		out = append(out, t.name)
	}
	return out
}

// measureAll puts all loads on all servers, n times.
func measureAll(b *testing.B, programs tools, targets []*target, n int) figures {
	b.Helper()
	g := &generator{program: programs.loadgen, seconds: size(b, "BENCH_SECONDS", 3)}
	f := figures{}
	loads, err := regexp.Compile(os.Getenv("BENCH_LOADS"))
	require.NoError(b, err, "BENCH_LOADS")
	for round := range n {
		for _, c := range cases() {
			if !loads.MatchString(c.name) {
				continue
			}
			for i := range targets {
				// Each round begins with another server, so that what a load leaves behind does not always hit the same one.
				t := targets[(i+round)%len(targets)]
				if !c.peers || t.name != engineName {
					c.run(b, g, t, f.row(c.name, t.name))
				}
			}
			f.addDelays(c.name)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d; load of the machine: %s\n", round+1, n, machineLoad(b))
	}
	return f
}

// size returns the number in the environment variable, or the usual one.
func size(b *testing.B, name string, usual int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(b, err, name)
	require.Positive(b, n, name)
	return n
}

// machineLoad returns the load of the machine in the last minute.
func machineLoad(b *testing.B) string {
	b.Helper()
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(b, err)
	return strings.Fields(string(load))[0]
}

// proxyBench is an installation that serves a deployment whose engine costs next to nothing.
type proxyBench struct {
	*testenv.Installation

	b      *testing.B
	loop   *e2eflow.Loop
	db     *pgx.Conn
	engine string // its address
}

// ownDatabase connects to the database that the installation runs itself.
func ownDatabase(ctx context.Context, s *testenv.Installation) *pgx.Conn { return s.Connect(ctx) }

// newProxyBench starts the installation. The function connect connects to its database.
func newProxyBench(
	b *testing.B, programs tools, o testenv.Options, connect func(context.Context, *testenv.Installation) *pgx.Conn,
) *proxyBench {
	b.Helper()
	ctx := b.Context()
	p := &proxyBench{b: b}
	env := map[string]string{"SERVICE_AGENT_WORK_PATHS": programs.dir}
	maps.Copy(env, o.Env)
	o.Env, o.Admin = env, true
	p.Installation = testenv.Single(b, o)
	l := p.Loop(ctx)
	version, err := l.Register(ctx, testenv.ExportModel(ctx, p.Installation, l))
	require.NoError(b, err)
	require.NoError(b, l.Deploy(ctx, l.Name, version, map[string]any{
		"engine": "command", "command": []string{programs.mockengine, "-addr", "{host}:{port}"},
	}))
	require.NoError(b, l.AwaitReady(ctx), p.Tail())
	require.NoError(b, l.Promote(ctx))
	require.NoError(b, l.MakeToken(ctx, "load"))
	p.loop, p.db = l, connect(ctx, p.Installation)
	require.NoError(b, p.db.QueryRow(ctx, `SELECT address FROM registry.revision WHERE id = $1`, l.Revision.ID).Scan(&p.engine))
	p.engine = strings.TrimPrefix(p.engine, "http://")
	return p
}

// target returns the inference proxy. Its process is that of signalboxd, which contains all services; the database is
// measured apart.
func (p *proxyBench) target(name string) *target {
	return &target{
		name: name, token: p.loop.Token, addr: strings.TrimPrefix(p.URL, "http://"), path: "/inference/" + p.loop.Deployment.ID + chatPath,
		pids: []int{p.Processes["signalboxd"].PID()}, database: postmaster(p.b, p.db),
	}
}

// postmaster returns the process id of the database server.
func postmaster(b *testing.B, db *pgx.Conn) int {
	b.Helper()
	var dir string
	require.NoError(b, db.QueryRow(b.Context(), `SHOW data_directory`).Scan(&dir))
	raw, err := os.ReadFile(dir + "/postmaster.pid")
	require.NoError(b, err)
	line, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(b, err)
	return pid
}

// underLoad returns the number of calls that the proxy has counted, and the number of calls in the record after it had time
// to store them.
func (p *proxyBench) underLoad(ctx context.Context) (counted, rows int) {
	p.b.Helper()
	counted = p.counted(ctx)
	return counted, p.stored(ctx, "deployment_id", p.loop.Deployment.ID, counted, recordedWithin)
}

// stored returns the number of recorded calls with a value in a column, as soon as it is at least want or after the time
// within.
func (p *proxyBench) stored(ctx context.Context, column, value string, want int, within time.Duration) (n int) {
	p.b.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		sql := `SELECT count(*) FROM inference.call WHERE ` + pgx.Identifier{column}.Sanitize() + ` = $1`
		require.NoError(p.b, p.db.QueryRow(ctx, sql, value).Scan(&n))
		if n >= want || time.Since(began) > within {
			return n
		}
	}
}

// counted returns the value of the counter of the calls that were sent to an engine.
func (p *proxyBench) counted(ctx context.Context) (n int) {
	p.b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+"/metrics", nil)
	require.NoError(p.b, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.b, err)
	defer func() { _ = resp.Body.Close() }()
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	require.NoError(p.b, err)
	for line := range strings.Lines(body.String()) {
		if strings.HasPrefix(line, "inference_calls_total") {
			fields := strings.Fields(line)
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			require.NoError(p.b, err)
			n += int(v)
		}
	}
	return n
}

// record sends recordedCalls calls as fast as possible, with a token of their own, and returns how many of them are
// recorded.
func (p *proxyBench) record(ctx context.Context) int {
	p.b.Helper()
	require.NoError(p.b, p.loop.MakeToken(ctx, "record"))
	transport := &http.Transport{MaxIdleConnsPerHost: recordingClients}
	defer transport.CloseIdleConnections()
	t := p.target(ownName)
	throughput(ctx, p.b, &http.Client{Transport: transport}, load{
		method: http.MethodPost, url: "http://" + t.addr + t.path, token: t.token.Reveal(),
		body: `{"model":"mock","messages":[{"role":"user","content":"hi"}]}`, clients: recordingClients, calls: recordedCalls,
	})
	return p.stored(ctx, "token_id", p.loop.TokenID, recordedCalls, recordedWithin)
}
