package testenv

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/freeport"
)

const (
	readyTimeout = 90 * time.Second
	readyEvery   = 20 * time.Millisecond
	stopTimeout  = 15 * time.Second
)

// smallReserve reserves little disk space, because the folders of tests are often in memory, which many installations
// share.
const smallReserve = "SERVICE_AGENT_RESERVE_BYTES=1048576"

// smallDisks gives each work a small disk of a fixed size, so that many works fit.
const smallDisks = "SERVICE_AGENT_WORK_DISK_BYTES=134217728"

// Single starts an installation in a single process, signalboxd, and waits until it serves requests.
func Single(t testing.TB, o Options) *Installation {
	t.Helper()
	dir := folder(t, o)
	copyCluster(t, filepath.Join(dir, "data", "postgres"))
	pass, passFile := password(t, dir)
	s := &Installation{T: t, Password: pass, Dir: dir, Environments: environments(t, dir, o), Processes: map[string]*Process{}, Order: []string{"signalboxd"}}
	env := append(os.Environ(), "SERVICE_BOOTSTRAP_ADMIN_PASSWORD_FILE="+passFile,
		"SERVICE_AGENT_ENVIRONMENTS="+s.Environments, "SERVICE_POSTGRES_CACHE="+filepath.Join(Root(t), ".cache", "postgres"),
		smallReserve, smallDisks)
	if !o.OwnEnvironments {
		env = append(env, "PATH="+PathWithUV(t))
	}
	// Keep the ports when the process restarts, so that surviving jobs find the server again.
	free := freeport.Lock(t, 2)
	listen := "127.0.0.1:" + free[0]
	// Agents of other hosts can join, as in an installation with one process per service.
	env = append(env, "SERVICE_JOBS_AGENT_LISTEN=127.0.0.1:"+free[1])
	if o.Admin {
		env = append(env, s.openAdmin())
	}
	for k, v := range o.Env {
		env = append(env, k+"="+v)
	}
	program := filepath.Join(cmp.Or(o.Programs, programs(t)), "signalboxd")
	require.FileExists(t, program, "a program is missing; run make build")
	s.Processes["signalboxd"] = newProcess(t, dir, "signalboxd", env, program,
		"--data", filepath.Join(dir, "data"), "--listen", listen, "--ready-file", s.readyFile())
	if o.Ordinary {
		s.ordinary(s.Processes["signalboxd"])
	}
	s.Processes["signalboxd"].giveDevices(o.Devices)
	t.Cleanup(func() { sweep(t, dir) })
	t.Cleanup(s.close)
	s.StartSingle()
	return s
}

// Listen changes the address on which signalboxd serves. It takes effect at the next start.
func (s *Installation) Listen(addr string) {
	s.T.Helper()
	argv := s.Processes["signalboxd"].argv
	argv[slices.Index(argv, "--listen")+1] = addr
}

// Program replaces the program of signalboxd. It takes effect at the next start.
func (s *Installation) Program(path string) {
	s.T.Helper()
	s.Processes["signalboxd"].argv[0] = path
}

// FreeAddress returns a free address on loopback.
func (s *Installation) FreeAddress() string {
	s.T.Helper()
	return "127.0.0.1:" + freeport.Lock(s.T, 1)[0]
}

// openAdmin returns the setting that opens an admin listener at s.Admin.
func (s *Installation) openAdmin() string {
	s.T.Helper()
	s.Admin = s.FreeAddress()
	return "SERVICE_ADMIN_LISTEN=" + s.Admin
}

func (s *Installation) readyFile() string { return filepath.Join(s.Dir, "ready.json") }

// StartSingle starts signalboxd, or restarts it after it has ended, and waits until it serves requests.
func (s *Installation) StartSingle() {
	s.T.Helper()
	_ = os.Remove(s.readyFile())
	p := s.Processes["signalboxd"]
	p.Start()
	var ready struct {
		Address string `json:"address"`
		PID     int    `json:"pid"`
	}
	require.Eventually(s.T, func() bool {
		raw, err := os.ReadFile(s.readyFile())
		if err == nil {
			return json.Unmarshal(raw, &ready) == nil
		}
		select {
		case <-p.Exited():
			require.FailNow(s.T, "signalboxd exited during its start", p.Tail())
		default:
		}
		return false
	}, readyTimeout, readyEvery, "signalboxd is not ready: "+p.Tail())
	require.Equal(s.T, p.PID(), ready.PID)
	s.URL = ready.Address
}

// close stops every running process of the installation.
func (s *Installation) close() {
	for _, v := range slices.Backward(s.Order) {
		p := s.Processes[v]
		if p == nil || p.cmd == nil {
			continue
		}
		select {
		case <-p.Exited():
		default:
			p.Stop(stopTimeout)
		}
	}
	if s.T.Failed() {
		s.T.Log(s.Tail())
	}
}
