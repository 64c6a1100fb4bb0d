package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pidFile holds fields of postmaster.pid, which a Postgres server writes (pidfile.h).
type pidFile struct {
	pid    int
	port   int
	status string
}

func readPidFile(data string) (pidFile, error) {
	raw, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return pidFile{}, err
	}
	lines := strings.Split(string(raw), "\n")
	var f pidFile
	if f.pid, err = strconv.Atoi(strings.TrimSpace(lines[0])); err != nil {
		return pidFile{}, fmt.Errorf("read postmaster.pid: %w", err)
	}
	if len(lines) > 3 {
		f.port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
	}
	if len(lines) > 7 {
		f.status = strings.TrimSpace(lines[7])
	}
	return f, nil
}

// endOld stops a server of the data folder that outlived its parent. The caller holds the lock of the folder, so no
// other process uses that server.
func endOld(ctx context.Context, data string) error {
	f, err := readPidFile(data)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && !alive(f.pid) {
		return nil // the next server detects the stale file and recovers
	}
	if err != nil || !serves(f.pid, data) {
		// The file was truncated by a power loss, or another process now has the pid. The next server would mistake
		// that process for a running server.
		if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil {
			return fmt.Errorf("remove the stale postmaster.pid: %w", err)
		}
		return nil
	}
	for _, step := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGINT, 5 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := syscall.Kill(f.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the leftover Postgres process %d: %w", f.pid, err)
		}
		gone, err := waitGone(ctx, f.pid, data, step.limit)
		if gone || err != nil {
			return err
		}
	}
	return fmt.Errorf("the leftover Postgres process %d in %s does not exit", f.pid, data)
}

func waitGone(ctx context.Context, pid int, data string, limit time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for serves(pid, data) {
		if wait(limited, 10*time.Millisecond) != nil {
			return false, ctx.Err()
		}
	}
	return true, nil
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// serves reports whether the process is a server of this data folder. A zombie has no
// command line, so a zombie does not count.
func serves(pid int, data string) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	return bytes.Contains(raw, []byte("postgres\x00-D\x00"+data+"\x00"))
}
