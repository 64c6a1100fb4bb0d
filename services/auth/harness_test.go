package auth_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const password = "correct horse"

// quota is a fake of the jobs quota service.
type quota struct {
	jobspeerv1.QuotaPeerServiceClient

	err error
}

func (q quota) GetAccountQuota(context.Context, *jobspeerv1.GetAccountQuotaRequest, ...grpc.CallOption) (*jobspeerv1.AccountQuota, error) {
	if q.err != nil {
		return nil, q.err
	}
	return &jobspeerv1.AccountQuota{GpuLimit: 8, GpuHeld: 1, GpuAvailable: 7}, nil
}

// harness is an auth service with its own database. Tests call it as the gateway does.
type harness struct {
	t      *testing.T
	db     *pgtest.DB
	clock  *clock.Fake
	bus    *rpc.Bus
	public authv1.AuthServiceClient
	peer   authpeerv1.CredentialServiceClient
	keys   authv1.KeyServiceClient
	svc    *auth.Service
}

func newDB(t *testing.T) *pgtest.DB {
	t.Helper()
	files, err := auth.Migrations()
	require.NoError(t, err)
	return pgtest.New(t, pgtest.Schema{Name: auth.Name, Migrations: files})
}

// service creates a replica of auth that uses the database.
func service(t *testing.T, db *pgtest.DB, clk clock.Clock) *auth.Service {
	t.Helper()
	ring, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	svc, err := auth.New(t.Context(), auth.Config{
		JWTHours: 8, KeyDays: 30, AdminPassword: secret.New(password), HashParallel: 2, HashMemoryKiB: 64, HashIterations: 1,
	}, auth.Deps{
		Pool: db.Pool(auth.Name), Keyring: ring, Quota: quota{}, Clock: clk, IDs: id.NewSource(clk, rand.Reader),
		Rand: rand.Reader, Log: slog.New(slog.DiscardHandler), PublicURL: func() string { return "http://127.0.0.1" },
	})
	require.NoError(t, err)
	return svc
}

func open(t *testing.T) *harness {
	t.Helper()
	return replica(t, newDB(t), clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)))
}

// replica starts another replica of auth that uses the database.
func replica(t *testing.T, db *pgtest.DB, clk *clock.Fake) *harness {
	t.Helper()
	h := &harness{t: t, db: db, clock: clk}
	svc := service(t, h.db, h.clock)
	h.svc = svc
	_, err := svc.Bootstrap(t.Context())
	require.NoError(t, err)
	h.bus = rpc.Memory(rpc.ClientOptions{Clock: h.clock})
	ids := id.NewSource(h.clock, rand.Reader)
	server := rpc.NewServer(rpc.ServerOptions{
		Service: auth.Name, Log: slog.New(slog.DiscardHandler), Clock: h.clock, Classify: pg.Classify,
		NewRequestID: func() string { return ids.New(id.Request) },
		Verifier:     authn.NewVerifier(h.clock, authn.NewKeys(h.clock, svc.Keys)),
	})
	svc.Register(server)
	listener, err := h.bus.As(auth.Name).Listen(auth.Name)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	conn, err := h.bus.As("gateway").Dial(auth.Name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	h.public, h.peer, h.keys = authv1.NewAuthServiceClient(conn), authpeerv1.NewCredentialServiceClient(conn), authv1.NewKeyServiceClient(conn)
	return h
}

// as returns the context that the gateway builds for a request with this credential.
func (h *harness) as(credential string) (context.Context, error) {
	out, err := h.peer.Authenticate(h.t.Context(), &authpeerv1.AuthenticateRequest{Credential: credential, ClientAddress: "192.0.2.7"})
	if err != nil {
		return nil, fault.From(err)
	}
	return authn.WithToken(h.t.Context(), out.GetCallerToken(), h.clock.Now().Add(time.Minute)), nil
}

// mustAs is like as, but fails the test if the credential is rejected.
func mustAs(h *harness, credential string) context.Context {
	h.t.Helper()
	ctx, err := h.as(credential)
	require.NoError(h.t, err)
	return ctx
}

// login returns the access token and the value of the refresh cookie.
func (h *harness) login(username, pass string) (token, refresh string, err error) {
	ctx, err := h.as("")
	require.NoError(h.t, err)
	var header metadata.MD
	out, err := h.public.Login(ctx, &authv1.LoginRequest{Username: username, Password: pass}, grpc.Header(&header))
	if err != nil {
		return "", "", fault.From(err)
	}
	require.Equal(h.t, "admin", out.GetUser().GetRole())
	return out.GetToken(), cookie(h.t, header), nil
}

func (h *harness) refresh(value string) (token, next string, err error) {
	ctx, err := h.as("")
	require.NoError(h.t, err)
	var header metadata.MD
	out, err := h.public.Refresh(metadata.AppendToOutgoingContext(ctx, "x-service-refresh", value), &authv1.RefreshRequest{}, grpc.Header(&header))
	if err != nil {
		return "", "", fault.From(err)
	}
	return out.GetToken(), cookie(h.t, header), nil
}

// withCaller returns the context of calls with a caller identity that auth signed.
func withCaller(t *testing.T, h *harness, token string) context.Context {
	t.Helper()
	return authn.WithToken(t.Context(), token, h.clock.Now().Add(time.Minute))
}
