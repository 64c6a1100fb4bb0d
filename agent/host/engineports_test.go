package host_test

import (
	"context"
	cryptorand "crypto/rand"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

// fewPorts is a source of random numbers with a repeatable part: reads of two bytes, with which a host chooses a port.
// They select one of n ports of engines, from the given one on.
type fewPorts struct {
	mu   sync.Mutex
	rand *rand.Rand
	from int
	n    int
}

// firstPort is the first port of engines. The number 0 selects it.
const firstPort = 20_000

func newFewPorts(from, n int) *fewPorts {
	return &fewPorts{rand: rand.New(rand.NewPCG(1, 2)), from: from, n: n}
}

func (f *fewPorts) next() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.from + f.rand.IntN(f.n)
}

func (f *fewPorts) Read(p []byte) (int, error) {
	if len(p) != 2 {
		return cryptorand.Read(p)
	}
	n := f.next()
	p[0], p[1] = byte(n>>8), byte(n)
	return len(p), nil
}

// occupy binds the port in one of several ways until the test ends. It returns false if the port is not free.
func occupy(t *testing.T, way, port int) bool {
	t.Helper()
	// Leave the ports of engines that other tests are starting.
	lock, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", portLock(port))
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	family, address := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	switch way {
	case 4:
		address = &unix.SockaddrInet4{Port: port}
	case 5:
		family, address = unix.AF_INET6, &unix.SockaddrInet6{Port: port}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	if way == 1 || way == 3 {
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	}
	err = unix.Bind(fd, address)
	if err == nil && way >= 2 {
		err = unix.Listen(fd, 1)
	}
	if err != nil {
		require.ErrorIs(t, err, unix.EADDRINUSE)
	}
	return err == nil
}

// TestEngine_portsOfTwoAgents starts engines under two agents that draw the same ports in the same order. Other programs
// use the first of these ports. A long run starts 500 engines while other programs use up to 250 further ports.
func TestEngine_portsOfTwoAgents(t *testing.T) {
	t.Parallel()
	const ways, engines, ports = 6, 10, 1024
	waves, others := 1, 0
	if draw.Whole() {
		waves, others = 25, 250
	}
	used, drawn, further := map[int]string{}, newFewPorts(0, ports), rand.New(rand.NewPCG(3, 4))
	for n := range ways + others {
		port := firstPort + drawn.next()
		if n >= ways {
			port = firstPort + further.IntN(ports)
		}
		if occupy(t, n%ways, port) {
			used[port] = "another program"
		}
	}
	agents := make([]*fakeEngine, 2)
	for n := range agents {
		agents[n] = newAgent(t, newFewPorts(0, ports))
	}
	for wave := range waves {
		wanted := maps.Clone(used)
		for n, f := range agents {
			f.apply(portWorks(f, fmt.Sprintf("%d-%d", wave, n), engines)...)
		}
		for _, f := range agents {
			for name, r := range f.allReady(engines) {
				port := portOf(t, r.Address)
				require.Empty(t, wanted[port], "port %d is used twice", port)
				wanted[port] = name
				require.Zero(t, r.Restarts, "%s: a port was taken", name)
				require.Contains(t, get(t, r.Address+"/v1/models"), strconv.Quote(name))
			}
			f.apply()
		}
		for _, f := range agents {
			f.until("all works are gone", func() bool { return len(f.host.Observed()) == 0 })
		}
	}
}

// newAgent returns a host without works, which are not isolated.
func newAgent(t *testing.T, random io.Reader) *fakeEngine {
	t.Helper()
	f := &fakeEngine{T: t, dir: t.TempDir(), plane: executortest.NewControlPlane(t)}
	f.host, f.stop = openRandom(t, f.dir, f.plane, nil, random)
	t.Cleanup(func() {
		f.apply()
		f.until("all works are gone", func() bool { return len(f.host.Observed()) == 0 })
		f.stop()
	})
	return f
}

// portWorks returns engines that bind their ports with different options.
func portWorks(f *fakeEngine, prefix string, n int) []executor.Work {
	program := f.plane.Put("engine.py", []byte(portEngine))
	works := make([]executor.Work, n)
	for i := range works {
		options := []string{"none", "address", "port", "address+port"}[i%4]
		works[i] = portWork(program, "serve", options, fmt.Sprintf("%s-%d", prefix, i))
	}
	return works
}

// allReady waits until all n engines are ready and returns their reports by name.
func (f *fakeEngine) allReady(n int) map[string]executor.EngineReport {
	f.Helper()
	reports, failed := map[string]executor.EngineReport{}, ""
	f.until("all engines are ready", func() bool {
		for _, o := range f.host.Observed() {
			if o.Exit != nil {
				failed = fmt.Sprintf("%s: %s", o.Key, o.Exit.Message)
			}
			if o.Engine != nil && o.Engine.Ready {
				reports[o.WorkID[len("wrk_"):]] = *o.Engine
			}
		}
		return len(reports) == n || failed != ""
	})
	require.Empty(f, failed, "an engine has failed")
	return reports
}

func get(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}
