package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// established is the state of an open connection in /proc/net/tcp.
const established = "01"

// Calls returns the connections that are open between the services of an installation with one process per service: the
// names of the caller and of the service that it calls, and the kind of the port, grpc or http. The list is sorted.
func (s *Installation) Calls() []string {
	s.T.Helper()
	called := map[string]string{}
	for _, name := range services {
		for setting, kind := range map[string]string{"LISTEN": "grpc", "HTTP_LISTEN": "http"} {
			if at := s.Processes[name].Setting("SERVICE_" + strings.ToUpper(name) + "_" + setting); at != "" {
				_, port, err := net.SplitHostPort(at)
				require.NoError(s.T, err)
				called[port] = name + " " + kind
			}
		}
	}
	var calls []string
	for _, name := range services {
		for _, port := range s.connected(s.Processes[name].PID()) {
			if to, ok := called[port]; ok {
				calls = append(calls, name+" "+to)
			}
		}
	}
	slices.Sort(calls)
	return slices.Compact(calls)
}

// connected returns the remote ports of the connections of a process.
func (s *Installation) connected(pid int) (ports []string) {
	s.T.Helper()
	own := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(s.T, err)
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(s.T, err)
		for line := range strings.Lines(string(raw)) {
			// The columns are sl, local_address, rem_address, st, ..., inode.
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != established || !own[f[9]] {
				continue
			}
			_, hexPort, _ := strings.Cut(f[2], ":")
			port, err := strconv.ParseUint(hexPort, 16, 16)
			require.NoError(s.T, err)
			ports = append(ports, strconv.FormatUint(port, 10))
		}
	}
	return ports
}
