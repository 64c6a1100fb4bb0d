package shim_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// leaseServer responds to renewals of leases.
type leaseServer struct {
	*httptest.Server
	stop    atomic.Bool
	refuse  atomic.Bool
	refused atomic.Int32
	// refusal is the body of the responses while refuse is set.
	refusal  atomic.Value
	renewals chan map[string]string
}

func newLeaseServer(t *testing.T) *leaseServer {
	t.Helper()
	s := &leaseServer{renewals: make(chan map[string]string, 100)}
	s.refusal.Store("")
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		renewal := map[string]string{}
		if err != nil || json.Unmarshal(raw, &renewal) != nil || r.URL.Path != "/api/cluster/leases/renew" || s.refuse.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, s.refusal.Load())
			s.refused.Add(1)
			return
		}
		_, _ = fmt.Fprintf(w, `{"renew_s": 1, "stop": %t}`, s.stop.Load())
		select {
		case s.renewals <- renewal:
		default:
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *leaseServer) lease() shim.Lease {
	return shim.Lease{URL: s.URL + "/api/cluster/leases/renew", WorkID: "wrk_1", Token: "t0ken", Since: clock.Real().Now(), Grace: 100 * time.Millisecond}
}

func (b *harness) awaitRenewal(s *leaseServer) {
	b.Helper()
	select {
	case renewal := <-s.renewals:
		require.Equal(b, map[string]string{"work_id": "wrk_1", "token": "t0ken"}, renewal)
	case <-time.After(time.Minute):
		require.FailNow(b, "the lease is not renewed")
	}
}

// The shim renews the lease without an agent. This test launches the shim and runs no agent.
func TestShim_renewsLease(t *testing.T) {
	t.Parallel()
	b, s := script(t, "echo begun; while :; do sleep 0.02; done"), newLeaseServer(t)
	require.NoError(t, shim.WriteLease(b.dir, s.lease()))
	b.launch()
	for range 3 {
		b.awaitRenewal(s)
	}
	moved := newLeaseServer(t) // the control plane has another address after a restart
	s.Close()
	require.NoError(t, shim.WriteLease(b.dir, moved.lease()))
	b.awaitRenewal(moved)
	require.NoError(t, b.Stop(b.dir, 0))
	exit, found := b.ends()
	require.True(t, found)
	require.Empty(t, exit.Cause)
}

// The control plane is unreachable when the work begins, so the lease begins later.
func TestShim_renewsLeaseThatBeginsLater(t *testing.T) {
	t.Parallel()
	b, s := script(t, "echo begun; while :; do sleep 0.02; done"), newLeaseServer(t)
	b.launch()
	b.awaitLine("begun")
	require.NoError(t, shim.WriteLease(b.dir, s.lease()))
	b.awaitRenewal(s)
	require.NoError(t, b.Stop(b.dir, 0))
	_, found := b.ends()
	require.True(t, found)
}

// Calls do not reach a work through a relay that is frozen or gone, so the work's lease must not be renewed.
func TestShim_renewsLeaseWhileRelayResponds(t *testing.T) {
	t.Parallel()
	b, s := script(t, "echo begun; while :; do sleep 0.02; done"), newLeaseServer(t)
	relay, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = relay.Close() }()
	accept := func() net.Conn {
		conn, err := relay.Accept()
		require.NoError(t, err)
		return conn
	}
	lease := s.lease()
	lease.Relay = relay.Addr().String()
	require.NoError(t, shim.WriteLease(b.dir, lease))
	b.launch()
	frozen := accept() // the test does not close this connection
	defer func() { _ = frozen.Close() }()
	later := accept()
	require.Empty(t, s.renewals, "the lease must not be renewed while the relay does not respond")
	require.NoError(t, later.Close())
	b.awaitRenewal(s)
	require.NoError(t, accept().Close())
	b.awaitRenewal(s)
	require.NoError(t, relay.Close())
	// A renewal may have been in flight, so discard it. No other renewal follows while the lease names a relay.
	for len(s.renewals) > 0 {
		<-s.renewals
	}
	lease.Relay, lease.Token = "", "another"
	require.NoError(t, shim.WriteLease(b.dir, lease))
	require.Equal(t, "another", (<-s.renewals)["token"])
	require.NoError(t, b.Stop(b.dir, 0))
	_, found := b.ends()
	require.True(t, found)
}

// givenUp is the response to the renewal of a lease that the control plane does not know.
const givenUp = `{"detail": "the lease token is unknown or revoked", "code": "lease_token"}`

// An attempt ends if its lease is refused, because another one may run instead. A refusal that is not the control plane's
// changes nothing, and neither does one of a lease that is not final.
func TestShim_refusedLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		final bool
		body  string
		ends  bool
	}{
		"final":        {true, givenUp, true},
		"not final":    {false, givenUp, false},
		"by a proxy":   {true, "<html>log in</html>", false},
		"other reason": {true, `{"detail": "the request has no credentials", "code": "unauthenticated"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := script(t, "trap 'exit 7' TERM; echo begun; while [ ! -e over ]; do sleep 0.02; done"), newLeaseServer(t)
			s.refusal.Store(c.body)
			lease := s.lease()
			lease.Grace, lease.Final = time.Minute, c.final
			require.NoError(t, shim.WriteLease(b.dir, lease))
			b.launch()
			b.awaitLine("begun")
			b.awaitRenewal(s)
			s.refuse.Store(true)
			if !c.ends {
				require.Eventually(t, func() bool { return s.refused.Load() > 2 }, time.Minute, 10*time.Millisecond)
				require.NoError(t, os.WriteFile(filepath.Join(b.dir, "over"), nil, 0o600))
			}
			exit, found := b.ends()
			require.True(t, found)
			want := []any{0, shim.Cause("")}
			if c.ends {
				want = []any{7, shim.CauseOrder}
			}
			require.Equal(t, want, []any{exit.Code, exit.Cause})
		})
	}
}

func TestShim_workContinuesWithoutRenewals(t *testing.T) {
	t.Parallel()
	b, s := script(t, "echo begun; sleep 3; echo over"), newLeaseServer(t)
	s.refuse.Store(true)
	require.NoError(t, shim.WriteLease(b.dir, s.lease()))
	b.launch()
	exit, found := b.ends()
	require.True(t, found)
	require.Equal(t, []any{0, false}, []any{exit.Code, exit.Stopped})
	require.Equal(t, "begun\nover\n", b.log())
}

func TestShim_stopsAtLimitOfSilence(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{
		"short grace": 100 * time.Millisecond, "grace longer than the silence": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopsAtLimitOfSilence(t, grace)
		})
	}
}

func stopsAtLimitOfSilence(t *testing.T, grace time.Duration) {
	t.Helper()
	b, s := script(t, "trap '' TERM; echo begun; while :; do sleep 0.02; done"), newLeaseServer(t)
	lease := s.lease()
	lease.Silence, lease.Grace = 3*time.Second, grace
	require.NoError(t, shim.WriteLease(b.dir, lease))
	b.launch()
	for range 5 {
		b.awaitRenewal(s) // five renewals take longer than the limit
	}
	state, err := b.State(b.dir)
	require.NoError(t, err)
	require.Equal(t, shim.Alive, state)
	s.Close()
	exit, found := b.ends()
	require.True(t, found)
	require.True(t, exit.Stopped)
	require.Equal(t, shim.CauseSilence, exit.Cause)
	require.Contains(t, exit.Message, "the lease was not renewed for")
	require.Equal(t, int(syscall.SIGKILL), exit.Signal)
}

// A stop reaches a work even if its agent is frozen.
func TestShim_stopsIfLeaseIsOver(t *testing.T) {
	t.Parallel()
	b, s := script(t, "trap 'exit 7' TERM; echo begun; while :; do sleep 0.02; done"), newLeaseServer(t)
	lease := s.lease()
	lease.Grace = time.Minute
	require.NoError(t, shim.WriteLease(b.dir, lease))
	b.launch()
	b.awaitLine("begun")
	b.awaitRenewal(s)
	s.stop.Store(true)
	exit, found := b.ends()
	require.True(t, found)
	require.Equal(t, []any{7, shim.CauseOrder}, []any{exit.Code, exit.Cause})
}

func TestWriteLease_onlyForAgent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, shim.WriteLease(dir, shim.Lease{Token: "t0ken"}))
	info, err := os.Stat(filepath.Join(dir, "lease.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, shim.CheckVersion(dir))
}
