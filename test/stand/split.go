package stand

import (
	"bufio"
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
)

// services are the units of the split shape in the order of their start; the agent comes last.
var services = []string{"auth", "jobs", "ingest", "registry", "inference", "gateway"}

// unit is what the suite reads of a systemd unit.
type unit struct {
	env   []string // of its environment files
	pre   []string
	start []string
}

// rewriter moves a unit from its places on a host into the stand's folder.
type rewriter struct{ pairs []string }

func (r rewriter) apply(s string) string { return strings.NewReplacer(r.pairs...).Replace(s) }

// ports of the environment files, which get free ones instead.
var ports = []string{"8080", "7101", "7102", "7103", "7104", "7105", "7112", "7123", "7125"}

// Split starts every service and the agent as a process of its own, over TCP with mutual TLS.
func Split(t testing.TB, o Options) *Stand {
	t.Helper()
	dir := folder(t, o)
	pass, passFile := password(t, dir)
	s := &Stand{T: t, Password: pass, Dir: dir, Environments: environments(t, dir, o), Processes: map[string]*Process{}}
	admin := startPostgres(t, dir)
	t.Cleanup(s.close) // before the database ends
	free := freePorts(t, len(ports))
	r := rewriter{pairs: []string{
		"/etc/signalbox", filepath.Join(dir, "etc"), "/var/lib/signalbox-agent", filepath.Join(dir, "agent"),
		"/var/lib/signalbox", filepath.Join(dir, "lib"), "/usr/bin/", filepath.Join(Root(t), "bin") + "/",
	}}
	for i, p := range ports {
		r.pairs = append(r.pairs, ":"+p, ":"+free[i])
	}
	s.setup(admin)
	extra := []string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD_FILE=" + passFile}
	for k, v := range o.Env {
		extra = append(extra, k+"="+v)
	}
	for _, name := range services {
		u := readUnit(t, r, name)
		s.launch(name, u, extra)
	}
	s.URL = "http://127.0.0.1:" + free[0]
	s.AwaitServing()
	s.join(r)
	s.launch("agent", readUnit(t, r, "agent"), []string{"SERVICE_AGENT_ENVIRONMENTS=" + s.Environments})
	return s
}

// launch runs a unit's ExecStartPre and starts its ExecStart.
func (s *Stand) launch(name string, u unit, extra []string) {
	s.T.Helper()
	env := append(append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, passed()...), append(u.env, extra...)...)
	if len(u.pre) > 0 {
		cmd := exec.CommandContext(s.T.Context(), u.pre[0], u.pre[1:]...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		require.NoError(s.T, err, "%s: %s", u.pre, out)
	}
	p := newProcess(s.T, s.Dir, name, env, u.start...)
	s.Processes[name], s.Order = p, append(s.Order, name)
	p.Start()
	s.T.Logf("%s: process %d", name, p.PID())
}

// passed is what package installers of this machine need, and nothing of the test's own settings.
func passed() []string {
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

func readUnit(t testing.TB, r rewriter, name string) unit {
	t.Helper()
	var u unit
	for _, line := range lines(t, filepath.Join(Root(t), "deploy", "systemd", "signalbox-"+name+".service")) {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "EnvironmentFile":
			file := filepath.Join(Root(t), "deploy", "env", filepath.Base(value))
			for _, l := range lines(t, file) {
				u.env = append(u.env, r.apply(l))
			}
		case "ExecStartPre":
			u.pre = strings.Fields(r.apply(value))
		case "ExecStart":
			u.start = strings.Fields(r.apply(value))
		}
	}
	require.NotEmpty(t, u.start, name)
	return u
}

// lines are the lines of a file that are no comments.
func lines(t testing.TB, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	var out []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if line := strings.TrimSpace(scan.Text()); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// startPostgres runs a server for the stand and answers the file with its admin's URL.
func startPostgres(t testing.TB, dir string) string {
	t.Helper()
	bin, err := local.Find("", filepath.Join(Root(t), ".cache", "postgres"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), readyTimeout)
	defer cancel()
	server, err := local.Start(ctx, local.Config{BinDir: bin, Dir: filepath.Join(dir, "postgres"), Entropy: rand.Reader})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	file := filepath.Join(dir, "admin-url")
	require.NoError(t, os.WriteFile(file, []byte(server.AdminURL().Reveal()), 0o600))
	return file
}

// setup runs the commands that deploy/README.md gives.
func (s *Stand) setup(adminFile string) {
	s.T.Helper()
	etc := filepath.Join(s.Dir, "etc")
	for _, args := range [][]string{
		{"certs", "--dir", etc}, {"secrets", "--dir", etc}, {"database", "--dir", etc, "--admin-url-file", adminFile},
	} {
		out, err := exec.CommandContext(s.T.Context(), Bin(s.T, "signalbox-setup"), args...).CombinedOutput()
		require.NoError(s.T, err, "%s: %s", args, out)
	}
	require.NoError(s.T, os.MkdirAll(filepath.Join(s.Dir, "lib"), 0o700))
}

// AwaitServing waits until the gateway answers and every service behind it can be reached.
func (s *Stand) AwaitServing() {
	s.T.Helper()
	c := client.New(s.URL, nil)
	require.Eventually(s.T, func() bool {
		a, err := c.Call(s.T.Context(), http.MethodGet, "/api/auth/config", nil)
		return err == nil && a.Status == http.StatusOK
	}, readyTimeout, readyEvery, "the gateway does not serve")
}

// join makes a fleet and a join token for the agent, as an admin would.
func (s *Stand) join(r rewriter) {
	s.T.Helper()
	file := r.apply("/etc/signalbox/secrets/join-token")
	if _, err := os.Stat(file); err == nil {
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
	require.NoError(s.T, os.WriteFile(file, []byte(token.Token), 0o600))
}
