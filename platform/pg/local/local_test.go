package local

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// config returns an unsafe, fast configuration; tests of durability reset Unsafe.
func config(t *testing.T) Config {
	t.Helper()
	bin, err := Find("", "../../../.cache/postgres")
	require.NoError(t, err)
	return Config{BinDir: bin, Dir: t.TempDir(), Unsafe: true}
}

// existing returns the configuration of a folder with an empty cluster, for tests that do not test its creation.
func existing(t *testing.T) Config {
	t.Helper()
	cfg := config(t)
	pgtest.Cluster(t, cfg.Dir)
	return cfg
}

func begin(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

func query(t *testing.T, s *Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.AdminURL().Reveal())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var out string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&out))
	return out
}

func execute(t *testing.T, s *Server, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.AdminURL().Reveal())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestStart_restartKeepsRowsPortAndPassword(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Unsafe = false
	s := begin(t, cfg)
	execute(t, s, `CREATE TABLE kept AS SELECT 'yes'::text AS word`)
	for setting, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "data_checksums": "on",
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "TimeZone": "UTC",
	} {
		require.Equal(t, want, query(t, s, "SHOW "+setting), setting)
	}
	require.Equal(t, "C C.UTF-8", query(t, s, `SELECT datcollate || ' ' || datctype FROM pg_database WHERE datname = 'postgres'`))
	require.NoError(t, s.Stop(t.Context()))
	require.False(t, alive(s.PID()), "the server has exited")

	again := begin(t, cfg)
	require.Equal(t, "yes", query(t, again, `SELECT word FROM kept`))
	require.Equal(t, s.AdminURL().Reveal(), again.AdminURL().Reveal())
	info, err := os.Stat(filepath.Join(cfg.Dir, "password"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// By default, a client tries TLS on one connection and opens a second one after the refusal.
func TestServer_AdminURL_connectsOnce(t *testing.T) {
	t.Parallel()
	s := begin(t, existing(t))
	cfg, err := pgx.ParseConfig(s.AdminURL().Reveal())
	require.NoError(t, err)
	var dials atomic.Int32
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return dial(ctx, network, addr)
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.EqualValues(t, 1, dials.Load())
}

func TestStart_lastPortTaken(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	require.NoError(t, s.Stop(t.Context()))
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", s.Port()))
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	again := begin(t, cfg)
	require.NotEqual(t, s.Port(), again.Port())
	require.Equal(t, "1", query(t, again, `SELECT '1'`))
}

func TestStart_folderInUse(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	begin(t, cfg)
	_, err := Start(t.Context(), cfg)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
}

func TestStart_recoversAfterSIGKILL(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Unsafe = false
	s := begin(t, cfg)
	execute(t, s, `CREATE TABLE kept AS SELECT 'yes'::text AS word`)
	require.NoError(t, syscall.Kill(s.PID(), syscall.SIGKILL))
	<-s.Exited()
	require.NoError(t, s.Stop(t.Context()))
	again := begin(t, cfg)
	require.Equal(t, "yes", query(t, again, `SELECT word FROM kept`))
}

func TestServer_Run_stopsWithContext(t *testing.T) {
	t.Parallel()
	s := begin(t, existing(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	cancel()
	require.NoError(t, <-done)
	require.False(t, alive(s.PID()))
}

// The parent of a server is killed with SIGKILL: the server must exit, and the next
// start must find all rows. The child process is this test binary.
func TestStart_serverExitsWithParent(t *testing.T) {
	if dir := os.Getenv("LOCAL_TEST_CHILD_DIR"); dir != "" {
		actAsParent(t, dir)
		return
	}
	t.Parallel()
	cfg := config(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestStart_serverExitsWithParent$", "-test.count=1")
	cmd.Env = append(os.Environ(), "LOCAL_TEST_CHILD_DIR="+cfg.Dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	pid := 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "server "); ok {
			pid, err = strconv.Atoi(text)
			require.NoError(t, err)
			break
		}
	}
	require.NotZero(t, pid, "the child must start its server")
	require.True(t, alive(pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return !serves(pid, filepath.Join(cfg.Dir, "data")) }, time.Minute, 5*time.Millisecond,
		"the server must exit with its parent, before the next start")
	require.Equal(t, "yes", query(t, begin(t, cfg), `SELECT word FROM kept`))
}

func actAsParent(t *testing.T, dir string) {
	t.Helper()
	cfg := config(t)
	cfg.Dir = dir
	s, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	execute(t, s, `CREATE TABLE kept AS SELECT 'yes'::text AS word`)
	fmt.Printf("server %d\n", s.PID())
	<-s.Exited()
}

// A server may outlive its parent if the kernel does not deliver Pdeathsig. The test starts a server without
// Pdeathsig.
func TestStart_endsLeftoverServer(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	require.NoError(t, s.Stop(t.Context()))
	id, err := chooseIdentity(t.Context(), cfg.BinDir)
	require.NoError(t, err)
	c := &cluster{cfg: cfg, data: filepath.Join(cfg.Dir, "data")}
	cmd := command(t.Context(), id, cfg.BinDir, "postgres", c.settings(s.Port())...)
	cmd.SysProcAttr.Pdeathsig = 0
	left, err := spawn(cmd)
	require.NoError(t, err)
	require.NoError(t, c.awaitOpen(t.Context(), left, s.Port(), s.AdminURL()))
	again := begin(t, cfg)
	<-left.done
	require.Equal(t, s.Port(), again.Port(), "the port is free again")
	require.Equal(t, "1", query(t, again, `SELECT '1'`))
}

func TestStart_stalePidFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"process is not Postgres": fmt.Sprintf("%d\n", os.Getpid()),
		"process has exited":      "4194303\n",
		"truncated":               "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := existing(t)
			s := begin(t, cfg)
			require.NoError(t, s.Stop(t.Context()))
			require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "data", "postmaster.pid"), []byte(text), 0o600))
			again := begin(t, cfg)
			require.Equal(t, "1", query(t, again, `SELECT '1'`))
		})
	}
}

func TestStart_afterKilledInitdb(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	half := filepath.Join(cfg.Dir, "data.new")
	require.NoError(t, os.MkdirAll(half, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("15\n"), 0o600))
	require.Equal(t, "1", query(t, begin(t, cfg), `SELECT '1'`))
}

func TestStart_clusterOfOtherVersion(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	require.NoError(t, os.MkdirAll(filepath.Join(cfg.Dir, "data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "data", "PG_VERSION"), []byte("9\n"), 0o600))
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "was created by Postgres 9")
}

func TestStart_errorHasServerLog(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "data", "postgresql.conf"), []byte("no_such_setting = 1\n"), 0o600))
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "no_such_setting")
}

// If the test runs as root, it starts the server with both identities for root, and switches from one to the other.
func TestStart_asRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		s := begin(t, config(t))
		require.Equal(t, "1", query(t, s, `SELECT '1'`), "not root: runs as the current user")
		return
	}
	cfg := config(t)
	for _, id := range []*identity{inNamespace(), asNobody(), inNamespace()} {
		cfg.identity = id
		s, err := Start(t.Context(), cfg)
		require.NoError(t, err, id.name)
		execute(t, s, `CREATE TABLE IF NOT EXISTS kept (word text)`)
		require.NoError(t, s.Stop(t.Context()), id.name)
	}
}
