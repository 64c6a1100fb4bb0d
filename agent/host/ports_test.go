package host_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// TestIsolatedWork_portsOfOthers tries to listen on ports of the installation and of another program.
func TestIsolatedWork_portsOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || !guardsPorts() {
		return // works of an ordinary user have networks of their own; an older kernel guards no ports
	}
	const reserved, engine, free = 12_350, 20_001, 12_351
	service, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = service.Close() })
	_, busy, err := net.SplitHostPort(service.Addr().String())
	require.NoError(t, err)
	tried := fmt.Sprint(reserved, " ", engine, " ", busy, " ", free)
	a := newAttempt(t, `exec python3 -c '
import os, socket, sys, urllib.parse
for port in sys.argv[1:] + [urllib.parse.urlsplit(os.environ["SERVICE_JOB_ENDPOINT"]).port]:
    try:
        with socket.socket() as s: s.bind(("127.0.0.2", int(port))); print("taken")
    except OSError as e: print(e.strerror)
' `+tried, func(c *host.Config) { c.ReservedPorts = []uint16{reserved} })
	a.apply()
	require.Zero(t, a.reach(executor.PhaseExited).Exit.Code, a.logText())
	const refused = "Permission denied\n"
	require.Equal(t, strings.Repeat(refused, 3)+"taken\n"+refused, a.logText())
	report, err := a.host.Boundary(t.Context())
	require.NoError(t, err)
	require.NotContains(t, report.Unlimited, "ports")
}

// guardsPorts reports whether the kernel can refuse the ports on which a work must not listen.
func guardsPorts() bool {
	f := boundary.Findings{Kind: boundary.OwnUser, Network: boundary.Filtered, Landlock: boundary.LandlockVersion()}
	return f.Report().Reasons["ports"] == ""
}
