package testenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/test/freeport"
	"github.com/signalbox-dev/signalbox/test/redistest"
)

// services are the services in the order of their start. The agent starts after them.
var services = []string{"auth", "jobs", "ingest", "registry", "inference", "gateway"}

// ports are the ports in the environment files. Split replaces them by free ports.
var ports = []string{"8080", "7101", "7102", "7103", "7104", "7105", "7112", "7123", "7125"}

// Split starts each service and the agent in its own process, with TCP and mutual TLS between them. It uses
// the units and environment files of deploy/ and follows the steps of deploy/README.md. If the test runs as
// root, each process has the user and groups of its unit.
func Split(t testing.TB, o Options) *Installation {
	t.Helper()
	dir := folder(t, o)
	pass, passFile := password(t, dir)
	s := &Installation{T: t, Password: pass, Dir: dir, Processes: map[string]*Process{}}
	t.Cleanup(func() { sweep(t, dir) }) // runs after close has stopped the processes
	server, admin := startPostgres(t, dir, o.Tunable)
	s.Postgres = server
	t.Cleanup(s.close) // runs before the database stops
	if o.Redis {
		o.Env = s.startRedis(o.Env)
	}
	h := newHost(t, dir, cmp.Or(o.Programs, programs(t)))
	s.host = h
	h.ordinary = o.Ordinary
	free := freeport.Lock(t, len(ports))
	for i, p := range ports {
		h.replacements = append(h.replacements, ":"+p, ":"+free[i])
	}
	h.setup(admin)
	h.setOwner(passFile, "root", "signalbox-auth", 0o640)
	for _, name := range services {
		var extra []string
		switch {
		case name == "auth":
			extra = []string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD_FILE=" + passFile}
		case name == "inference" && o.Admin:
			extra = []string{s.openAdmin()}
		}
		s.launch(h, name, o, extra)
	}
	s.URL = "http://127.0.0.1:" + free[0]
	s.AwaitServing()
	s.launchAgent(h, o)
	return s
}

// launch runs the ExecStartPre command of a unit and starts its ExecStart command. The environment has three parts:
// the unit's environment, the lines in `extra`, which an operator would add, and o.Env.
func (s *Installation) launch(h *host, name string, o Options, extra []string) {
	s.T.Helper()
	u := h.unit(s.T, name)
	env := append(h.environment(u), extra...)
	for k, v := range o.Env {
		env = append(env, k+"="+v)
	}
	p := newProcess(s.T, s.Dir, name, env, h.all(u.command("ExecStart"))...)
	p.dir, p.cred = h.at(u.one("WorkingDirectory")), h.credential(u)
	if o.Ordinary && name == "agent" {
		p.argv, p.cred = asUser(s.T, s.Dir, p.cred.Uid, p.cred.Gid, p.argv), nil
	}
	if name == "agent" {
		p.giveDevices(o.Devices)
	}
	p.before = h.all(u.command("ExecStartPre"))
	p.prepare()
	s.Processes[name], s.Order = p, append(s.Order, name)
	p.Start()
	s.T.Logf("%s: process %d", name, p.PID())
}

// launchAgent makes the host a node and starts its agent.
func (s *Installation) launchAgent(h *host, o Options) {
	s.T.Helper()
	u := h.unit(s.T, "agent")
	if h.users != nil && !h.python(h.credential(u)) {
		s.T.Log("the agent runs as the test's user, because the user of its unit finds no suitable Python")
		h.users = nil
	}
	h.folder(filepath.Join(s.Dir, "agent"), u.one("User"))
	s.Environments = h.environments(o)
	path := h.searchPath()
	if o.Ordinary {
		path = tools(s.T, s.Dir) + ":" + path
	}
	extra := append([]string{"PATH=" + path, "SERVICE_AGENT_ENVIRONMENTS=" + s.Environments, smallReserve, smallDisks}, installerVariables()...)
	s.join(h)
	s.launch(h, "agent", o, extra)
}

// environments returns the folder for Python environments that the agent's user can use. Installations with the same
// user share the folder, unless o.OwnEnvironments is set or the user cannot enter the shared cache.
func (h *host) environments(o Options) string {
	h.t.Helper()
	if h.users == nil {
		return environments(h.t, h.dir, o)
	}
	user := h.unit(h.t, "agent").one("User")
	cache := filepath.Join(Root(h.t), ".cache")
	dir := filepath.Join(cache, fmt.Sprint("agent-envs-", h.users[user].uid))
	if o.OwnEnvironments || !accessible(cache) {
		dir = filepath.Join(h.dir, "envs")
	}
	h.folder(dir, user)
	return dir
}

// installerVariables returns the environment variables that package installers need on this machine. Only the agent's
// process receives them.
func installerVariables() []string {
	var out []string
	for _, e := range os.Environ() {
		for _, prefix := range []string{"PIP_", "UV_", "SSL_CERT", "PYENV_ROOT", "LANG"} {
			if strings.HasPrefix(e, prefix) {
				out = append(out, e)
			}
		}
	}
	return out
}

// startRedis starts a Redis server and returns the settings of the installation with its URL.
func (s *Installation) startRedis(env map[string]string) map[string]string {
	s.T.Helper()
	port := freeport.Lock(s.T, 1)[0]
	p := newProcess(s.T, s.Dir, "redis", nil, redistest.Program(s.T), "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.Dir)
	s.Processes["redis"], s.Order = p, append(s.Order, "redis")
	p.Start()
	env = maps.Clone(env)
	env["SERVICE_REDIS_URL"] = "redis://127.0.0.1:" + port + "/0"
	return env
}

// startPostgres starts a database server for the installation. It returns the server and the path of a file that
// contains the server's admin URL.
func startPostgres(t testing.TB, dir string, tunable bool) (*local.Server, string) {
	t.Helper()
	bin, err := local.Find("", filepath.Join(Root(t), ".cache", "postgres"))
	require.NoError(t, err)
	data := filepath.Join(dir, "postgres")
	copyCluster(t, data)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), readyTimeout)
	defer cancel()
	server, err := local.Start(ctx, local.Config{BinDir: bin, Dir: data, Entropy: rand.Reader, Tunable: tunable})
	require.NoError(t, err)
	supervising, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var supervisor sync.WaitGroup
	supervisor.Go(func() {
		if err := server.Run(supervising); err != nil {
			t.Errorf("the database server failed: %v", err)
		}
	})
	t.Cleanup(func() {
		end()
		supervisor.Wait()
	})
	file := filepath.Join(dir, "admin-url")
	require.NoError(t, os.WriteFile(file, []byte(server.AdminURL().Reveal()), 0o600))
	return server, file
}

// setup runs the setup commands of deploy/README.md for the host.
func (h *host) setup(adminFile string) {
	h.t.Helper()
	h.runSetup("certs")
	h.runSetup("secrets")
	h.setupDatabase(adminFile)
}

// setupDatabase creates what the services need in the database.
func (h *host) setupDatabase(adminFile string) {
	h.t.Helper()
	h.runSetup("database", "--admin-url-file", adminFile)
}

func (h *host) runSetup(args ...string) {
	h.t.Helper()
	args = append(args, "--dir", "/etc/signalbox", "--root", h.dir)
	if h.users != nil {
		args = append(args, "--group", group)
	}
	out, err := exec.CommandContext(h.t.Context(), h.at("/usr/bin/signalbox-setup"), args...).CombinedOutput()
	require.NoError(h.t, err, "%s: %s", args, out)
}

// AwaitServing waits until the gateway responds and can reach auth.
func (s *Installation) AwaitServing() {
	s.T.Helper()
	c := client.New(s.URL, nil)
	require.Eventually(s.T, func() bool {
		a, err := c.Call(s.T.Context(), http.MethodGet, "/api/auth/config", nil)
		return err == nil && a.Status == http.StatusOK
	}, readyTimeout, readyEvery, "the gateway does not respond")
}

// join creates a fleet and a join token as an admin would, and joins the host to the fleet as an operator would. It
// does nothing if the host has already joined a fleet.
func (s *Installation) join(h *host) {
	s.T.Helper()
	if _, err := os.Stat(filepath.Join(s.Dir, "agent", "node")); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.T.Context(), 2*time.Minute)
	defer cancel()
	l := s.Loop(ctx)
	var fleet struct {
		ID string `json:"id"`
	}
	body := map[string]any{"name": "hosts", "kind": "agent", "pools": []string{"default"}}
	require.NoError(s.T, l.Client.Post(ctx, "/api/fleets", body, &fleet), s.Tail())
	var token struct {
		Token string `json:"token"`
	}
	require.NoError(s.T, l.Client.Post(ctx, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, &token), s.Tail())
	file := filepath.Join(s.Dir, "agent", "join-token")
	require.NoError(s.T, os.WriteFile(file, []byte(token.Token), 0o600))
	u := h.unit(s.T, "agent")
	h.setOwner(file, u.one("User"), u.one("Group"), 0o600)
	p := newProcess(s.T, s.Dir, "agent", h.environment(u))
	p.dir, p.cred = h.at(u.one("WorkingDirectory")), h.credential(u)
	p.once(h.at("/usr/bin/signalbox-agent"), "join", "--join-token-file", file)
	require.NoError(s.T, os.Remove(file))
}
