package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// signalboxd is a signalboxd process that is started as a script would start it.
type signalboxd struct {
	cmd      *exec.Cmd
	out, log *output
	done     chan struct{}
	err      error
	ready    struct {
		Address string `json:"address"`
		PID     int    `json:"pid"`
		Version string `json:"version"`
		Data    string `json:"data"`
	}
}

// output is a buffer that may be read and written concurrently.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs a program in the folder dir. When the test ends, all remaining processes of the program are killed.
func start(t *testing.T, dir string, env []string, argv ...string) *signalboxd {
	t.Helper()
	d := &signalboxd{out: &output{}, log: &output{}, done: make(chan struct{})}
	if argv == nil {
		argv = serving(t, dir, "127.0.0.1:0")
	}
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = dir, d.out, d.log
	d.cmd.Env = append(append(os.Environ(), "SERVICE_POSTGRES_CACHE="+filepath.Join(testenv.Root(t), ".cache", "postgres")), env...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, d.cmd.Start())
	go func() {
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.done
		for _, pid := range testenv.LeftProcesses(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return d
}

// serving returns the command line of a signalboxd with all data in the folder dir.
func serving(t *testing.T, dir, listen string) []string {
	t.Helper()
	return []string{
		testenv.Bin(t, "signalboxd"), "--data", filepath.Join(dir, "data"), "--listen", listen, "--ready-file", filepath.Join(dir, "ready.json"),
	}
}

// awaitReady waits until this process has written its ready file, and reads the file.
func (d *signalboxd) awaitReady(t *testing.T, dir string) {
	t.Helper()
	require.True(t, eventually(t.Context(), 90*time.Second, func() bool {
		select {
		case <-d.done:
			require.FailNow(t, "signalboxd exited", d.log.String())
		default:
		}
		raw, err := os.ReadFile(filepath.Join(dir, "ready.json"))
		return err == nil && json.Unmarshal(raw, &d.ready) == nil && d.ready.PID == d.cmd.Process.Pid
	}), d.log.String())
}

// ends waits until the process has exited. It fails the test if this takes longer than limit.
func (d *signalboxd) ends(t *testing.T, limit time.Duration) {
	t.Helper()
	select {
	case <-d.done:
	case <-time.After(limit):
		require.FailNow(t, "the process does not exit", d.log.String())
	}
}

func (d *signalboxd) interrupt(t *testing.T) {
	t.Helper()
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGINT))
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// TestServer tests the behavior of signalboxd that a person or a script can observe.
func TestServer(t *testing.T) {
	dir := testenv.Folder(t)
	first := start(t, dir, nil)
	first.awaitReady(t, dir)
	var password string
	t.Run("reports its address", func(t *testing.T) { requireReadyFile(t, first, dir) })
	t.Run("shows a password once", func(t *testing.T) { password = requireInitialPassword(t, first) })
	t.Run("port in use", func(t *testing.T) {
		fresh := testenv.Folder(t)
		address := strings.TrimPrefix(first.ready.Address, "http://")
		second := start(t, fresh, nil, serving(t, fresh, address)...)
		second.ends(t, 20*time.Second)
		require.Error(t, second.err)
		require.Contains(t, second.log.String(), "the address "+address+" is in use by another process")
		require.NoFileExists(t, filepath.Join(fresh, "ready.json"))
		require.Empty(t, testenv.LeftProcesses(fresh))
	})
	t.Run("data folder in use", func(t *testing.T) {
		second := start(t, t.TempDir(), nil, serving(t, dir, "127.0.0.1:0")...)
		second.ends(t, 20*time.Second)
		require.Error(t, second.err)
		require.Contains(t, second.log.String(), filepath.Join(dir, "data")+" is in use by another signalboxd")
	})
	t.Run("still serves", func(t *testing.T) { require.NoError(t, login(t, first, password)) })
	t.Run("one signal ends the process", func(t *testing.T) {
		began := time.Now()
		first.interrupt(t)
		first.ends(t, 20*time.Second)
		require.NoError(t, first.err, first.log.String())
		require.LessOrEqual(t, time.Since(began), stopLimit)
		require.Empty(t, testenv.LeftProcesses(dir))
	})
	t.Run("password kept and not shown again", func(t *testing.T) {
		again := start(t, dir, nil)
		again.awaitReady(t, dir)
		require.NotContains(t, again.out.String(), "First login")
		require.NoError(t, login(t, again, password))
		t.Run("second signal ends a hanging stop", func(t *testing.T) { interruptTwice(t, again, dir) })
	})
}

func requireReadyFile(t *testing.T, d *signalboxd, dir string) {
	t.Helper()
	require.Equal(t, filepath.Join(dir, "data"), d.ready.Data)
	require.NotEmpty(t, d.ready.Version)
	require.Regexp(t, `^http://127\.0\.0\.1:[1-9][0-9]+$`, d.ready.Address, "with port 0, signalboxd must choose a free port")
	c := client.New(d.ready.Address, nil)
	a, err := c.Call(t.Context(), http.MethodGet, "/healthz", nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"status": "ok"}`, string(a.Body))
	var version map[string]any
	require.NoError(t, c.Get(t.Context(), "/api/version", nil, &version))
	require.Contains(t, string(must(version)), d.ready.Version)
	raw, err := os.ReadFile(filepath.Join(dir, "ready.json"))
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	require.Len(t, fields, 4)
}

// requireInitialPassword returns the password that the first start prints, after checking that it permits a login.
func requireInitialPassword(t *testing.T, d *signalboxd) string {
	t.Helper()
	match := regexp.MustCompile(`First login \(shown once\): admin / (\S+)`).FindAllStringSubmatch(d.out.String(), -1)
	require.Len(t, match, 1, d.out.String())
	password := match[0][1]
	require.GreaterOrEqual(t, len(password), 16)
	require.NotContains(t, d.log.String(), password, "the log must not contain the password")
	require.NoError(t, login(t, d, password))
	require.Error(t, login(t, d, password+"x"))
	return password
}

func login(t *testing.T, d *signalboxd, password string) error {
	t.Helper()
	l := &e2eflow.Loop{Client: client.New(d.ready.Address, nil), Clock: clock.Real(), Timeout: 10 * time.Second}
	return l.Login(t.Context(), "admin", secret.New(password))
}

// interruptTwice freezes the database, so that the stop after the first signal hangs. It then sends a second
// signal.
func interruptTwice(t *testing.T, d *signalboxd, dir string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "data", "postgres", "data", "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	d.interrupt(t)
	select {
	case <-d.done:
		require.FailNow(t, "signalboxd must wait for its database", d.log.String())
	case <-time.After(500 * time.Millisecond):
	}
	d.interrupt(t)
	d.ends(t, time.Second)
	require.Error(t, d.err, "a stop that is cut short must return an error")
}

func TestPrintConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	random := make([]byte, 64)
	_, _ = rand.Read(random)
	keyring, signing := base64.StdEncoding.EncodeToString(random[:32]), base64.StdEncoding.EncodeToString(random)
	d := start(t, dir, []string{
		"SERVICE_BOOTSTRAP_ADMIN_PASSWORD=hunter2hunter2", "SERVICE_DATABASE_ADMIN_URL=postgres://u:sesame@db/x",
		"SERVICE_BLOB_S3_SECRET_KEY=opensesame", "SERVICE_BLOB_SIGNING_KEY=" + signing, "SERVICE_KEYRING=k1 " + keyring,
	}, testenv.Bin(t, "signalboxd"), "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:7", "--print-config")
	d.ends(t, 20*time.Second)
	require.NoError(t, d.err, d.log.String())
	text := d.out.String()
	for _, word := range []string{"hunter2", "sesame", keyring[:12], signing[:12]} {
		require.NotContains(t, text+d.log.String(), word)
	}
	for _, want := range []string{
		"SERVICE_DATA=" + filepath.Join(dir, "data"), "SERVICE_LISTEN=127.0.0.1:7", "SERVICE_BOOTSTRAP_ADMIN_PASSWORD=[redacted]",
		"SERVICE_DATABASE_ADMIN_URL=[redacted]", "SERVICE_JOBS_FENCE_TIMEOUT=2m", "SERVICE_AUTH_LEASE=10m", "SERVICE_JWT_HOURS=8",
		"SERVICE_AGENT_CACHE_BYTES=", "SERVICE_BLOB_DRIVER=fs", "SERVICE_REDIS_URL=", "SERVICE_LOG_LEVEL=info",
	} {
		require.Contains(t, "\n"+text, "\n"+want)
	}
	require.NoDirExists(t, filepath.Join(dir, "data"), "the command must start nothing")
}

// TestPostgresFromCache hides all Postgres servers of the machine, so that only the server in the project's
// cache can be used.
func TestPostgresFromCache(t *testing.T) {
	dir := testenv.Folder(t)
	script := exec.CommandContext(t.Context(), filepath.Join(testenv.Root(t), "scripts", "tools", "postgres.sh"))
	script.Env = append(os.Environ(), "HIDE_POSTGRES=1")
	out, err := script.Output()
	require.NoError(t, err)
	cache := strings.TrimSpace(string(out))
	d := start(t, dir, []string{"SERVICE_POSTGRES_BIN=", "PATH=" + withoutPostgres(t, dir)}, hidingPostgres(t, serving(t, dir, "127.0.0.1:0"))...)
	d.awaitReady(t, dir)
	found := false
	for _, pid := range testenv.LeftProcesses(dir) {
		program, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if err == nil && filepath.Base(program) == "postgres" {
			found = true
			require.Equal(t, cache, filepath.Dir(program))
		}
	}
	require.True(t, found, "no Postgres is running")
	t.Run("error without the cache names the command", func(t *testing.T) {
		fresh := testenv.Folder(t)
		d := start(t, fresh, []string{"SERVICE_POSTGRES_BIN=", "SERVICE_POSTGRES_CACHE=" + fresh, "PATH=" + withoutPostgres(t, fresh)},
			hidingPostgres(t, serving(t, fresh, "127.0.0.1:0"))...)
		d.ends(t, 20*time.Second)
		require.Error(t, d.err)
		require.Contains(t, d.log.String(), "no Postgres server found")
		require.Contains(t, d.log.String(), "make demo")
	})
}

// withoutPostgres returns a PATH with links to all programs in the test's PATH except postgres and initdb.
func withoutPostgres(t *testing.T, dir string) string {
	t.Helper()
	only := filepath.Join(dir, "path")
	require.NoError(t, os.MkdirAll(only, 0o755))
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(from)
		for _, e := range entries {
			if e.Name() != "postgres" && e.Name() != "initdb" {
				_ = os.Symlink(filepath.Join(from, e.Name()), filepath.Join(only, e.Name()))
			}
		}
	}
	return only
}

// hidingPostgres returns a command line that runs argv. If Debian's Postgres folder exists, the command sees an empty
// folder in its place.
func hidingPostgres(t *testing.T, argv []string) []string {
	t.Helper()
	const debian = "/usr/lib/postgresql"
	if _, err := os.Stat(debian); err != nil {
		return argv
	}
	hide := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		hide = append(hide, "--user", "--map-current-user", "--keep-caps")
	}
	hide = append(hide, "sh", "-c", `mount -t tmpfs none `+debian+` && exec "$@"`, "sh")
	return append(hide, argv...)
}
