package account

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
)

// endedSessions records which accounts' sessions were ended, and why.
type endedSessions struct{ calls []string }

func (e *endedSessions) EndAll(_ context.Context, _ pgx.Tx, accountID, why, except string) error {
	e.calls = append(e.calls, accountID+" "+why+except)
	return nil
}

// headers records the headers that a handler sets for the gateway.
type headers struct{ metadata.MD }

func (*headers) Method() string                   { return "" }
func (*headers) SendHeader(metadata.MD) error     { return nil }
func (*headers) SetTrailer(metadata.MD) error     { return nil }
func (h *headers) SetHeader(md metadata.MD) error { h.MD = metadata.Join(h.MD, md); return nil }

// harness is a user server with a database of its own.
type harness struct {
	*Server

	t     *testing.T
	pool  *pgxpool.Pool
	clock *clock.Fake
	ends  *endedSessions
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	d := &harness{t: t, pool: database(t).Pool("auth"), clock: clk, ends: &endedSessions{}}
	trail := audit.NewLog(clk, ids, "auth")
	d.Server = &Server{
		Users: &Users{
			Pool: d.pool, Hasher: plainHasher{}, Sessions: d.ends, Audit: trail, Clock: clk, IDs: ids, Rand: rand.Reader,
		},
		Transfers: &Transfers{Pool: d.pool, Audit: trail},
		Once:      &idempotency.Once{Pool: d.pool, Keys: idempotency.New(clk)},
	}
	return d
}

// as returns the context of an admin's call with this idempotency key, and the recorder of its response headers.
func (d *harness) as(key string) (context.Context, *headers) {
	h := &headers{}
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_root", Username: "root", Role: authn.RoleAdmin}
	ctx := grpc.NewContextWithServerTransportStream(authn.NewContext(d.t.Context(), c), h)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx, h
}

func (d *harness) ctx() context.Context {
	ctx, _ := d.as("")
	return ctx
}

// add creates a user and returns its id.
func (d *harness) add(username string, role authv1.UserRole) string {
	d.t.Helper()
	out, err := d.CreateUser(d.ctx(), &authv1.CreateUserRequest{Username: username, Role: role})
	require.NoError(d.t, err)
	return out.GetUser().GetId()
}

func (d *harness) update(in *authv1.UpdateUserRequest) error {
	_, err := d.UpdateUser(d.ctx(), in)
	return err
}

func (d *harness) disable(userID string) {
	d.t.Helper()
	require.NoError(d.t, d.update(&authv1.UpdateUserRequest{UserId: userID, Disabled: new(true)}))
}

func (d *harness) exec(sql string, args ...any) {
	d.t.Helper()
	_, err := d.pool.Exec(d.t.Context(), sql, args...)
	require.NoError(d.t, err)
}

func (d *harness) count(from string, args ...any) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.pool.QueryRow(d.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

func (d *harness) account(userID string) Account {
	d.t.Helper()
	a, err := ByID(d.t.Context(), d.pool, userID)
	require.NoError(d.t, err)
	return a
}

const (
	admin    = authv1.UserRole_USER_ROLE_ADMIN
	operator = authv1.UserRole_USER_ROLE_OPERATOR
	nobody   = "usr_01k00000000000000000000099"
)
