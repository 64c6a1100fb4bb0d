package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// container is a service of deploy/compose/compose.yaml, as tools/compose prints it.
type container struct {
	Image       string            `json:"image"`
	User        string            `json:"user"`
	Groups      []string          `json:"group_add"`
	ReadOnly    bool              `json:"read_only"`
	Privileged  bool              `json:"privileged"`
	Dropped     []string          `json:"cap_drop"`
	Added       []string          `json:"cap_add"`
	Security    []string          `json:"security_opt"`
	Restart     string            `json:"restart"`
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment"`
	Volumes     []mount           `json:"volumes"`
	DependsOn   map[string]struct {
		Condition string `json:"condition"`
	} `json:"depends_on"`
	Health *struct {
		Test []string `json:"test"`
	} `json:"healthcheck"`
}

type mount struct {
	Type   string `json:"type"`
	Source string `json:"source"`
	Target string `json:"target"`
}

// program returns the name of the program in the container's image.
func (c container) program() string {
	name, _, _ := strings.Cut(path.Base(c.Image), ":")
	return name
}

// Containers is the installation of deploy/compose. In place of each container there is a process with the container's
// command, settings, user and groups. It has a loopback address of its own, and the volumes are folders. Nothing
// restricts what it may write and reach, as Compose would.
type Containers struct {
	*Installation

	// Addresses are the addresses of the containers by name.
	Addresses map[string]string

	containers map[string]container
	programs   string
	admin      string // file with the admin's URL of the database server
}

// Compose starts the installation of deploy/compose for a host name. Caddy uses an authority of its own. The test must
// run as root, because the containers have users of their own and Caddy uses the ports 80 and 443.
func Compose(t testing.TB, site string) *Containers {
	t.Helper()
	require.Zero(t, os.Geteuid(), "a test of deploy/compose must run as root")
	dir := Folder(t)
	require.NoError(t, os.Chmod(dir, 0o711))
	c := &Containers{
		Installation: &Installation{T: t, Dir: dir, URL: "https://" + site, Processes: map[string]*Process{}},
		Addresses:    map[string]string{},
	}
	c.containers = readCompose(t, "SITE_HOST="+site, "SITE_TLS=internal", "TAG=v1", "FRONT_SUBNET=127.0.0.0/31") // loopback connections come from 127.0.0.1
	t.Cleanup(func() { sweep(t, dir) })                                                                          // runs after close has stopped the processes
	c.Postgres, c.admin = startPostgres(t, dir, false)
	t.Cleanup(c.close) // runs before the database stops
	c.programs = (&host{t: t, dir: dir, users: map[string]account{}}).programs(programs(t), "bin")
	c.address()
	c.prepare()
	for _, name := range slices.Sorted(maps.Keys(c.containers)) {
		c.start(name)
	}
	return c
}

// readCompose returns the containers of deploy/compose with the given variables.
func readCompose(t testing.TB, variables ...string) map[string]container {
	t.Helper()
	root := Root(t)
	// Go repeats a cached test if a file that the test itself has read has changed, so read the inputs of the program here.
	for _, pattern := range []string{"deploy/compose/*", "deploy/env/*", "tools/compose/*.go", "tools/go.mod"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			_, err := os.Stat(file)
			require.NoError(t, err)
		}
	}
	args := append([]string{"run", "./compose", filepath.Join(root, "deploy", "compose", "compose.yaml")}, variables...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = filepath.Join(root, "tools"), append(os.Environ(), "GOWORK=off"), os.Stderr
	raw, err := cmd.Output()
	require.NoError(t, err)
	var project struct {
		Services map[string]container `json:"services"`
	}
	require.NoError(t, json.Unmarshal(raw, &project))
	return project.Services
}

// address gives each container an address in a loopback network that this test has chosen.
func (c *Containers) address() {
	network := fmt.Sprintf("127.%d.%d.", 64+mathrand.IntN(128), mathrand.IntN(256))
	for n, name := range slices.Sorted(maps.Keys(c.containers)) {
		c.Addresses[name] = network + strconv.Itoa(n+1)
	}
}

// prepare creates the volumes, with the owner and mode that the images give them, the secret of the database and the
// groups of the images.
func (c *Containers) prepare() {
	c.T.Helper()
	const nonroot = 65532
	for name, one := range c.containers {
		for _, m := range one.Volumes {
			dir := filepath.Join(c.Dir, m.Target)
			switch {
			case m.Type == "bind":
				raw, err := os.ReadFile(m.Source)
				require.NoError(c.T, err)
				require.NoError(c.T, os.MkdirAll(filepath.Dir(dir), 0o755))
				require.NoError(c.T, os.WriteFile(dir, []byte(c.translate(name, one, string(raw))), 0o644))
			case m.Source == "config":
				require.NoError(c.T, os.MkdirAll(dir, 0o755))
				require.NoError(c.T, errors.Join(os.Chown(dir, 0, nonroot), os.Chmod(dir, 0o750)))
			default:
				require.NoError(c.T, os.MkdirAll(dir, 0o755))
				require.NoError(c.T, errors.Join(os.Chown(dir, nonroot, nonroot), os.Chmod(dir, 0o700)))
			}
		}
	}
	groups, err := os.ReadFile(filepath.Join(Root(c.T), "tools", "images", "etc", "group"))
	require.NoError(c.T, err)
	require.NoError(c.T, os.WriteFile(filepath.Join(c.Dir, "etc", "group"), groups, 0o600))
}

// translate replaces the names and addresses of containers by their loopback addresses, and the paths in the container's
// volumes and of its programs by those of the test.
func (c *Containers) translate(name string, one container, text string) string {
	names := strings.Join(slices.Collect(maps.Keys(c.containers)), "|")
	text = regexp.MustCompile(`\b(`+names+`):(\d+)\b`).ReplaceAllStringFunc(text, func(peer string) string {
		host, port, _ := strings.Cut(peer, ":")
		return c.Addresses[host] + ":" + port
	})
	pairs := []string{"0.0.0.0", c.Addresses[name], "127.0.0.1", c.Addresses[name], "/usr/bin/", c.programs + "/", "/run/secrets/postgres-admin-url", c.admin}
	for _, m := range one.Volumes {
		pairs = append(pairs, m.Target, filepath.Join(c.Dir, m.Target))
	}
	// In its network namespace, Caddy may listen on all addresses.
	pairs = append(pairs, "admin off", "admin off\n\tdefault_bind "+c.Addresses[name])
	return strings.NewReplacer(pairs...).Replace(text)
}

// start starts the process of a container after those on which it depends, in the state that the file demands.
func (c *Containers) start(name string) {
	c.T.Helper()
	if name == "postgres" || c.Processes[name] != nil {
		return // the database server runs already
	}
	one, ok := c.containers[name]
	require.True(c.T, ok, name)
	// All of them start before one is awaited, because a service can be healthy only when others run.
	for other := range one.DependsOn {
		c.start(other)
	}
	for other, condition := range one.DependsOn {
		switch condition.Condition {
		case "service_completed_successfully":
			c.finish(other)
		case "service_healthy":
			c.awaitHealthy(other)
		default:
			require.FailNow(c.T, "unexpected condition "+condition.Condition)
		}
	}
	p := newProcess(c.T, c.Dir, name, c.environment(name, one), c.command(name, one)...)
	p.cred = credential(c.T, one)
	c.Processes[name], c.Order = p, append(c.Order, name)
	p.Start()
}

func (c *Containers) environment(name string, one container) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, key := range slices.Sorted(maps.Keys(one.Environment)) {
		env = append(env, key+"="+c.translate(name, one, one.Environment[key]))
	}
	return env
}

// command returns the command of a container: the entrypoint of its image and the arguments of the file.
func (c *Containers) command(name string, one container) []string {
	c.T.Helper()
	if name == "caddy" {
		argv := []string{Tool(c.T.Context(), c.T, "caddy.sh")}
		for _, arg := range one.Command[1:] {
			argv = append(argv, c.translate(name, one, arg))
		}
		return argv
	}
	argv := []string{filepath.Join(c.programs, one.program())}
	if one.program() != "signalbox-setup" {
		return append(argv, one.Command...)
	}
	// The program finds the folder of --dir and the groups of its image below --root.
	for _, arg := range one.Command {
		argv = append(argv, strings.ReplaceAll(arg, "/run/secrets/postgres-admin-url", c.admin))
	}
	return append(argv, "--root", c.Dir)
}

// credential returns the user and groups of a container, or nil for root.
func credential(t testing.TB, one container) *syscall.Credential {
	t.Helper()
	if one.User == "" || one.User == "0:0" {
		return nil
	}
	id := func(text string) uint32 {
		n, err := strconv.ParseUint(text, 10, 32)
		require.NoError(t, err)
		return uint32(n)
	}
	uid, gid, _ := strings.Cut(one.User, ":")
	cred := &syscall.Credential{Uid: id(uid), Gid: id(gid)}
	for _, g := range one.Groups {
		cred.Groups = append(cred.Groups, id(g))
	}
	return cred
}

// finish waits until the process of a container has ended without an error.
func (c *Containers) finish(name string) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), readyTimeout)
	defer cancel()
	select {
	case <-c.Processes[name].Exited():
		require.NoError(c.T, c.Processes[name].Err(), c.Processes[name].Tail())
	case <-ctx.Done():
		require.FailNow(c.T, name+" does not end", c.Processes[name].Tail())
	}
}

// awaitHealthy runs the health check of a container until it succeeds.
func (c *Containers) awaitHealthy(name string) {
	c.T.Helper()
	if name == "postgres" {
		return
	}
	one, p := c.containers[name], c.Processes[name]
	require.NotNil(c.T, one.Health, name)
	require.Equal(c.T, "CMD", one.Health.Test[0])
	var argv []string
	for _, arg := range one.Health.Test[1:] {
		argv = append(argv, c.translate(name, one, arg))
	}
	ctx, cancel := context.WithTimeout(c.T.Context(), readyTimeout)
	defer cancel()
	c.Until(ctx, name+" is healthy", func() bool {
		select {
		case <-p.Exited():
			require.FailNow(c.T, name+" has ended", p.Tail())
		default:
		}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env, cmd.SysProcAttr = p.env, &syscall.SysProcAttr{Credential: p.cred}
		return cmd.Run() == nil
	})
}
