package auth_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
)

// contextUntil returns a context that ends when the channel is closed.
func contextUntil(t *testing.T, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		select {
		case <-stop:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel
}

func TestAuthenticate_gatewayOnly(t *testing.T) {
	t.Parallel()
	h := open(t)
	for _, name := range []string{"jobs", "ingest", "registry", "inference", "auth"} {
		conn, err := h.bus.As(name).Dial(auth.Name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		peer := authpeerv1.NewCredentialServiceClient(conn)
		_, err = peer.Authenticate(t.Context(), &authpeerv1.AuthenticateRequest{})
		require.True(t, fault.Is(err, fault.Forbidden), "%s: %v", name, err)
		_, err = peer.GetCallerKeys(t.Context(), &authpeerv1.GetCallerKeysRequest{})
		require.NoError(t, err, name)
	}
}

func TestForgedMetadataRejected(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	for name, md := range map[string]metadata.MD{
		"access token as caller token": metadata.Pairs(authn.MetadataCaller, token),
		"username headers":             metadata.Pairs("x-service-user", "admin", "x-user-id", "admin"),
		"bearer token":                 metadata.Pairs("authorization", "Bearer "+token),
		"no metadata":                  {},
	} {
		_, err := h.public.GetMe(metadata.NewOutgoingContext(t.Context(), md), &authv1.GetMeRequest{})
		require.True(t, fault.Is(err, fault.Unauthenticated), "%s: %v", name, err)
	}
}

func TestAnonymousCaller_readsOnlyConfig(t *testing.T) {
	t.Parallel()
	h := open(t)
	ctx, err := h.as("")
	require.NoError(t, err)
	_, err = h.public.GetMe(ctx, &authv1.GetMeRequest{})
	require.True(t, fault.Is(err, fault.Unauthenticated))
	_, err = h.public.Logout(ctx, &authv1.LogoutRequest{})
	require.True(t, fault.Is(err, fault.Unauthenticated))
	cfg, err := h.public.GetConfig(ctx, &authv1.GetConfigRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"password"}, cfg.GetMethods())
	require.Nil(t, cfg.GetOidc())
	require.True(t, cfg.GetDeviceFlow())
}

func TestRefresh_rejectsTwoCookies(t *testing.T) {
	t.Parallel()
	h := open(t)
	_, refresh, err := h.login("admin", password)
	require.NoError(t, err)
	ctx, err := h.as("")
	require.NoError(t, err)
	_, err = h.public.Refresh(ctx, &authv1.RefreshRequest{})
	require.True(t, fault.Is(err, fault.Unauthenticated))
	twice := metadata.AppendToOutgoingContext(ctx, "x-service-refresh", refresh, "x-service-refresh", refresh)
	_, err = h.public.Refresh(twice, &authv1.RefreshRequest{})
	require.True(t, fault.Is(err, fault.Unauthenticated), "two cookies are ambiguous: a sibling host may have set one of them")
	_, _, err = h.refresh(refresh)
	require.NoError(t, err)
}

func TestRefreshTokenNotInBody(t *testing.T) {
	t.Parallel()
	h := open(t)
	ctx, err := h.as("")
	require.NoError(t, err)
	var header metadata.MD
	out, err := h.public.Login(ctx, &authv1.LoginRequest{Username: "admin", Password: password}, grpc.Header(&header))
	require.NoError(t, err)
	require.NotContains(t, out.String(), cookie(t, header))
	require.Equal(t, secret.KindRefresh, secret.Kind(cookie(t, header)))
}

func TestLogin_invalidBodies(t *testing.T) {
	t.Parallel()
	h := open(t)
	ctx, err := h.as("")
	require.NoError(t, err)
	long := func(n int) string { return string(make([]rune, n)) }
	for name, in := range map[string]*authv1.LoginRequest{
		"empty": {}, "no password": {Username: "admin"}, "no username": {Password: "x"},
		"long username": {Username: long(257), Password: "x"}, "long password": {Username: "admin", Password: long(1025)},
	} {
		_, err := h.public.Login(ctx, in)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
	_, err = h.public.Login(ctx, &authv1.LoginRequest{Username: "admin\x00", Password: "\x00"})
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
}

// startService starts an auth service with this public URL on its own in-memory transport, and returns a client of it.
func startService(t *testing.T, h *harness, url string) authv1.AuthServiceClient {
	t.Helper()
	ring, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	ids := id.NewSource(h.clock, rand.Reader)
	svc, err := auth.New(t.Context(), auth.Config{JWTHours: 8, KeyDays: 30, HashMemoryKiB: 64, HashIterations: 1}, auth.Deps{
		Pool: h.db.Pool(auth.Name), Keyring: ring, Quota: quota{}, Clock: h.clock, IDs: ids, Rand: rand.Reader,
		Log: slog.New(slog.DiscardHandler), PublicURL: func() string { return url },
	})
	require.NoError(t, err)
	server := rpc.NewServer(rpc.ServerOptions{
		Service: auth.Name, Log: slog.New(slog.DiscardHandler), Clock: h.clock, NewRequestID: func() string { return ids.New(id.Request) },
		Verifier: authn.NewVerifier(h.clock, authn.NewKeys(h.clock, svc.Keys)),
	})
	svc.Register(server)
	bus := rpc.Memory(rpc.ClientOptions{Clock: h.clock})
	listener, err := bus.As(auth.Name).Listen(auth.Name)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	conn, err := bus.As("gateway").Dial(auth.Name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(); cancel(); require.NoError(t, <-done) })
	return authv1.NewAuthServiceClient(conn)
}

func TestRefreshCookie_hostPrefixOverHTTPS(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]http.Cookie{
		"https://signalbox.example":  {Name: "__Host-service_refresh", Secure: true},
		"http://127.0.0.1:8080":      {Name: "service_refresh"},
		"http://https.example:8080/": {Name: "service_refresh"},
	} {
		h := open(t)
		public := startService(t, h, url)
		ctx, err := h.as("")
		require.NoError(t, err)
		var header metadata.MD
		out, err := public.Login(ctx, &authv1.LoginRequest{Username: "admin", Password: password}, grpc.Header(&header))
		require.NoError(t, err)
		check := func(maxAge int, filled bool) {
			values := header.Get("x-service-set-cookie")
			require.Len(t, values, 1)
			c, err := http.ParseSetCookie(values[0])
			require.NoError(t, err)
			require.Equal(t, want.Name, c.Name)
			require.Equal(t, want.Secure, c.Secure)
			require.True(t, c.HttpOnly)
			require.Equal(t, http.SameSiteStrictMode, c.SameSite)
			require.Equal(t, "/", c.Path)
			require.Empty(t, c.Domain)
			require.Equal(t, maxAge, c.MaxAge)
			require.Equal(t, filled, c.Value != "")
		}
		check(30*24*3600, true)
		ctx, err = h.as(out.GetToken())
		require.NoError(t, err)
		header = nil
		_, err = public.Logout(ctx, &authv1.LogoutRequest{}, grpc.Header(&header))
		require.NoError(t, err)
		check(-1, false)
	}
}
