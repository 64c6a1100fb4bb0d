package waysout

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/stretchr/testify/require"
)

// closedWays returns the ways to escape from a work that requests no network. If works are not isolated, even such a
// work has a network.
func closedWays() []way {
	table := []way{{name: closedListener, root: openWay, user: openWay}}
	for _, name := range []string{"port of another work", "port of another work on the node's address", "port of the database", "port of a service"} {
		table = append(table, way{name: noNetwork + name, root: closedWay, user: closedWay})
	}
	for _, name := range []string{"another host", "address of the Internet", "name server", "datagram"} {
		table = append(table, way{name: noNetwork + name, root: closedWay, user: closedWay, device: true})
	}
	return table
}

const (
	noNetwork      = "without a network: "
	closedListener = noNetwork + "public listener"
)

// startClosed starts a job without a network that tries the ways in closedWays.
func (h *waysHarness) startClosed(ctx context.Context) *waysJob {
	h.T.Helper()
	h.otherHost(ctx)
	args := []string{h.targets()}
	for _, w := range closedWays() {
		if !w.device || os.Geteuid() == 0 {
			args = append(args, w.name)
		}
	}
	network := "none"
	if h.open {
		network = "" // if works are not isolated, a job without a network is refused
	}
	return h.startWith(ctx, map[string]any{"network": network}, 0, "ways.py", args...)
}

// otherHost starts a program in a separate network namespace, and connects the namespace to the machine. It does
// nothing unless the test runs as root.
func (h *waysHarness) otherHost(ctx context.Context) {
	h.T.Helper()
	if os.Geteuid() != 0 {
		return
	}
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", filepath.Join(h.scripts, "otherhost.py"))
	cmd.SysProcAttr, cmd.Stderr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}, h.T.Output()
	in, err := cmd.StdinPipe()
	require.NoError(h.T, err)
	out, err := cmd.StdoutPipe()
	require.NoError(h.T, err)
	require.NoError(h.T, cmd.Start())
	h.T.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(out)
	line := func() string {
		text, err := lines.ReadString('\n')
		require.NoError(h.T, err)
		return text
	}
	require.Equal(h.T, "begun\n", line())
	gateway, own, internet := addressesOf(cmd.Process.Pid)
	cable := "sb" + strconv.Itoa(cmd.Process.Pid)
	for _, args := range [][]string{
		{"link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", strconv.Itoa(cmd.Process.Pid)},
		{"addr", "add", gateway + "/30", "dev", cable},
		{"link", "set", cable, "up"},
		{"route", "add", internet + "/32", "via", own},
	} {
		text, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
		require.NoError(h.T, err, "ip %v: %s", args, text)
	}
	_, err = fmt.Fprintln(in, gateway, own, internet)
	require.NoError(h.T, err)
	require.Equal(h.T, "listening\n", line())
	h.known["host"], h.known["internet"] = own, internet
}

// addressesOf returns the addresses of the machine (gateway) and of the other host (own) in the network between them,
// and an address that is routed through the other host (internet). They are in the networks reserved for benchmarks,
// which no machine uses, and differ for each process.
func addressesOf(pid int) (gateway, own, internet string) {
	const networks, each, cable, behind = 1 << 14, 4, 198<<24 | 18<<16, 198<<24 | 19<<16
	at := func(address int) string {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(address)))).String()
	}
	network := pid % networks
	return at(cable + network*each + 1), at(cable + network*each + each/2), at(behind + network)
}
