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
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/registry"
)

// line is a connection to the database that a test can cut and restore.
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

// set cuts the line, closing all its connections, or restores it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// logHandler sends the messages at level warning and above to a channel.
type logHandler struct {
	slog.Handler

	messages chan string
}

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.messages <- r.Message:
	default: // The buffer is far larger than any test needs.
	}
	return nil
}

// openWithLine builds a harness whose registry reaches its database over a line, and returns the registry's log
// messages.
func openWithLine(t *testing.T) (h *harness, l *line, messages chan string) {
	t.Helper()
	h, l, messages = build(t), &line{}, make(chan string, 1000)
	h.log = slog.New(logHandler{slog.DiscardHandler, messages})
	cfg := h.db.Pool(registry.Name).Config()
	cfg.ConnConfig.DialFunc = l.dial
	var err error
	h.pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(h.pool.Close)
	return h, l, messages
}

// loops runs the workers of a replica. The function stop ends the workers and returns their error.
func (h *harness) loops(svc *registry.Service) (stop func() error) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- process.Group(ctx, svc.Workers()...) }()
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

// waitForLog waits until a log message equals the given text, at most for the duration soon.
func waitForLog(t *testing.T, messages <-chan string, words string) {
	t.Helper()
	guard := time.After(soon)
	for {
		select {
		case s := <-messages:
			if s == words {
				return
			}
		case <-guard:
			require.Fail(t, "not logged: "+words)
		}
	}
}

func TestRegistry_waitsForDatabaseAndStopsWithoutIt(t *testing.T) {
	t.Parallel()
	h, l, messages := openWithLine(t)
	l.set(true)
	svc := h.service(h.bus)
	require.Error(t, svc.Ready(t.Context()))
	stop := h.loops(svc)
	waitForLog(t, messages, "seeding the recipe catalog failed; retrying")
	require.NoError(t, stop(), "stopping does not need the database")

	svc = h.service(h.bus)
	stop = h.loops(svc)
	waitForLog(t, messages, "seeding the recipe catalog failed; retrying")
	l.set(false)
	h.serveService(svc)
	h.connect(h.bus)
	list, err := h.recipes.ListRecipes(h.as(ann()), &registryv1.ListRecipesRequest{})
	require.NoError(t, err, "an early request waits for the catalog")
	require.NotEmpty(t, list.GetRecipes())
	require.NoError(t, svc.Ready(t.Context()))
	require.NoError(t, stop())
}

func TestRegistry_stopsAfterDatabaseLoss(t *testing.T) {
	t.Parallel()
	h, l, _ := openWithLine(t)
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
	}, "the queue holds leadership, which stopping must give up")
	l.set(true)
	_, err := h.deployments.GetDeployment(h.as(ann()), &registryv1.GetDeploymentRequest{DeploymentId: d.GetId()})
	k, _, _ := kind(t, err)
	require.NotEqual(t, fault.Absent, k, "a failed read must not be reported as a missing object")
	require.NoError(t, stop())
	server()
	h.pool = nil // The next process reaches the database again.
	h.start(h.bus)
	h.connect(h.bus)
	require.Equal(t, "ready", h.revision(r).GetState())
	_, err = h.promote(r)
	require.NoError(t, err)
}
