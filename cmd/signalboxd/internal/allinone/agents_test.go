package allinone

import (
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

func TestAgents_Validate(t *testing.T) {
	t.Parallel()
	const listen, address, public = "SERVICE_JOBS_AGENT_LISTEN", "SERVICE_JOBS_AGENT_ADDRESS", "SERVICE_PUBLIC_URL"
	for name, c := range map[string]struct {
		flags map[string]string
		want  string // the setting that the error names; empty if the settings are valid
	}{
		"none":                           {nil, ""},
		"loopback address":               {map[string]string{listen: "127.0.0.1:7112"}, ""},
		"loopback name":                  {map[string]string{listen: "localhost:7112"}, ""},
		"network address":                {map[string]string{listen: "10.1.2.3:7112", "SERVICE_LISTEN": "10.1.2.3:8080"}, ""},
		"all addresses, address set":     {map[string]string{listen: ":7112", address: "sb.example:7112", public: "https://sb.example"}, ""},
		"all IPv4 addresses, no address": {map[string]string{listen: "0.0.0.0:7112", public: "https://sb.example"}, address},
		"all IPv6 addresses, no address": {map[string]string{listen: "[::]:7112", public: "https://sb.example"}, address},
		"address without listener":       {map[string]string{address: "sb.example:7112"}, address},
		"address without port":           {map[string]string{listen: ":7112", address: "sb.example", public: "https://sb.example"}, address},
		"address without host":           {map[string]string{listen: ":7112", address: ":7112", public: "https://sb.example"}, address},
		"address with port 0":            {map[string]string{listen: ":7112", address: "sb.example:0", public: "https://sb.example"}, address},
		"listener with port 0":           {map[string]string{listen: "127.0.0.1:0"}, listen},
		"listener without port":          {map[string]string{listen: "nowhere"}, listen},
		"public URL missing, IP":         {map[string]string{listen: "10.1.2.3:7112"}, public},
		"public URL missing, host name":  {map[string]string{listen: ":7112", address: "sb.example:7112"}, public},
		"no public URL, all addresses":   {map[string]string{listen: "10.1.2.3:7112", "SERVICE_LISTEN": "0.0.0.0:8080"}, public},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _, err := runInvalid(t, c.flags, Options{PrintConfig: true})
			if c.want == "" {
				require.NoError(t, err)
				require.Contains(t, out.String(), listen+"="+c.flags[listen])
				return
			}
			require.ErrorContains(t, err, c.want+": ")
		})
	}
}

func TestRun_agentAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	data := filepath.Join(t.TempDir(), "data")
	_, _, err = runInvalid(t, map[string]string{
		"SERVICE_DATA": data, "SERVICE_LISTEN": "127.0.0.1:0", "SERVICE_JOBS_AGENT_LISTEN": taken.Addr().String(),
	}, Options{})
	require.ErrorContains(t, err, "the address "+taken.Addr().String()+" is in use by another process; choose another with SERVICE_JOBS_AGENT_LISTEN")
	require.NoDirExists(t, filepath.Join(data, "postgres"))
}

func TestDaemon_agentAddress(t *testing.T) {
	t.Parallel()
	d, _ := newPartialDaemon(t, "")
	d.clock = clock.Real()
	var err error
	d.keys, err = d.folder.keys(d.clock.Now())
	require.NoError(t, err)
	require.NoError(t, d.listenForAgents())
	require.Empty(t, d.agentAddress(), "there must be no listener unless one is configured")
	d.settings.Agents.Listen.Addr = "127.0.0.1:0"
	require.NoError(t, d.listenForAgents())
	t.Cleanup(func() { _ = d.agents.Close() })
	require.Equal(t, d.agents.Addr().String(), d.agentAddress())
	d.settings.Agents.Address = "signalbox.example:7112"
	require.Equal(t, "signalbox.example:7112", d.agentAddress())
}

func TestIssued_Current_renewsInLastThird(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ca, err := pki.NewCA(clk.Now(), 2*pki.DefaultServiceLife)
	require.NoError(t, err)
	i, err := issue(ca, "jobs", clk)
	require.NoError(t, err)
	first := i.Current()
	require.Equal(t, "jobs", first.Name)
	clk.Advance(pki.DefaultServiceLife*2/3 - time.Second)
	require.Same(t, first, i.Current())
	clk.Advance(time.Second)
	second := i.Current()
	require.Equal(t, clk.Now().Add(pki.DefaultServiceLife), second.NotAfter)
	require.Same(t, second, i.Current())
	clk.Advance(2 * pki.DefaultServiceLife)
	require.NotNil(t, i.Current(), "the last certificate must be kept after the CA has expired, although no peer accepts it")
	_, err = issue(ca, "jobs", clk)
	require.ErrorContains(t, err, "the CA has expired")
}

// mint creates a fleet and requests a join token for it.
func mint(t *testing.T, c *client.Client) *client.Response {
	t.Helper()
	var fleet struct{ ID string }
	require.NoError(t, c.Post(t.Context(), "/api/fleets", map[string]any{"name": "far", "kind": "agent", "pools": []string{"far"}}, &fleet))
	a, err := c.Call(t.Context(), http.MethodPost, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{})
	require.NoError(t, err)
	return a
}

func TestJoinToken_refusedWithoutAgentListener(t *testing.T) {
	t.Parallel()
	w := serve(t, folderWithCluster(t), map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": given})
	refused := mint(t, w.admin(given))
	require.Equal(t, http.StatusNotImplemented, refused.Status)
	require.Contains(t, string(refused.Body), "SERVICE_JOBS_AGENT_LISTEN")
	require.NoError(t, w.stop())
}

func TestAgentListener_acceptsNodesOnly(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	w := serve(t, folderWithCluster(t), map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": given, "SERVICE_JOBS_AGENT_LISTEN": addr})
	require.Equal(t, http.StatusCreated, mint(t, w.admin(given)).Status)
	ca, err := pki.LoadCA(filepath.Join(w.ready.Data, "keys", "ca"))
	require.NoError(t, err)
	foreign, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	for name, from := range map[string]*pki.CA{"service of this installation": ca, "service of another installation": foreign} {
		identity, err := issue(from, "gateway", clock.Real())
		require.NoError(t, err)
		wire, err := rpc.TCP(rpc.TCPConfig{Identity: identity, Peers: map[string]string{"jobs": addr}, Client: rpc.ClientOptions{Clock: clock.Real()}})
		require.NoError(t, err)
		conn, err := wire.Dial("jobs")
		require.NoError(t, err)
		_, err = jobsv1.NewFleetServiceClient(conn).ListFleets(t.Context(), &jobsv1.ListFleetsRequest{})
		require.True(t, fault.Is(err, fault.Unavailable), "%s: %v", name, err)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, w.stop())
}

func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		// Choose a port below those that the kernel assigns to outgoing connections, because other tests open and
		// close such connections at any time.
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(10000+rand.IntN(20000)))
		if err == nil {
			defer func() { _ = l.Close() }()
			return l.Addr().String()
		}
	}
}
