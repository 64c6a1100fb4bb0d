package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest/pgserver/uselock"
)

const serverPackage = "github.com/signalbox-dev/signalbox/test/pgtest/pgserver"

// shared locks this user's server against being stopped, starts the server if necessary and connects to it.
// The process pgserver owns the server and stops it when no process has had a lock for a while. The kernel
// releases the lock when the test process ends.
func shared(ctx context.Context) (*pgx.Conn, func(), error) {
	dir, err := folder()
	if err != nil {
		return nil, nil, err
	}
	lock, err := uselock.Shared(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	conn, err := running(ctx, dir)
	if err != nil {
		conn, err = begin(ctx, dir)
	}
	if err != nil {
		lock.Release()
		return nil, nil, err
	}
	return conn, lock.Release, nil
}

// folder returns the server's folder. The folder is private to the user because it contains the admin's
// password.
func folder() (string, error) {
	dir := filepath.Join(TempDir(), "signalbox-pgserver-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("create the test server's folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("stat the test server's folder: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm() != 0o700 {
		return "", fmt.Errorf("%s is not a private folder of this user; remove it", dir)
	}
	return dir, nil
}

// running connects to the server if it accepts connections.
func running(ctx context.Context, dir string) (*pgx.Conn, error) {
	raw, err := os.ReadFile(filepath.Join(dir, uselock.URLFile))
	if err != nil {
		return nil, fmt.Errorf("read the test server's address: %w", err)
	}
	return connect(ctx, secret.New(strings.TrimSpace(string(raw))))
}

// begin starts pgserver. If pgserver is already running, the server is starting or stopping, and begin waits
// until that is done. If ctx ends meanwhile, begin must not start a second pgserver.
func begin(ctx context.Context, dir string) (*pgx.Conn, error) {
	unlock, err := uselock.Exclusive(ctx, filepath.Join(dir, "start.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	for uselock.Owned(dir) {
		conn, err := running(ctx, dir)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil || uselock.Pause(ctx, 20*time.Millisecond) != nil {
			return nil, err
		}
	}
	if err := os.Remove(filepath.Join(dir, uselock.URLFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale address: %w", err)
	}
	program := filepath.Join(dir, "pgserver")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, serverPackage).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build test/pgtest/pgserver (or set TEST_DATABASE_URL): %w: %s", err, out)
	}
	pid, err := spawn(program, dir)
	if err != nil {
		return nil, err
	}
	return await(ctx, dir, pid)
}

// spawn starts pgserver in a new session, because pgserver outlives this process.
func spawn(program, dir string) (int, error) {
	log, err := os.OpenFile(filepath.Join(dir, "pgserver.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open the log of pgserver: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program, "serve", dir, os.Getenv("SERVICE_POSTGRES_BIN"), moduleCache())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start pgserver: %w", err)
	}
	pid := cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// await polls until the server accepts connections or pgserver has exited. It does not use a goroutine,
// which would run as long as pgserver.
func await(ctx context.Context, dir string, pid int) (*pgx.Conn, error) {
	for {
		if conn, err := running(ctx, dir); err == nil {
			return conn, nil
		}
		var status syscall.WaitStatus
		if got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); err == nil && got == pid {
			log, _ := os.ReadFile(filepath.Join(dir, "pgserver.log"))
			return nil, fmt.Errorf("pgserver exited: %s", log)
		}
		if err := uselock.Pause(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the test server: %w", err)
		}
	}
}

// moduleCache returns the folder in .cache where scripts/tools/postgres.sh installs Postgres if the machine
// has none.
func moduleCache() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, ".cache", "postgres")
		}
	}
	return ""
}
