// Package local owns a Postgres server that belongs to this installation. It finds the programs, creates the cluster
// once, starts the server on a private port of 127.0.0.1, starts it again if it dies, and stops it. The server ends with
// its parent, even after SIGKILL, and Start first stops a leftover server, so a data folder never has two servers. The
// package also works if this process runs as root, although Postgres itself refuses to run as root.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config describes a server.
type Config struct {
	BinDir  string // result of Find
	Dir     string // contains the cluster, the password, the port and the log; created if missing
	Entropy io.Reader
	// Unsafe disables durability for speed; for tests only.
	Unsafe bool
	// Tunable leaves the settings of durability to ALTER SYSTEM; for tests only.
	Tunable bool
	// Fresh removes an existing cluster; for tests only.
	Fresh          bool
	MaxConnections int // values below 200 mean 200
	// Log receives a line for each restart of a server that died; nil discards these lines.
	Log *slog.Logger
	// Meter counts these restarts; it may be nil.
	Meter metric.MeterProvider

	identity *identity // set by tests; nil chooses one that works
}

// ErrInUse is the error of Start if another process has locked the folder.
var ErrInUse = errors.New("the Postgres data folder is in use")

// Server is a running server.
type Server struct {
	lock     *os.File
	cluster  *cluster
	log      *slog.Logger
	port     int
	password secret.String
	limit    time.Duration // for a restart
	restarts metric.Int64Counter

	mu      sync.Mutex
	process *process // replaced by each restart
}

// startLimit is the time limit of Start, and of a restart with all its attempts. It includes crash recovery.
const startLimit = 2 * time.Minute

// Start creates the cluster if it does not exist, starts the server and returns when
// the server accepts connections.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", cfg.Dir, err)
	}
	cfg.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the Postgres folder: %w", err)
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
		identity, err := chooseIdentity(ctx, cfg.BinDir)
		if err != nil {
			return nil, err
		}
		cfg.identity = identity
	}
	c := &cluster{cfg: cfg, data: filepath.Join(cfg.Dir, "data")}
	if err := endOld(ctx, c.data); err != nil {
		return nil, err
	}
	if cfg.Fresh {
		if err := os.RemoveAll(c.data); err != nil {
			return nil, fmt.Errorf("remove the old cluster: %w", err)
		}
	}
	password, err := c.ensure(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{cluster: c, log: cfg.Log, password: password, limit: startLimit}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.restarts, err = countRestarts(cfg.Meter); err != nil {
		return nil, err
	}
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

// AdminURL returns the URL of the superuser for the database `postgres`. It turns TLS off, because this server has none:
// by default, a client would try TLS on one connection and then open a second one without it.
func (s *Server) AdminURL() secret.String {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(adminRole, s.password.Reveal()),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return secret.New(u.String())
}

// Password returns the password of the superuser. It consists of 256 random bits and never changes for this folder,
// so it may be used as the seed of migrate.Bootstrap.
func (s *Server) Password() secret.String { return s.password }

// Port returns the port of the server.
func (s *Server) Port() int { return s.port }

// PID returns the process id of the server. It changes when Run starts the server again.
func (s *Server) PID() int { return s.current().cmd.Process.Pid }

// Exited returns a channel that is closed when the current server process has exited.
func (s *Server) Exited() <-chan struct{} { return s.current().done }

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Stop shuts the server down: running transactions are rolled back and all data is written to disk. When ctx is done,
// or after 10 s, it kills the server. The next start then runs recovery, and no committed row is lost. A second Stop
// does nothing.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := s.current().stop(ctx)
	return errors.Join(err, unlock(s.lock))
}

func wait(ctx context.Context, d time.Duration) error {
	return clock.Sleep(ctx, clock.Real(), d)
}
