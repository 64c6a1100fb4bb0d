package snapshot

import (
	"context"
	"crypto/rand"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guard is the time limit of every wait. No test depends on its length.
const guard = 2 * time.Minute

// harness is a server with its own database, which has one deployment. Only the test sends wake-ups.
type harness struct {
	*Server

	t       *testing.T
	base    *pgtest.DB
	clock   *clock.Fake
	ids     *id.Source
	changer *deployment.Changer
	d       *deployment.Deployment
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	keys, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	base := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files})
	b := &harness{t: t, base: base, clock: clk, ids: id.NewSource(clk, rand.Reader)}
	metrics, err := NewMetrics(nil)
	require.NoError(t, err)
	pool, hub, store, revisions := base.Pool("registry"), pg.NewNotifyHub(), &deployment.Store{}, &revision.Store{Keys: keys}
	b.Server = &Server{
		Pool: pool, Store: store, Revisions: revisions, Hub: hub, Clock: clk, Metrics: metrics,
		Ledger: &epoch.Ledger{Pool: pool, Hub: hub, Clock: clk, Lease: time.Hour},
	}
	b.changer = &deployment.Changer{
		Pool: pool, Store: store, Revisions: revisions, Clock: clk, Events: event.NewLog(clk, b.ids, "registry"), Audit: audit.NewLog(clk, b.ids, "registry"),
	}
	b.d = &deployment.Deployment{
		Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"},
		ID:    b.ids.New(id.Deployment), Name: "chat", State: deployment.StateServing, CreatedAt: clk.Now(),
	}
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.changer.Create(ctx, tx, b.d) }))
	return b
}

func (b *harness) tx(fn func(ctx context.Context, tx pgx.Tx) error) error {
	return pg.InTx(b.t.Context(), b.Pool, fn)
}

// mint creates a token, which raises the epoch. It sends no wake-up.
func (b *harness) mint() (token *deploytoken.Token, err error) {
	err = b.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
		token, _, err = b.changer.Mint(ctx, tx, b.ids, rand.Reader, b.d.ID, "ci")
		return err
	})
	return token, err
}

func (b *harness) change() *deploytoken.Token {
	b.t.Helper()
	token, err := b.mint()
	require.NoError(b.t, err)
	return token
}

func (b *harness) now() int64 {
	b.t.Helper()
	now, err := epoch.Current(b.t.Context(), b.Pool)
	require.NoError(b.t, err)
	return now
}

// replica is a connected fake replica. It receives a message only when the test calls next.
type replica struct {
	grpc.ServerStream

	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	id     string
	up     chan *registrypeerv1.WatchRequest
	down   chan *registrypeerv1.WatchResponse
	broken chan error
	ended  chan error
}

func (r *replica) Context() context.Context { return r.ctx }

func (r *replica) Send(out *registrypeerv1.WatchResponse) error {
	select {
	case r.down <- out:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func (r *replica) Recv() (*registrypeerv1.WatchRequest, error) {
	select {
	case in := <-r.up:
		return in, nil
	case err := <-r.broken:
		return nil, err
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	}
}

// connect opens the stream of a replica.
func (b *harness) connect() *replica {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	r := &replica{
		t: b.t, ctx: ctx, cancel: cancel, id: b.ids.New(id.Replica), up: make(chan *registrypeerv1.WatchRequest),
		down: make(chan *registrypeerv1.WatchResponse), broken: make(chan error, 1), ended: make(chan error, 1),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- b.Watch(r)
	}()
	b.t.Cleanup(func() { cancel(); <-done })
	return r
}

// request sends the acknowledged epoch and, if renewal is not 0, requests a lease.
func (r *replica) request(acked, renewal int64) {
	r.t.Helper()
	select {
	case r.up <- &registrypeerv1.WatchRequest{ReplicaId: r.id, AckedEpoch: acked, Renewal: renewal, Parts: true}:
	case <-time.After(guard):
		require.Fail(r.t, "the server does not receive")
	}
}

// next returns the next message.
func (r *replica) next() *registrypeerv1.WatchResponse {
	r.t.Helper()
	select {
	case out := <-r.down:
		return out
	case err := <-r.ended:
		require.Fail(r.t, "the stream ended", "%v", err)
	case <-time.After(guard):
		require.Fail(r.t, "timed out waiting for a message")
	}
	return nil
}

// begin connects a replica and receives its first snapshot.
func (b *harness) begin() *replica {
	b.t.Helper()
	r := b.connect()
	r.request(0, 1)
	first := r.next()
	require.NotNil(b.t, first.GetSnapshot())
	require.Equal(b.t, b.now(), first.GetEpoch())
	return r
}

// quiet requests a renewal and checks that the next message is the response, so that nothing was sent before.
func (r *replica) quiet(acked, renewal int64) *registrypeerv1.WatchResponse {
	r.t.Helper()
	r.request(acked, renewal)
	out := r.next()
	require.Equal(r.t, renewal, out.GetRenewed(), "another message came first: %v", out)
	return out
}

func (b *harness) wake() { b.Hub.Wake(db.SnapshotTopic) }

var errCut = io.ErrClosedPipe
