package host_test

import (
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
)

// renewedAgain waits until the control plane has received two further renewals at its current address.
func (a *attempt) renewedAgain() {
	a.Helper()
	before := a.plane.Renewed(a.work.Key)
	require.Eventually(a, func() bool { return a.plane.Renewed(a.work.Key) >= before+2 }, time.Minute, 10*time.Millisecond)
}

func TestLeaseIsRenewedWithoutAgent(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "sleep 300", nil)
	a.apply()
	a.reach(executor.PhaseRunning)
	a.renewedAgain()
	a.stop() // as if the agent had been killed
	a.renewedAgain()
	a.plane.Move()
	a.host, a.stop = open(t, a.dir, a.plane, isolate(nil))
	a.work.Attempt.IngestEndpoint = a.plane.Endpoint()
	a.apply()
	a.reach(executor.PhaseRunning)
	a.renewedAgain()
}

func (f *fakeEngine) renewedAgain() {
	f.Helper()
	before := f.plane.Renewed(f.work.Key)
	f.until("the lease is renewed", func() bool { return f.plane.Renewed(f.work.Key) >= before+2 })
}

func TestEngineLeaseIsRenewedWithoutAgent(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.work.IngestEndpoint = f.plane.Endpoint()
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	f.renewedAgain()
	f.stop()
	f.renewedAgain()
	f.plane.Move()
	f.open()
	f.work.IngestEndpoint = f.plane.Endpoint()
	f.apply(f.work)
	f.renewedAgain()
	_, now := f.seen()
	require.Equal(t, first.PID, now.PID, "a new address must not restart the engine")
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))
	f.ready(first)
	f.renewedAgain()
}

// The control plane is unreachable when the engine is started.
func TestEngineLease_grantedLater(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.plane.RefuseLeases(true)
	f.work.IngestEndpoint = f.plane.Endpoint()
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	require.Zero(t, f.plane.Renewed(f.work.Key))
	f.plane.RefuseLeases(false)
	f.renewedAgain()
	f.stop()
	f.renewedAgain()
	f.open()
	f.apply(f.work)
	f.renewedAgain()
	_, now := f.seen()
	require.Equal(t, first.PID, now.PID)
}

// Other hosts reach the engine through the agent's relay. The engine's lease is renewed while the relay responds, even
// if the agent has no connection to the control plane. After the agent has ended, the lease is not renewed, because no
// call reaches the engine any more.
func TestEngineLease_relayed(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.stop()
	relay, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var answering sync.WaitGroup
	answering.Go(func() {
		for conn, err := relay.Accept(); err == nil; conn, err = relay.Accept() {
			_ = conn.Close()
		}
	})
	relays := isolate(func(c *host.Config) { c.RelaysEngines = true })
	f.host, f.stop = open(t, f.dir, f.plane, relays)
	f.work.IngestEndpoint = f.plane.Endpoint()
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	leases := func() []string {
		found, err := filepath.Glob(filepath.Join(f.dir, "works", "*", "starts", "*", "lease.json"))
		require.NoError(t, err)
		return found
	}
	require.Empty(t, leases(), "the lease must not be renewed before a call can reach the engine")
	f.host.Relayed(executor.Key{WorkID: "wrk_gone"}, "127.0.0.1:1")
	f.host.Relayed(f.work.Key, relay.Addr().String())
	f.renewedAgain()
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))
	second := f.ready(first)
	f.renewedAgain()
	require.NoError(t, relay.Close())
	answering.Wait()
	f.stop()
	f.host, f.stop = open(t, f.dir, f.plane, isolate(nil)) // this agent has no relay
	f.apply(f.work)
	f.renewedAgain()
	_, now := f.seen()
	require.Equal(t, second.PID, now.PID)
}
