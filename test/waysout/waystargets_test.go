package waysout

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/test/redistest"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// target finds the processes, files and ports that works must not reach. The parameter victim is the JSON in which
// the work of another job describes itself.
func (h *waysHarness) target(victim string) {
	h.T.Helper()
	require.NoError(h.T, json.Unmarshal([]byte(victim), &h.known))
	dir, ok := h.known["dir"].(string)
	require.True(h.T, ok)
	raw, err := os.ReadFile(filepath.Join(dir, "run", "run.json"))
	require.NoError(h.T, err)
	var running shim.Running
	require.NoError(h.T, json.Unmarshal(raw, &running))
	server := h.Processes["signalboxd"]
	if server == nil {
		server = h.Processes["jobs"]
	}
	agent := h.AgentDir()
	maps.Copy(h.known, map[string]any{
		"pid": running.Command.PID, "shim": running.Shim.PID, "server": server.PID(), "pids": 4096, "files": workFiles, "files_seconds": 60, "disk_seconds": 60, "home": h.homeFile(), "device": "/dev/" + otherDevice, "fill": filepath.Join("/dev/shm", "fill-"+filepath.Base(h.scripts)),
		"agent": agent, "node_key": filepath.Join(agent, "node", "**", "*.pem"), "objects": filepath.Join(agent, "objects", "planted"),
		"keyring": h.at("keys/keyring", "secrets/keyring"), "ca": filepath.Join(h.at("keys/ca", "ca"), "*"),
		"audit_key": h.at("keys/audit", "secrets/audit-key"), "blob_key": h.at("keys/blobs", "secrets/blob-key"),
		"audit":    h.DataFolder("audit", "lib/audit"),
		"password": filepath.Join(h.DataFolder("postgres", "postgres"), "password"),
		"agents":   portIn(server.Setting("SERVICE_JOBS_AGENT_LISTEN")),
	})
	h.T.Cleanup(func() { _ = os.Remove(filepath.Join("/dev/shm", "fill-"+filepath.Base(h.scripts))) })
	h.database()
	h.service()
	h.respond()
	h.plant(agent)
}

// avoided is an address that works must not reach. No host has it, so the test reads the rules of a work instead of
// trying to connect.
const avoided = "203.0.113.9"

// requireAvoided requires that the packet filter of the work contains the avoided address, which a setting of the agent
// lists.
func (h *waysHarness) requireAvoided() {
	h.T.Helper()
	dir, ok := h.known["dir"].(string)
	require.True(h.T, ok)
	start, err := shim.ReadStart(filepath.Join(dir, "run"))
	require.NoError(h.T, err)
	require.Contains(h.T, start.Isolation.Network.Avoid, boundary.Destination{Prefix: netip.MustParsePrefix(avoided + "/32")})
}

// homeFile returns a file in the home folder of root that is not part of a Python installation.
func (h *waysHarness) homeFile() string {
	h.T.Helper()
	if os.Geteuid() != 0 {
		return "/root/.profile"
	}
	f, err := os.CreateTemp("/root", ".signalbox-test-")
	require.NoError(h.T, err)
	h.T.Cleanup(func() { _ = os.Remove(f.Name()) })
	require.NoError(h.T, f.Close())
	return f.Name()
}

// at returns the path of a key of the installation.
func (h *waysHarness) at(single, split string) string {
	if h.Processes["signalboxd"] != nil {
		return filepath.Join(h.Dir, "data", single)
	}
	return filepath.Join(h.Dir, "etc", "signalbox", split)
}

func portIn(address string) int {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return n
}

// database finds the files and the port of the database server.
func (h *waysHarness) database() {
	h.T.Helper()
	data := filepath.Join(h.DataFolder("postgres", "postgres"), "data")
	raw, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	require.NoError(h.T, err)
	h.known["database_files"] = data
	h.known["database"], err = strconv.Atoi(strings.Split(string(raw), "\n")[3])
	require.NoError(h.T, err)
}

// service opens a port and two sockets, under /run and under /tmp, where servers of databases create theirs. They stand
// for services of the machine. It also starts a Redis server.
func (h *waysHarness) service() {
	h.T.Helper()
	var config net.ListenConfig
	port, err := config.Listen(h.T.Context(), "tcp4", "0.0.0.0:0")
	require.NoError(h.T, err)
	h.T.Cleanup(func() { _ = port.Close() })
	h.known["service"] = portIn(port.Addr().String())
	base := "/run"
	if os.Geteuid() != 0 {
		base = h.T.TempDir()
	}
	h.known["run_socket"], h.known["tmp_socket"] = h.socket(base), h.socket("/tmp")
	h.redis()
	h.known["admin"] = portIn(h.Admin)
	h.known["environments"] = filepath.Join(testenv.Root(h.T), ".cache", "agent-envs")
	all, err := net.InterfaceAddrs()
	require.NoError(h.T, err)
	ofTests := netip.MustParsePrefix("198.18.0.0/15") // addresses of networks that other tests make and remove
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !ofTests.Contains(p.Addr()) {
			h.known["address"] = p.Addr().String()
		}
	}
}

// socket opens a Unix socket that every user may connect to, in a new folder below the given one.
func (h *waysHarness) socket(base string) string {
	h.T.Helper()
	dir, err := os.MkdirTemp(base, "signalbox-test-")
	require.NoError(h.T, err)
	h.T.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(h.T, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "socket")
	socket, err := (&net.ListenConfig{}).Listen(h.T.Context(), "unix", path)
	require.NoError(h.T, err)
	h.T.Cleanup(func() { _ = socket.Close() })
	require.NoError(h.T, os.Chmod(path, 0o777))
	return path
}

// redis starts a Redis server.
func (h *waysHarness) redis() {
	h.T.Helper()
	_, port, err := net.SplitHostPort(h.FreeAddress())
	require.NoError(h.T, err)
	server := exec.CommandContext(h.T.Context(), redistest.Program(h.T), "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", h.T.TempDir())
	require.NoError(h.T, server.Start())
	h.T.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	require.Eventually(h.T, func() bool {
		conn, err := (&net.Dialer{}).DialContext(h.T.Context(), "tcp4", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, testenv.StageTimeout, 20*time.Millisecond, "the Redis server does not start")
	h.known["redis"] = portIn(":" + port)
}

// respond responds to datagrams that arrive at any address of the node, as a service of the machine could.
func (h *waysHarness) respond() {
	h.T.Helper()
	group := netip.MustParseAddr("239.1.2.4")
	conn, err := (&net.ListenConfig{}).ListenPacket(h.T.Context(), "udp4", "0.0.0.0:0")
	require.NoError(h.T, err)
	udp, ok := conn.(*net.UDPConn)
	require.True(h.T, ok)
	raw, err := udp.SyscallConn()
	require.NoError(h.T, err)
	var joined error
	require.NoError(h.T, raw.Control(func(fd uintptr) {
		joined = unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.As4()})
	}))
	require.NoError(h.T, joined)
	h.known["group"], h.known["datagrams_of_node"] = group.String(), portIn(udp.LocalAddr().String())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for buffer := make([]byte, 1); ; {
			_, from, err := udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(buffer, from)
		}
	}()
	h.T.Cleanup(func() { _ = udp.Close(); <-answered })
}

// plant creates an object in the agent's cache.
func (h *waysHarness) plant(agent string) {
	h.T.Helper()
	object := filepath.Join(agent, "objects", "planted")
	require.NoError(h.T, os.MkdirAll(filepath.Dir(object), 0o700))
	require.NoError(h.T, os.WriteFile(object, []byte("bytes"), 0o644))
	h.giveToAgent(filepath.Dir(object))
}

// giveToAgent makes the agent's user the owner of the folder and of everything in it.
func (h *waysHarness) giveToAgent(path string) {
	h.T.Helper()
	var owner unix.Stat_t
	require.NoError(h.T, unix.Stat(h.AgentDir(), &owner))
	require.NoError(h.T, filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, int(owner.Uid), int(owner.Gid)))
	}))
}
