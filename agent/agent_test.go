package agent_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/agent/controlplane"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// embedded is an agent in the control plane's process, as in signalboxd.
type embedded struct {
	*agent.Agent
	stop    func()
	metrics *sdkmetric.ManualReader
}

// gauge returns the recorded values of the gauge with the given name.
func (e embedded) gauge(t *testing.T, name string) (values []int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, e.metrics.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if found, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == name {
				for _, point := range found.DataPoints {
					values = append(values, point.Value)
				}
			}
		}
	}
	return values
}

func embed(t *testing.T, c *fakeControlPlane, bus *rpc.Bus, data string) embedded {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	a, err := agent.New(agent.Config{
		Data: data, Environments: environments(t), Hostname: "here", JoinToken: secret.New(joinToken),
		Exec: []string{os.Args[0], "shim"}, Environ: os.Environ(), Version: "test",
		Isolation: "none", // The works write files outside of their folders, for the tests to read.
	}, agent.Deps{
		Joiner: memoryJoiner{c},
		Dial:   func(n controlplane.Node) (*grpc.ClientConn, error) { return bus.As("node/" + n.ID).Dial("jobs") },
		Clock:  clock.Real(), Rand: rand.Reader, Jitter: func() float64 { return 0 },
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return embedded{Agent: a, metrics: reader, stop: func() { cancel(); require.NoError(t, <-done) }}
}

// memoryJoiner joins by calling the fake control plane directly, without a network.
type memoryJoiner struct{ c *fakeControlPlane }

func (j memoryJoiner) Join(ctx context.Context, r *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	return j.c.JoinFleet(ctx, r)
}

func inMemory(t *testing.T) (*fakeControlPlane, *rpc.Bus) {
	t.Helper()
	c := newFakeControlPlane(t)
	bus := rpc.Memory(rpc.ClientOptions{Clock: clock.Real()})
	c.serve(bus.As("jobs"), nil)
	return c, bus
}

func TestShutdown_stopWorks_killsUnresponsiveWork(t *testing.T) {
	t.Parallel()
	c, bus := inMemory(t)
	data, ready := t.TempDir(), filepath.Join(t.TempDir(), "ready")
	a := embed(t, c, bus, data)
	// The script ignores SIGTERM and does not exit, so only SIGKILL ends it.
	c.setDesired(c.script("trap '' TERM; touch " + ready + "; while :; do sleep 0.05; done"))
	require.Eventually(t, touched(ready), time.Minute, 10*time.Millisecond)
	require.NoError(t, a.Shutdown(t.Context(), true))
	stopped := c.until("the exit is reported", func(o *jobsv1.ObservedWork) bool { return o.GetExit() != nil })
	require.Equal(t, "stopped", stopped.GetExit().GetReason())
	require.Equal(t, int32(9), stopped.GetExit().GetSignal())
	a.stop()

	// The next agent reports the exit again and does not restart the work.
	next := embed(t, c, bus, data)
	exited := c.phase(jobsv1.Phase_PHASE_EXITED)
	require.Equal(t, "stopped", exited.GetExit().GetReason())
	c.setDesired()
	c.awaitNoWorks()
	next.stop()
}

func TestShutdown_leavesWorksRunning(t *testing.T) {
	t.Parallel()
	c, bus := inMemory(t)
	a := embed(t, c, bus, t.TempDir())
	c.setDesired(c.script("sleep 300"))
	c.phase(jobsv1.Phase_PHASE_RUNNING)
	require.NoError(t, a.Shutdown(t.Context(), false))
	// The first observation may have been in transit when Shutdown returned. The second was made afterwards.
	for range 2 {
		observed := c.next()
		require.Len(t, observed, 1)
		require.Equal(t, jobsv1.Phase_PHASE_RUNNING, observed[0].GetPhase())
	}
	c.setDesired()
	c.awaitNoWorks()
	a.stop()
}

func TestNew_continuesFrozenWorksWithoutReserve(t *testing.T) {
	t.Parallel()
	c, bus := inMemory(t)
	data, wrote := t.TempDir(), filepath.Join(t.TempDir(), "wrote")
	a := embed(t, c, bus, data)
	c.setDesired(c.script("while :; do touch " + wrote + "; sleep 0.01; done"))
	require.Eventually(t, touched(wrote), time.Minute, 10*time.Millisecond)
	require.NoError(t, a.Shutdown(t.Context(), false))
	a.stop()
	// An agent with a reserve leaves such works behind when it ends while the disk is full.
	n, err := shim.Freeze(filepath.Join(data, "works"), func(string) bool { return true })
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, os.Remove(wrote))

	next := embed(t, c, bus, data)
	require.Eventually(t, touched(wrote), time.Minute, 10*time.Millisecond, "the work must continue")
	c.setDesired()
	c.awaitNoWorks()
	next.stop()
}

func TestUnknownDesiredStatesAndKindsAreIgnored(t *testing.T) {
	t.Parallel()
	c, bus := inMemory(t)
	a := embed(t, c, bus, t.TempDir())
	good := c.script("sleep 300")
	c.setDesired(good)
	c.phase(jobsv1.Phase_PHASE_RUNNING)
	// A later version of the control plane may send unknown values. The agent must not treat the work as gone.
	odd := c.script("true")
	odd.Desired = jobsv1.Desired(99)
	other := c.script("true")
	other.WorkId, other.Kind = "wrk_2", jobsv1.WorkKind(99)
	c.setDesired(odd, other)
	c.setDesired(odd, other, &jobsv1.Work{WorkId: "wrk_3", Generation: 1, Fence: 1, Kind: jobsv1.WorkKind_WORK_KIND_ATTEMPT, Desired: jobsv1.Desired_DESIRED_GONE})
	c.until("wrk_3 is gone", func(o *jobsv1.ObservedWork) bool {
		return o.GetWorkId() == "wrk_3" && o.GetPhase() == jobsv1.Phase_PHASE_GONE
	})
	c.until("wrk_1 is still running", func(o *jobsv1.ObservedWork) bool {
		return o.GetWorkId() == "wrk_1" && o.GetPhase() == jobsv1.Phase_PHASE_RUNNING
	})
	c.setDesired()
	c.awaitNoWorks()
	a.stop()
}

func TestHelloHasInventoryAndDrivers(t *testing.T) {
	t.Parallel()
	c, bus := inMemory(t)
	a := embed(t, c, bus, t.TempDir())
	require.Eventually(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.hellos) == 1 }, time.Minute, 10*time.Millisecond)
	hello := c.hellos[0]
	require.Equal(t, []string{"command", "llamacpp", "transformers"}, hello.GetDrivers())
	require.Positive(t, hello.GetInventory().GetCpus())
	require.Positive(t, hello.GetInventory().GetMemoryBytes())
	require.Contains(t, []string{"cgroup2", "cgroup1", "rlimit"}, hello.GetInventory().GetLimits())
	require.Contains(t, []string{"own_user", "user_namespace", "none"}, hello.GetBoundary().GetKind())
	require.Equal(t, hello.GetBoundary().GetKind() == "none", hello.GetBoundary().Problem != nil)
	require.Contains(t, hello.GetBoundary().GetUnlimited(), "network")
	require.Equal(t, "works are not isolated", hello.GetBoundary().GetNetworkProblem())
	require.Equal(t, []int64{0}, a.gauge(t, "agent_network_restricted"))
	a.stop()
}

func TestNew_emptyExec(t *testing.T) {
	t.Parallel()
	_, err := agent.New(agent.Config{Data: t.TempDir()}, agent.Deps{Rand: rand.Reader})
	require.ErrorContains(t, err, "Exec")
}
