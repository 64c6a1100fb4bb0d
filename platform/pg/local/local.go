// Package local runs a Postgres server of this installation's own: it finds the
// programs, makes the cluster once, starts it on a private port of 127.0.0.1 and
// stops it. The server dies with its parent, whatever kills that one, and the
// next Start first ends what may be left of it, so one data folder never has two
// servers. It runs as root too, which Postgres by itself refuses.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config says where a server lives.
type Config struct {
	BinDir  string // as Find answers it
	Dir     string // the cluster, the password, the port and the log; made if absent
	Entropy io.Reader
	// Unsafe trades every promise about power loss for speed; for tests only.
	Unsafe bool
	// Fresh throws away the cluster that is there; for tests only.
	Fresh          bool
	MaxConnections int // 200

	identity *identity // tests choose; nil looks for one that works
}

// ErrInUse is what Start answers while another process holds the folder.
var ErrInUse = errors.New("the Postgres data folder is in use")

// Server is a running server.
type Server struct {
	lock     *os.File
	process  *process
	port     int
	password secret.String
}

// startLimit bounds one Start, crash recovery included.
const startLimit = 2 * time.Minute

// Start makes the cluster if there is none and answers when the server takes
// connections.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", cfg.Dir, err)
	}
	cfg.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the Postgres folder: %w", err)
	}
	lock, err := lockDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	s.lock = lock
	return s, nil
}

func start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.identity == nil {
		who, err := chooseIdentity(ctx, cfg.BinDir)
		if err != nil {
			return nil, err
		}
		cfg.identity = who
	}
	c := &cluster{cfg: cfg, data: filepath.Join(cfg.Dir, "data")}
	if err := endOld(ctx, c.data); err != nil {
		return nil, err
	}
	if cfg.Fresh {
		if err := os.RemoveAll(c.data); err != nil {
			return nil, fmt.Errorf("clear the old cluster: %w", err)
		}
	}
	password, err := c.ensure(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{password: password}
	for {
		port, err := c.choosePort(ctx)
		if err != nil {
			return nil, err
		}
		s.port = port
		s.process, err = c.launch(ctx, port, s.AdminURL())
		if err == nil {
			return s, c.keepPort(port)
		}
		if !passing(err) {
			return nil, err
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("start Postgres: %w", err)
		}
	}
}

// AdminURL is how the superuser reaches the server's database `postgres`.
func (s *Server) AdminURL() secret.String {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(adminRole, s.password.Reveal()),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/postgres",
	}
	return secret.New(u.String())
}

// Password is the superuser's, 256 random bits that stay the same for the life
// of the folder: role.Bootstrap may take it as its seed.
func (s *Server) Password() secret.String { return s.password }

// Port is where the server listens.
func (s *Server) Port() int { return s.port }

// PID is the server's process.
func (s *Server) PID() int { return s.process.cmd.Process.Pid }

// Exited is closed when the server's process is gone.
func (s *Server) Exited() <-chan struct{} { return s.process.done }

// Stop ends the server as a restart wants it: running transactions are rolled
// back, all is on disk. Past ctx (or 10 s) it is ended the hard way, which costs
// the next start a recovery and no committed row. A second Stop does nothing.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := s.process.stop(ctx)
	return errors.Join(err, unlock(s.lock))
}

// Run holds the server until ctx is over and then stops it; it answers an error
// when the server ends by itself.
func (s *Server) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return s.Stop(context.WithoutCancel(ctx))
	case <-s.Exited():
		return errors.Join(fmt.Errorf("postgres ended by itself: %w", s.process.failure()), unlock(s.lock))
	}
}

func wait(ctx context.Context, d time.Duration) error {
	return clock.Sleep(ctx, clock.Real(), d)
}
