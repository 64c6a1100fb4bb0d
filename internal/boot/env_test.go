package boot

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// keys is a minimal service that publishes one key.
type keys struct {
	authpeerv1.UnimplementedCredentialServiceServer

	key               authn.SigningKey
	ready             error
	looping           atomic.Int64
	rows              atomic.Int64
	withoutDescriptor bool
}

func (k *keys) GetCallerKeys(context.Context, *authpeerv1.GetCallerKeysRequest) (*authpeerv1.CallerKeys, error) {
	public := k.key.Public()
	return &authpeerv1.CallerKeys{Keys: []*authpeerv1.CallerKey{{Kid: public.ID, PublicKey: public.Key}}}, nil
}

func (k *keys) Name() string { return "auth" }

func (k *keys) Register(r grpc.ServiceRegistrar) {
	if k.withoutDescriptor {
		r.RegisterService(&grpc.ServiceDesc{ServiceName: "signalbox.Bare", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Do"}}}, k)
		return
	}
	authpeerv1.RegisterCredentialServiceServer(r, k)
}

func (k *keys) Ready(context.Context) error { return k.ready }

func (k *keys) Workers() []process.Worker {
	return []process.Worker{{Name: "auth.loop", Run: func(ctx context.Context) error {
		k.looping.Add(1)
		defer k.looping.Add(-1)
		<-ctx.Done()
		return nil
	}}}
}

func (k *keys) Retention() []retention.Rule {
	return []retention.Rule{{Name: "row", Age: time.Hour, Step: func(_ context.Context, _ time.Time, limit int) (int64, error) {
		n := min(k.rows.Load(), int64(limit))
		k.rows.Add(-n)
		return n, nil
	}}}
}

func newKeys(t *testing.T) *keys {
	t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	return &keys{key: key}
}

// env returns the Env of a service on an in-memory network, with a database of its own.
func env(t *testing.T) (*Env, *rpc.Bus, *process.Closers) {
	t.Helper()
	clk := clock.Real()
	bus := rpc.Memory(rpc.ClientOptions{Clock: clk})
	e := NewEnv("auth", telemetry(t, io.Discard), clk, id.NewSource(clk, rand.Reader), bus.As("auth"))
	closers := &process.Closers{}
	t.Cleanup(func() { require.NoError(t, closers.Close(context.WithoutCancel(t.Context()))) })
	db := pgtest.New(t, pgtest.Schema{Name: "auth"})
	require.NoError(t, e.OpenPool(t.Context(), closers, conf.Postgres{URL: db.URL("auth"), MaxConns: 4, StatementTimeout: patience}, true))
	sealing, err := OpenSealing(Audit{Key: seed('a'), Dir: t.TempDir()})
	require.NoError(t, err)
	e.Sealing, e.Stop = sealing, conf.Stop{StopGrace: patience, StopTimeout: patience}
	return e, bus, closers
}

// startWorkers starts workers and waits until they are ready or the start has failed. The workers run until stop
// is called or the test ends.
func startWorkers(t *testing.T, workers []process.Worker, readyTimeout time.Duration) (stop func() error) {
	t.Helper()
	ready := make(chan struct{})
	host := &process.Host{
		Log: slog.New(slog.DiscardHandler), Workers: workers, StopTimeout: patience, ReadyTimeout: readyTimeout,
		Ready: func(context.Context) error { close(ready); return nil },
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	select {
	case <-ready:
	case err := <-done:
		done <- err
	}
	return func() error { cancel(); return <-done }
}

func TestServe(t *testing.T) {
	t.Parallel()
	e, bus, closers := env(t)
	svc := newKeys(t)
	l, err := e.Net.Listen("auth")
	require.NoError(t, err)
	own := func(context.Context) ([]authn.PublicKey, error) { return []authn.PublicKey{svc.key.Public()}, nil }
	e.Ages = Ages{Event: time.Hour, Task: time.Hour}
	const insert = `INSERT INTO event (id, at, subject_kind, subject_id, type, actor_kind) VALUES ($1, now() - $2::interval, 'k', 's', 't', 'user')`
	for id, age := range map[string]string{"old": "61 minutes", "young": "59 minutes"} {
		_, err = e.Pool.Exec(t.Context(), insert, id, age)
		require.NoError(t, err)
	}
	svc.rows.Store(1500)
	workers, err := e.Serve(svc, own, l)
	require.NoError(t, err)
	names := []string{}
	for _, w := range workers {
		names = append(names, w.Name)
	}
	require.Equal(t, []string{"auth.grpc", "auth.loops", "auth.audit", "auth.retention"}, names)
	stop := startWorkers(t, workers, patience)

	jobs := NewEnv("jobs", e.Obs, e.Clock, e.IDs, bus.As("jobs"))
	conn, err := jobs.Dial(closers, "auth")
	require.NoError(t, err)
	same, err := jobs.Dial(closers, "auth")
	require.NoError(t, err)
	require.Same(t, conn, same, "a connection is shared")
	got, err := AuthKeys(conn)(t.Context())
	require.NoError(t, err)
	require.Equal(t, []authn.PublicKey{svc.key.Public()}, got)
	_, err = authpeerv1.NewCredentialServiceClient(conn).Authenticate(t.Context(), &authpeerv1.AuthenticateRequest{})
	require.True(t, fault.Is(err, fault.Forbidden), "the caller is checked: %v", err)
	require.Eventually(t, func() bool { return svc.looping.Load() == 1 }, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		var kept []string
		err := e.Pool.QueryRow(t.Context(), `SELECT array_agg(id) FROM event`).Scan(&kept)
		return err == nil && slices.Equal(kept, []string{"young"}) && svc.rows.Load() == 0
	}, patience, time.Millisecond, "events and the rows of the service are deleted when they reach their age")

	trail := audit.NewLog(e.Clock, e.IDs, "auth")
	tx, err := e.Pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, trail.Record(t.Context(), tx, audit.Entry{Action: "test.done", TargetKind: "test", TargetID: "1"}))
	require.NoError(t, tx.Commit(t.Context()))
	heads := filepath.Join(e.Sealing.Dir, "auth.jsonl")
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(heads)
		return err == nil && bytes.Contains(raw, []byte(e.Sealing.Key.ID))
	},
		patience, 20*time.Millisecond, "signed heads are stored outside the database")

	require.NoError(t, stop())
	require.Zero(t, svc.looping.Load(), "stop waits for the loops")
}

func TestServe_serviceNotReady(t *testing.T) {
	t.Parallel()
	e, _, _ := env(t)
	svc := newKeys(t)
	svc.ready = errors.New("schema is of version 3, want 4")
	l, err := e.Net.Listen("auth")
	require.NoError(t, err)
	workers, err := e.Serve(svc, nil, l)
	require.NoError(t, err)
	require.ErrorContains(t, startWorkers(t, workers, time.Millisecond)(), "schema is of version 3")
}

func TestServe_methodWithoutAccessRule(t *testing.T) {
	t.Parallel()
	e, _, _ := env(t)
	svc := newKeys(t)
	svc.withoutDescriptor = true
	l, err := e.Net.Listen("auth")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, err = e.Serve(svc, nil, l)
	require.ErrorContains(t, err, "signalbox.Bare/Do")
}

func TestAuthKeys_authUnreachable(t *testing.T) {
	t.Parallel()
	bus := rpc.Memory(rpc.ClientOptions{Clock: clock.Real()})
	e := NewEnv("jobs", telemetry(t, io.Discard), clock.Real(), nil, bus.As("jobs"))
	closers := &process.Closers{}
	conns, err := e.DialAll(closers, "auth", "ingest")
	require.NoError(t, err)
	require.Len(t, conns, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = AuthKeys(conns["auth"])(ctx)
	require.ErrorContains(t, err, "fetch the caller keys")
	require.NoError(t, closers.Close(t.Context()))
}

func TestOpenPool_refusesUnsafePostgres(t *testing.T) {
	t.Parallel()
	e, _, closers := env(t)
	db := pgtest.New(t, pgtest.Schema{Name: "auth"})
	err := e.OpenPool(t.Context(), closers, conf.Postgres{URL: db.URL("auth")}, false)
	require.ErrorIs(t, err, pg.ErrUnsafe, "the tests' server runs without fsync")
	require.ErrorContains(t, err, "open the auth schema")
}

func TestOpenBlobs(t *testing.T) {
	t.Parallel()
	e, _, closers := env(t)
	e.PublicURL = func() string { return "http://127.0.0.1" }
	_, err := e.OpenBlobs(closers, conf.Blob{Driver: conf.BlobFS, MaxMB: 1})
	require.ErrorContains(t, err, "BLOB_ROOT")
	require.Nil(t, e.Blobs)
	opened, err := e.OpenBlobs(closers, conf.Blob{Driver: conf.BlobFS, Root: t.TempDir(), MaxMB: 1, SigningKey: secret.New("0123456789abcdef0123456789abcdef")})
	require.NoError(t, err)
	require.NotNil(t, opened.Handler)
	require.IsType(t, &objectstore.FileStore{}, e.Blobs)
	require.NoError(t, opened.Ready(t.Context()))
}

func TestNodeCA_SignNode(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA(clock.Real().Now(), pki.DefaultCALife)
	require.NoError(t, err)
	n := NodeCA{CA: ca, Clock: clock.Real()}
	keyPEM, request, err := pki.NewRequest()
	require.NoError(t, err)
	nodeID := id.NewSource(clock.Real(), rand.Reader).New(id.Node)
	certPEM, caPEM, err := n.SignNode(request, nodeID)
	require.NoError(t, err)
	identity, err := pki.Parse(certPEM, keyPEM, caPEM)
	require.NoError(t, err)
	got, ok := pki.NodeID(identity.Name)
	require.True(t, ok)
	require.Equal(t, nodeID, got)
	_, _, err = n.SignNode([]byte("rubbish"), nodeID)
	require.ErrorContains(t, err, nodeID)
}
