package load

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// replicaCallers is the usual number of callers for each replica.
	replicaCallers = 32
	// settleTime passes before a rate is measured, after the number of replicas has changed.
	settleTime = time.Second
	// leastRatio is the goal for two replicas beside one, successorTime that for a revocation after a successor's start.
	leastRatio, successorTime = 1.8, 20 * time.Second
	// replicaEvents is the time limit of an event, such as the start of a replica, on a busy machine.
	replicaEvents = 2 * time.Minute
)

// BenchmarkReplicas compares two replicas of ingest, and of inference, with one. Each has half a core. It then adds a
// replica and stops another one under load, kills a third and starts its successor. It prints a table and fails if a
// goal is not reached.
//
//	BENCH_ROUNDS   rounds of one replica and two (5)
//	BENCH_SECONDS  seconds of a round with each number of replicas (3)
//	BENCH_CALLERS  callers for each replica, each with one call at a time (32)
//	BENCH_POINTS   points of a report (20)
//	BENCH_SERVICE  regular expression of the services; all if it is empty
//	BENCH_TOOLS    folder with the sources of loadgen and mockengine
func BenchmarkReplicas(b *testing.B) {
	q, programs, before := newQuotas(b), buildTools(b), machineLoad(b)
	wanted, err := regexp.Compile(os.Getenv("BENCH_SERVICE"))
	require.NoError(b, err, "BENCH_SERVICE")
	r := newReplicaBench(b, q, programs)
	table := []string{fmt.Sprintf("%-10s %9s %9s %6s | %-44s | %-52s | %s", "service", "1 replica", "2", "ratio",
		"one added, one stopped", "one killed", "revocation after the successor's start")}
	for _, s := range []*scaled{r.inference(), r.ingest()} {
		if wanted.MatchString(s.service) {
			table = append(table, s.run(b))
		}
	}
	fmt.Fprintf(os.Stdout, "%s\ncalls a second, each replica with half a core; load of the machine before: %s, after: %s\n",
		strings.Join(table, "\n"), before, machineLoad(b))
	b.ReportMetric(0, "ns/op")
}

// replicaBench is an installation with one process for each service, and a deployment.
type replicaBench struct {
	*testenv.Installation

	b      *testing.B
	quotas *quotas
	loop   *e2eflow.Loop
	db     *pgx.Conn
	// database has the CPU time of the database server.
	database *target
	// callers is the number of callers for each replica. Two replicas serve at most twice as many as one.
	callers int
}

func newReplicaBench(b *testing.B, q *quotas, programs tools) *replicaBench {
	b.Helper()
	ctx := b.Context()
	s := testenv.Split(b, testenv.Options{Env: map[string]string{"SERVICE_AGENT_WORK_PATHS": programs.dir}})
	r := &replicaBench{
		Installation: s, b: b, quotas: q, loop: s.Loop(ctx), db: s.Connect(ctx), callers: size(b, "BENCH_CALLERS", replicaCallers),
	}
	r.database = &target{database: postmaster(b, r.db)}
	version, err := r.loop.Register(ctx, testenv.ExportModel(ctx, s, r.loop))
	require.NoError(b, err)
	require.NoError(b, r.loop.Deploy(ctx, r.loop.Name, version, map[string]any{
		"engine": "command", "command": []string{programs.mockengine, "-addr", "{host}:{port}"},
	}))
	require.NoError(b, r.loop.AwaitReady(ctx), s.Tail())
	require.NoError(b, r.loop.Promote(ctx))
	return r
}

// replica starts a replica of a service with half a core.
func (r *replicaBench) replica(service, name string, more map[string]string) *backend {
	r.b.Helper()
	out := &backend{addr: r.FreeAddress(), admin: r.FreeAddress()}
	upper := strings.ToUpper(service)
	settings := map[string]string{
		"SERVICE_" + upper + "_LISTEN": r.FreeAddress(), "SERVICE_" + upper + "_HTTP_LISTEN": r.FreeAddress(),
		"SERVICE_" + upper + "_LISTEN_PUBLIC": out.addr, "SERVICE_ADMIN_LISTEN": out.admin, "SERVICE_DRAIN_DELAY": "1s",
	}
	maps.Copy(settings, more)
	out.process = r.StartReplica(service, service+"-"+name, settings)
	r.quotas.limit(out.process)
	return out
}

// scaled is a service that is measured.
type scaled struct {
	*replicaBench

	service string
	load    *balancer
	// begin starts a load whose stored calls are counted apart. The function missing waits until the calls that
	// succeeded in it are stored, and returns how many are not.
	begin func() (end func(), missing func() int)
	// settings returns the settings of a replica, whose folders are its own.
	settings func(name string) map[string]string
}

// run measures the service and returns a row of the table.
func (s *scaled) run(b *testing.B) string {
	b.Helper()
	first, second := s.replica(s.service, "a", s.settings("a")), s.replica(s.service, "b", s.settings("b"))
	one, two, ratio := s.compare(first, second)
	third, changed := s.change(first, second)
	killed, after := s.kill(second, third)
	for _, left := range []*backend{second, third} { // the other service needs their CPU time
		left.process.Signal(syscall.SIGTERM)
		<-left.process.Exited()
	}
	assert.GreaterOrEqual(b, ratio, leastRatio, "%s: two replicas beside one", s.service)
	assert.LessOrEqual(b, after, successorTime, "%s: the revocation after the start of the successor", s.service)
	return fmt.Sprintf("%-10s %9.0f %9.0f %6.2f | %-44s | %-52s | %.1f s", s.service, one, two, ratio, changed, killed, after.Seconds())
}

// compare returns the medians of the rates of one replica and of two, and the median of the ratios.
func (s *scaled) compare(first, second *backend) (one, two, ratio float64) {
	s.load.use(first, second)
	for _, to := range []*backend{first, second} {
		s.Until(s.b.Context(), "the replica is ready", func() bool { to.check(s.b.Context(), http.DefaultClient); return to.ready.Load() })
	}
	end, missing := s.begin()
	s.Until(s.b.Context(), "both replicas serve", func() bool { return s.load.ok.Load() > 100 })
	period := time.Duration(size(s.b, "BENCH_SECONDS", 3)) * time.Second
	var ones, twos, ratios []float64
	for n := range size(s.b, "BENCH_ROUNDS", rounds) {
		ones = append(ones, s.rate(period, []*backend{first, second}[n%2]))
		twos = append(twos, s.rate(period, first, second))
		ratios = append(ratios, twos[n]/ones[n])
	}
	end()
	s.requireGood()
	assert.Zero(s.b, first.failed.Load()+second.failed.Load()+s.load.refused.Load(), "%s: failed calls", s.service)
	assert.Zero(s.b, missing(), "%s: calls that are not stored", s.service)
	return median(ones), median(twos), median(ratios)
}

// rate returns the calls a second with the given replicas, and prints what used the cores meanwhile. Each replica has the
// same number of callers: with half of them, a replica of ingest would store smaller groups of reports, which cost more.
func (s *scaled) rate(period time.Duration, replicas ...*backend) float64 {
	s.b.Helper()
	s.load.use(replicas...)
	s.load.active.resize(len(replicas) * s.callers)
	time.Sleep(settleTime)
	before := s.spent(replicas...)
	rate := s.load.rate(s.b, 0, period)
	fmt.Fprintf(os.Stderr, "%s: %.0f calls/s with %d of the replicas. Cores: %s\n", s.service, rate, len(replicas), s.spent(replicas...).since(before))
	return rate
}

// change adds a replica and stops the first one under load.
func (s *scaled) change(first, second *backend) (third *backend, row string) {
	s.load.use(first, second)
	calls, repeated := s.load.ok.Load(), s.load.repeated.Load()
	end, missing := s.begin()
	third = s.replica(s.service, "c", s.settings("c"))
	s.load.use(first, second, third)
	s.Until(s.b.Context(), "the new replica serves", func() bool { return third.ready.Load() && s.load.ok.Load() > calls })
	s.load.rate(s.b, settleTime, settleTime)
	first.process.Signal(syscall.SIGTERM)
	<-first.process.Exited()
	require.NoError(s.b, first.process.Err(), first.process.Tail())
	s.load.rate(s.b, settleTime, settleTime)
	end()
	s.requireGood()
	failed := first.failed.Load() + second.failed.Load() + third.failed.Load() + s.load.refused.Load()
	unrecorded := missing()
	assert.Zero(s.b, failed, "%s: failed calls while a replica is added and one stopped", s.service)
	assert.Zero(s.b, unrecorded, "%s: unrecorded calls while a replica is added and one stopped", s.service)
	return third, fmt.Sprintf("%d calls, %d repeated, %d failed, %d unrecorded", s.load.ok.Load()-calls, s.load.repeated.Load()-repeated, failed, unrecorded)
}

// kill kills a replica under load, starts its successor in the same folders and revokes a token.
func (s *scaled) kill(victim, other *backend) (row string, after time.Duration) {
	s.load.use(victim, other)
	calls, refused := s.load.ok.Load(), s.load.refused.Load()
	end, missing := s.begin()
	s.Until(s.b.Context(), "calls succeed", func() bool { return s.load.ok.Load() > calls+100 })
	open := victim.open.Load()
	victim.process.Kill()
	victim.ended.Store(true)
	s.load.rate(s.b, settleTime, settleTime)
	token := s.revocable()
	began := time.Now()
	victim.ended.Store(false)
	victim.process.Start()
	s.quotas.limit(victim.process)
	token()
	after = time.Since(began)
	s.Until(s.b.Context(), "the successor serves", victim.ready.Load)
	s.load.rate(s.b, settleTime, settleTime)
	end()
	s.requireGood()
	elsewhere, lost := other.failed.Load()+s.load.refused.Load()-refused, missing()
	// A process that is killed can still receive calls until the kernel has ended it, so a few more calls than were open
	// when it was killed can be in flight at its end. A caller has only one call in flight.
	assert.LessOrEqual(s.b, victim.failed.Load(), int64(2*s.callers), "%s: only calls in flight may fail", s.service)
	assert.Zero(s.b, victim.late.Load(), "%s: failed calls that were sent after the end of the process", s.service)
	assert.Zero(s.b, elsewhere, "%s: calls that failed at other replicas", s.service)
	if s.service == "ingest" {
		assert.Zero(s.b, lost, "acknowledged points that are lost")
	}
	return fmt.Sprintf("%d in flight, %d failed, %d elsewhere, %d not stored", open, victim.failed.Load(), elsewhere, lost), after
}

// revocable creates a token of the deployment and returns a function that deletes it, again and again until the request
// succeeds.
func (s *scaled) revocable() (revoke func()) {
	own := *s.loop
	require.NoError(s.b, own.MakeToken(s.b.Context(), "revoked-"+s.service))
	return func() {
		ctx, cancel := context.WithTimeout(s.b.Context(), replicaEvents)
		defer cancel()
		s.Until(ctx, "the revocation is acknowledged", func() bool {
			a, err := own.Client.Call(ctx, http.MethodDelete, "/api/model-deployments/"+own.Deployment.ID+"/tokens/"+own.TokenID, nil)
			return err == nil && a.Status == http.StatusNoContent
		})
	}
}

func (s *scaled) requireGood() {
	s.b.Helper()
	if wrong := s.load.wrong.Load(); wrong != nil {
		require.Fail(s.b, "wrong response", "%s: %s\n%s", s.service, *wrong, s.Tail())
	}
}

// inference returns the measurement of inference. The calls of each load have a token of their own.
func (r *replicaBench) inference() *scaled {
	s := &scaled{replicaBench: r, service: "inference", load: &balancer{}}
	s.settings = func(name string) map[string]string {
		folder := filepath.Dir(r.Processes["inference"].Setting("SERVICE_INFERENCE_SPOOL"))
		return map[string]string{"SERVICE_INFERENCE_SPOOL": filepath.Join(folder, "spool-"+name)}
	}
	loads := 0
	s.begin = func() (func(), func() int) {
		loads++
		own := *r.loop
		require.NoError(r.b, own.MakeToken(r.b.Context(), fmt.Sprint("load-", loads)))
		request := requestTo("/inference/"+own.Deployment.ID+chatPath, own.Token.Reveal(), `{"model":"mock","messages":[{"role":"user","content":"hi"}]}`)
		known := s.awaitToken(request)
		before := s.load.ok.Load()
		end := s.load.start(r.b.Context(), 2*r.callers, func(int, int) []byte { return request })
		return end, func() int {
			made, stored := int(s.load.ok.Load()-before)+known, 0
			for began := time.Now(); stored < made && time.Since(began) < recordedWithin; time.Sleep(pollBackends) {
				require.NoError(r.b, r.db.QueryRow(r.b.Context(), `SELECT count(*) FROM inference.call WHERE token_id = $1`, own.TokenID).Scan(&stored))
			}
			return max(0, made-stored)
		}
	}
	return s
}

// awaitToken waits until each replica accepts the token of a request, and returns the number of calls that succeeded.
func (s *scaled) awaitToken(request []byte) (succeeded int) {
	for _, to := range *s.load.used.Load() {
		c := &caller{balancer: s.load, conns: map[*backend]*link{}}
		s.Until(s.b.Context(), "a replica accepts the token", func() bool {
			conn, err := c.connect(to)
			if err != nil {
				return false
			}
			status, err := conn.exchange(request)
			return err == nil && status == http.StatusOK
		})
		c.close()
		succeeded++
	}
	return succeeded
}
