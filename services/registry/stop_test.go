package registry_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/services/registry"
)

// line is a way to the database that a test cuts and mends.
type line struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

// set cuts the line, with all connections over it, or mends it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// hears is a log that tells of its warnings and worse by their words.
type hears struct {
	slog.Handler

	said chan string
}

func (h hears) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (h hears) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.said <- r.Message:
	default: // Nobody waits for so much.
	}
	return nil
}

// across puts a line between the house and its database, and answers what the registry says.
func across(t *testing.T) (h *house, l *line, said chan string) {
	t.Helper()
	h, l, said = build(t), &line{}, make(chan string, 1000)
	h.log = slog.New(hears{slog.DiscardHandler, said})
	cfg := h.db.Pool(registry.Name).Config()
	cfg.ConnConfig.DialFunc = l.dial
	var err error
	h.pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(h.pool.Close)
	return h, l, said
}

// loops runs the loops of a replica; stop ends them and answers what they say of it.
func (h *house) loops(svc *registry.Service) (stop func() error) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- run.Group(ctx, svc.Workers()...) }()
	return func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(soon):
			return context.DeadlineExceeded
		}
	}
}

// hear waits until the registry has said these words.
func hear(t *testing.T, said <-chan string, words string) {
	t.Helper()
	guard := time.After(soon)
	for {
		select {
		case s := <-said:
			if s == words {
				return
			}
		case <-guard:
			require.Fail(t, "never said: "+words)
		}
	}
}

func TestARegistryThatFindsNoDatabaseWaitsForItAndStopsWithoutIt(t *testing.T) {
	t.Parallel()
	h, l, said := across(t)
	l.set(true)
	svc := h.service(h.bus)
	require.Error(t, svc.Ready(t.Context()))
	stop := h.loops(svc)
	hear(t, said, "the catalog cannot be laid out yet")
	require.NoError(t, stop(), "asked to stop, it stops: nothing of it needs the database for that")

	svc = h.service(h.bus)
	stop = h.loops(svc)
	hear(t, said, "the catalog cannot be laid out yet")
	l.set(false)
	h.serveService(svc)
	h.connect(h.bus)
	list, err := h.recipes.ListRecipes(h.as(ann()), &registryv1.ListRecipesRequest{})
	require.NoError(t, err, "asked too early, one waits for the catalog")
	require.NotEmpty(t, list.GetRecipes())
	require.NoError(t, svc.Ready(t.Context()))
	require.NoError(t, stop())
}

func TestARegistryWhoseDatabaseWentStopsAndNothingIsLost(t *testing.T) {
	t.Parallel()
	h, l, _ := across(t)
	svc := h.service(h.bus)
	stop := h.loops(svc)
	server := h.serveService(svc)
	h.connect(h.bus)
	d := h.deployment(ann(), "adder")
	r := h.candidate(ann(), d)
	h.ready(r)
	eventually(t, func() bool {
		var leads bool
		require.NoError(t, h.db.Pool(registry.Name).QueryRow(t.Context(), `SELECT count(*) > 0 FROM river_leader`).Scan(&leads))
		return leads
	}, "the queue leads: it has something to give up")
	l.set(true)
	_, err := h.deployments.GetDeployment(h.as(ann()), &registryv1.GetDeploymentRequest{DeploymentId: d.GetId()})
	k, _, _ := kind(t, err)
	require.NotEqual(t, fault.Absent, k, "what cannot be read is not called absent")
	require.NoError(t, stop())
	server()
	h.pool = nil // The next process, once the database is back.
	h.start(h.bus)
	h.connect(h.bus)
	require.Equal(t, "ready", h.revision(r).GetState())
	_, err = h.promote(r)
	require.NoError(t, err)
}
