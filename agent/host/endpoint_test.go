package host

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// changingNames is a resolver with a single name. The test changes the address of that name.
type changingNames struct {
	address netip.Addr
	err     error
}

func (c *changingNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{c.address}, c.err
}

// A closed work still reaches its endpoint if the name of the endpoint gets another address. If the name cannot be
// looked up, nothing changes.
func TestWork_lookAgain(t *testing.T) {
	t.Parallel()
	names := &changingNames{address: netip.MustParseAddr("192.0.2.1")}
	h, err := New(Config{Data: t.TempDir(), Exec: []string{"false"}}, Deps{Names: names, HTTP: &http.Client{}, Clock: clock.Real()})
	require.NoError(t, err)
	w := bareWork(h, executor.Key{WorkID: "w"}, t.TempDir())
	w.assignment.Work.Attempt = &executor.AttemptSpec{NoNetwork: true, IngestEndpoint: "https://control.example/api/ingest"}
	require.NoError(t, os.MkdirAll(w.path(live), 0o700))
	require.NoError(t, os.MkdirAll(w.path("run"), 0o700))
	require.NoError(t, localfile.WriteJSON(w.path("run", "start.json"), shim.Start{Isolation: boundary.Isolation{
		Kind: boundary.OwnUser, Network: boundary.Network{Kind: boundary.Filtered, Closed: true},
	}}, localfile.PrivateMode))
	now := func() (n boundary.Network, hosts string) {
		require.NoError(t, localfile.ReadJSON(w.path("run", "network.json"), &n))
		raw, err := os.ReadFile(w.path(live, "hosts"))
		require.NoError(t, err)
		return n, string(raw)
	}
	seen := ""
	for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
		names.address = netip.MustParseAddr(address)
		last := seen
		seen, err = w.lookAgain(t.Context(), last)
		require.NoError(t, err)
		require.NotEqual(t, last, seen)
		n, hosts := now()
		require.True(t, n.Closed)
		require.Equal(t, []netip.AddrPort{netip.AddrPortFrom(names.address, 443)}, n.Reach)
		require.Contains(t, hosts, address+" control.example\n127.0.0.1 localhost\n")
	}
	require.NoError(t, os.Remove(w.path("run", "network.json")))
	same, err := w.lookAgain(t.Context(), seen)
	require.NoError(t, err)
	require.Equal(t, seen, same)
	names.address, names.err = netip.Addr{}, errors.New("no such host")
	same, err = w.lookAgain(t.Context(), seen)
	require.ErrorContains(t, err, "no such host")
	require.Equal(t, seen, same)
	require.NoFileExists(t, w.path("run", "network.json"), "no network file may be written if nothing has changed")
}

// While no name can be looked up, Apply must still move the lease of the shim. The attempt learns its new endpoint later,
// when its network reaches it.
func TestHost_Apply_movesLeaseWithoutLookup(t *testing.T) {
	t.Parallel()
	const before, after = "http://192.0.2.1/api/ingest", "http://192.0.2.2/api/ingest"
	names, clk := &changingNames{err: errors.New("no such host")}, clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	h := lookupHost(t, names, clk)
	d := executor.Work{
		Key: executor.Key{WorkID: "w", Generation: 1, Fence: 1}, Kind: executor.KindAttempt, Desired: executor.DesiredRunning,
		Attempt: &executor.AttemptSpec{JobID: "job", RunID: "run", Command: []string{"true"}, IngestEndpoint: before},
	}
	require.NoError(t, h.Apply(t.Context(), []executor.Work{d}))
	w := h.works[d.Key]
	w.assignment.Lease = "token"
	require.NoError(t, os.MkdirAll(w.path("run"), 0o700))
	require.NoError(t, localfile.WriteJSON(w.path("run", "start.json"), shim.Start{Isolation: boundary.Isolation{
		Kind: boundary.OwnUser, Network: boundary.Network{Kind: boundary.Filtered},
	}}, localfile.PrivateMode))
	require.NoError(t, w.saveEndpoint())
	told := func() string {
		raw, err := os.ReadFile(w.endpointFile())
		require.NoError(t, err)
		return string(raw)
	}

	d.IngestEndpoint = after
	require.NoError(t, h.Apply(t.Context(), []executor.Work{d}))
	var lease shim.Lease
	require.NoError(t, localfile.ReadJSON(w.path("run", "lease.json"), &lease))
	require.Contains(t, lease.URL, "http://192.0.2.2/")
	require.Equal(t, after, w.endpoint())

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.followEndpoint(t.Context())
	}()
	require.NoError(t, clk.Await(t.Context(), 1))
	require.Equal(t, before+"\n", told(), "the network of the attempt does not reach the new endpoint yet")
	names.address, names.err = netip.MustParseAddr("192.0.2.3"), nil
	clk.Advance(time.Minute)
	require.Eventually(t, func() bool { return told() == after+"\n" }, time.Minute, time.Millisecond)
	var n boundary.Network
	require.NoError(t, localfile.ReadJSON(w.path("run", "network.json"), &n))
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:80")}, n.Reach)
	w.markQuiet()
	<-ended
}

// lookupHost returns a host whose works have filtered networks, without any work, and with a name to avoid.
func lookupHost(t *testing.T, names boundary.Resolver, clk clock.Clock) *Host {
	t.Helper()
	h, err := New(Config{Data: t.TempDir(), Exec: []string{"false"}, WorkAvoid: []string{"store.example"}}, Deps{
		Names: names, HTTP: &http.Client{}, Clock: clk, Jitter: func() float64 { return 0 }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	return h
}

// While a name cannot be looked up, a process gets the network of an earlier process of the work, and the addresses that
// are known.
func TestWork_network_failedLookup(t *testing.T) {
	t.Parallel()
	names := &changingNames{err: errors.New("no such host")}
	h := lookupHost(t, names, clock.Real())
	h.net = boundary.Filtered
	close(h.tried)
	w := bareWork(h, executor.Key{WorkID: "w"}, t.TempDir())
	w.assignment.Work.Attempt = &executor.AttemptSpec{IngestEndpoint: "http://192.0.2.2/api/ingest"}
	old, moved := netip.MustParseAddrPort("192.0.2.1:80"), netip.MustParseAddrPort("192.0.2.2:80")
	avoid := []boundary.Destination{{Prefix: netip.MustParsePrefix("192.0.2.9/32")}}
	last := boundary.Network{Kind: boundary.Filtered, Reach: []netip.AddrPort{old}, Avoid: avoid, Serve: 20_000}
	n, err := w.network(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, boundary.Network{Kind: boundary.Filtered, Reach: []netip.AddrPort{old, moved}, Avoid: avoid}, n)
	for _, other := range []boundary.Network{{}, {Kind: boundary.OwnNetwork}} {
		_, err = w.network(t.Context(), other)
		require.ErrorContains(t, err, "no such host", "a network of another kind must not be used")
	}
	names.address, names.err = netip.MustParseAddr("192.0.2.8"), nil
	n, err = w.network(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{moved}, n.Reach)
	require.Equal(t, "192.0.2.8/32", n.Avoid[0].Prefix.String())
}

// A work that has no earlier process waits until the names can be looked up.
func TestWork_awaitNetwork(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	names := &changingNames{err: errors.New("no such host")}
	h := lookupHost(t, names, clk)
	h.net = boundary.Filtered
	close(h.tried)
	w := bareWork(h, executor.Key{WorkID: "w"}, t.TempDir())
	w.assignment.Work.Engine = &executor.EngineSpec{}
	found := make(chan error, 1)
	go func() {
		_, err := w.awaitNetwork(t.Context())
		found <- err
	}()
	require.NoError(t, clk.Await(t.Context(), 1))
	names.address, names.err = netip.MustParseAddr("192.0.2.8"), nil
	clk.Advance(time.Minute)
	require.NoError(t, <-found)
	w.assignment.Work.Attempt, h.net, h.notRestricted = &executor.AttemptSpec{NoNetwork: true}, boundary.Open, errors.New("no pasta")
	_, err := w.awaitNetwork(t.Context())
	require.ErrorContains(t, err, "this node cannot close the network of works", "a work that this node cannot run must not wait")
}

// The ranks of an attempt on several nodes connect to each other, which the own network of a work would prevent.
func TestWork_network_severalNodes(t *testing.T) {
	t.Parallel()
	for kind, restricted := range map[boundary.NetworkKind]map[string]bool{
		boundary.OwnNetwork: {"": true, "1": true, "2": false},
		boundary.Filtered:   {"": true, "1": true, "2": true},
	} {
		for nodes, wanted := range restricted {
			h := lookupHost(t, &changingNames{address: netip.MustParseAddr("192.0.2.8")}, clock.Real())
			h.net = kind
			close(h.tried)
			w := bareWork(h, executor.Key{WorkID: "w"}, t.TempDir())
			w.assignment.Work.Attempt = &executor.AttemptSpec{IngestEndpoint: "http://192.0.2.2/api/ingest", Env: map[string]string{"SERVICE_JOB_NNODES": nodes}}
			n, err := w.network(t.Context(), boundary.Network{})
			require.NoError(t, err)
			require.Equal(t, wanted, n.On(), "%s with %q nodes", kind, nodes)
		}
	}
}

// A work that was started inside a boundary is not continued without one by an agent with other settings.
func TestWork_isolation_neverLost(t *testing.T) {
	t.Parallel()
	h := lookupHost(t, &changingNames{address: netip.MustParseAddr("192.0.2.8")}, clock.Real())
	h.kind, h.notIsolated = boundary.None, errors.New("SERVICE_AGENT_ISOLATION is set to none")
	close(h.tried)
	w := bareWork(h, executor.Key{WorkID: "w"}, t.TempDir())
	w.assignment.Work.Engine = &executor.EngineSpec{}
	i, err := w.isolation(t.Context(), t.TempDir(), pyenv.Environment{}, visible{})
	require.NoError(t, err, "a work that was never isolated runs as before")
	require.False(t, i.On())
	require.NoError(t, w.keepIsolated(true))
	later, err := os.ReadFile(w.path("assignment.json"))
	require.NoError(t, err)
	require.Contains(t, string(later), `"isolated":true`, "the next agent must know")
	_, err = w.isolation(t.Context(), t.TempDir(), pyenv.Environment{}, visible{})
	require.ErrorContains(t, err, "not continued without one")
	exit := w.refusal(t.Context(), err)
	require.NotNil(t, exit)
	require.Equal(t, executor.ReasonStart, exit.Reason)
}
