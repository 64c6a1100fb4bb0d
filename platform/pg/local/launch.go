package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// errPassing marks start failures that may be temporary: another program has taken the port, or backends of a killed
// server are still running.
var errPassing = errors.New("postgres did not start")

func passing(err error) bool { return errors.Is(err, errPassing) }

// The ports from which choosePort chooses lie below those that Linux gives to any program that requests a free port (32768
// and above by default). A program could otherwise get the port while the server is down.
const (
	firstPort = 10000
	ports     = 10000
	portTries = 20
	automatic = 32768
)

// choosePort returns a free port, preferably that of the last start.
func (c *cluster) choosePort(ctx context.Context) (int, error) {
	raw, _ := os.ReadFile(filepath.Join(c.cfg.Dir, "port"))
	kept, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	var err error
	if kept > 0 && kept < automatic {
		if err = free(ctx, kept); err == nil {
			return kept, nil
		}
	}
	for range portTries {
		port := firstPort + rand.N(ports)
		if err = free(ctx, port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port on 127.0.0.1: all %d tries failed, the last with: %w", portTries, err)
}

// free returns an error if the port is in use.
func free(ctx context.Context, port int) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

func (c *cluster) keepPort(port int) error {
	if err := writeFile(filepath.Join(c.cfg.Dir, "port"), strconv.Itoa(port)+"\n"); err != nil {
		return fmt.Errorf("write the Postgres port: %w", err)
	}
	return nil
}

func (c *cluster) settings(port int) []string {
	pairs := []string{
		"port=" + strconv.Itoa(port), "listen_addresses=127.0.0.1", "unix_socket_directories=",
		"max_connections=" + strconv.Itoa(max(c.cfg.MaxConnections, 200)),
		"timezone=UTC", "log_timezone=UTC", "jit=off", "log_checkpoints=off", "password_encryption=scram-sha-256",
	}
	durable := "on"
	if c.cfg.Unsafe {
		durable = "off"
		pairs = append(pairs, "autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1h")
	}
	if !c.cfg.Tunable {
		pairs = append(pairs, "fsync="+durable, "full_page_writes="+durable, "synchronous_commit="+durable)
	}
	args := make([]string, 0, 2+2*len(pairs))
	args = append(args, "-D", c.data)
	for _, pair := range pairs {
		args = append(args, "-c", pair)
	}
	return args
}

// launch starts the server and waits until it accepts connections.
func (c *cluster) launch(ctx context.Context, port int, url secret.String) (*process, error) {
	out, err := c.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the server has its own descriptor
	begin, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("find the end of the Postgres log: %w", err)
	}
	// ctx ends when Start returns, but the server must keep running.
	cmd := command(context.WithoutCancel(ctx), c.cfg.identity, c.cfg.BinDir, "postgres", c.settings(port)...)
	cmd.Stdout, cmd.Stderr = out, out
	p, err := spawn(cmd)
	if err != nil {
		return nil, err
	}
	if err := c.awaitOpen(ctx, p, port, url); err != nil {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = p.stop(sctx)
		return nil, c.explain(err, begin)
	}
	return p, nil
}

// awaitOpen waits until the pid file of the server reports that it is ready, and then connects with the password. It
// must not connect earlier, because the port might still belong to another program.
func (c *cluster) awaitOpen(ctx context.Context, p *process, port int, url secret.String) error {
	for {
		f, err := readPidFile(c.data)
		if err == nil && f.pid == p.cmd.Process.Pid && f.port == port && f.status == "ready" {
			break
		}
		if p.exited() {
			return fmt.Errorf("%w: %w", errPassing, p.failure())
		}
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("wait for Postgres: %w", err)
		}
	}
	conn, err := pg.Connect(ctx, url.Reveal(), nil)
	if err != nil {
		return fmt.Errorf("connect to Postgres with the password of %s: %w", c.cfg.Dir, err)
	}
	return conn.Close(ctx)
}

// explain adds to the error the output that the server has logged after the offset begin. It then drops errPassing
// unless the output shows a temporary failure. Without output it returns the error unchanged.
func (c *cluster) explain(err error, begin int64) error {
	raw, rerr := os.ReadFile(c.logPath())
	if rerr != nil || int64(len(raw)) <= begin {
		return err
	}
	logged := raw[begin:]
	if passing(err) && !bytes.Contains(logged, []byte("Address already in use")) &&
		!bytes.Contains(logged, []byte("shared memory block")) {
		return fmt.Errorf("postgres did not start: %s", lastLines(logged))
	}
	return fmt.Errorf("%w: %s", err, lastLines(logged))
}

func (c *cluster) logPath() string { return filepath.Join(c.cfg.Dir, "postgres.log") }

// openLog opens the log. If the log is large, openLog rotates it first and keeps one old file.
func (c *cluster) openLog() (*os.File, error) {
	const limit = 10 << 20
	if info, err := os.Stat(c.logPath()); err == nil && info.Size() > limit {
		if err := os.Rename(c.logPath(), c.logPath()+".1"); err != nil {
			return nil, fmt.Errorf("rotate the Postgres log: %w", err)
		}
	}
	f, err := os.OpenFile(c.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the Postgres log: %w", err)
	}
	return f, nil
}

func lastLines(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], "; ")
}
