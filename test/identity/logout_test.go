package identity

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway"
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
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// gatewaysHarness is an auth service with two gateways, all in this process.
type gatewaysHarness struct {
	t      *testing.T
	bus    *rpc.Bus
	ids    *id.Source
	public authv1.AuthServiceClient
	peer   authpeerv1.CredentialServiceClient
	checks atomic.Int64 // calls of Authenticate
	urls   [2]string
	client *http.Client
}

// noQuota is a jobs service that is not available.
type noQuota struct {
	jobspeerv1.QuotaPeerServiceClient
}

func (noQuota) GetAccountQuota(context.Context, *jobspeerv1.GetAccountQuotaRequest, ...grpc.CallOption) (*jobspeerv1.AccountQuota, error) {
	return nil, fault.New(fault.Unavailable, "", "jobs is not available")
}

// countingChecks is a connection to auth that counts the calls of Authenticate.
type countingChecks struct {
	grpc.ClientConnInterface

	n *atomic.Int64
}

func (c countingChecks) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	if method == authpeerv1.CredentialService_Authenticate_FullMethodName {
		c.n.Add(1)
	}
	return c.ClientConnInterface.Invoke(ctx, method, in, out, opts...)
}

func newGatewaysHarness(t *testing.T) *gatewaysHarness {
	t.Helper()
	h := &gatewaysHarness{t: t, bus: rpc.Memory(rpc.ClientOptions{Clock: clock.Real()}), ids: id.NewSource(clock.Real(), rand.Reader), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	t.Cleanup(h.client.CloseIdleConnections)
	h.startAuth()
	conn := h.dial(auth.Name)
	h.public, h.peer = authv1.NewAuthServiceClient(conn), authpeerv1.NewCredentialServiceClient(conn)
	for i := range h.urls {
		h.urls[i] = h.startGateway()
	}
	return h
}

// run runs f until the test ends.
func (h *gatewaysHarness) run(f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		<-done //nolint:errcheck // the test ends, and some of the parts report the cancellation
	})
}

func (h *gatewaysHarness) dial(service string) *grpc.ClientConn {
	h.t.Helper()
	conn, err := h.bus.As(gateway.Name).Dial(service)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const logoutPassword = "correct horse"

func (h *gatewaysHarness) startAuth() {
	h.t.Helper()
	files, err := auth.Migrations()
	require.NoError(h.t, err)
	db := pgtest.New(h.t, pgtest.Schema{Name: auth.Name, Migrations: files})
	ring, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(h.t, err)
	clk := clock.Real()
	svc, err := auth.New(h.t.Context(), auth.Config{
		JWTHours: 8, KeyDays: 30, AdminPassword: secret.New(logoutPassword), HashParallel: 2, HashMemoryKiB: 64, HashIterations: 1,
	}, auth.Deps{
		Pool: db.Pool(auth.Name), Keyring: ring, Quota: noQuota{}, Clock: clk, IDs: h.ids, Rand: rand.Reader,
		Log: slog.New(slog.DiscardHandler), PublicURL: func() string { return "http://127.0.0.1" },
	})
	require.NoError(h.t, err)
	_, err = svc.Bootstrap(h.t.Context())
	require.NoError(h.t, err)
	server := rpc.NewServer(rpc.ServerOptions{
		Service: auth.Name, Log: slog.New(slog.DiscardHandler), Clock: clk, Classify: pg.Classify,
		NewRequestID: func() string { return h.ids.New(id.Request) }, Verifier: authn.NewVerifier(clk, authn.NewKeys(clk, svc.Keys)),
	})
	svc.Register(server)
	listener, err := h.bus.As(auth.Name).Listen(auth.Name)
	require.NoError(h.t, err)
	h.run(func(ctx context.Context) error { return server.Serve(ctx, listener) })
	for _, w := range svc.Workers() {
		if w.Name == "auth.wake" {
			h.run(w.Run)
		}
	}
}

func (h *gatewaysHarness) startGateway() (url string) {
	h.t.Helper()
	cfg := gateway.Config{RequestTimeout: time.Minute}
	cfg.Listen.Addr = "127.0.0.1:0"
	g, err := gateway.New(h.t.Context(), cfg, gateway.Deps{
		Conns: gateway.Conns{
			Auth: countingChecks{h.dial(auth.Name), &h.checks}, Jobs: h.dial("jobs"), Ingest: h.dial("ingest"), Registry: h.dial("registry"), Inference: h.dial("inference"),
		},
		Ingest: http.NotFoundHandler(), Inference: http.NotFoundHandler(), Clock: clock.Real(), IDs: h.ids, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(h.t, err)
	l, err := g.Listen(h.t.Context())
	require.NoError(h.t, err)
	h.run(func(ctx context.Context) error { return g.Run(ctx, l, time.Second) })
	return "http://" + l.Addr().String()
}

// login returns an access token. Each login comes from an address of its own, because logins are limited by address.
func (h *gatewaysHarness) login(n int) string {
	h.t.Helper()
	out, err := h.peer.Authenticate(h.t.Context(), &authpeerv1.AuthenticateRequest{ClientAddress: fmt.Sprintf("10.0.%d.%d", n/250, n%250)})
	require.NoError(h.t, err)
	in, err := h.public.Login(authn.WithToken(h.t.Context(), out.GetCallerToken(), clock.Real().Now().Add(time.Minute)),
		&authv1.LoginRequest{Username: "admin", Password: logoutPassword})
	require.NoError(h.t, err)
	return in.GetToken()
}

// call returns the status of a request with the token.
func (h *gatewaysHarness) call(method, url, token string) (int, string) {
	req, err := http.NewRequestWithContext(h.t.Context(), method, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := h.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// awaitCache waits until both gateways have a lease, so that a repeated request needs no call to auth.
func (h *gatewaysHarness) awaitCache() {
	h.t.Helper()
	token := h.login(65000)
	for _, url := range h.urls {
		require.Eventually(h.t, func() bool {
			before := h.checks.Load()
			for range 2 {
				status, body := h.call(http.MethodGet, url+"/api/auth/me", token)
				require.Equal(h.t, http.StatusOK, status, body)
				require.Contains(h.t, body, `"quota":null`, "the quota must be null while the jobs service is not available")
			}
			return h.checks.Load() < before+2
		}, time.Minute, 10*time.Millisecond)
	}
}

// TestLogout_ofTwoGateways revokes tokens that both gateways have in their caches. After a logout is acknowledged,
// neither gateway may accept the revoked token.
func TestLogout_ofTwoGateways(t *testing.T) {
	t.Parallel()
	h := newGatewaysHarness(t)
	h.awaitCache()
	logouts, clients := 100, 8
	if draw.Whole() {
		logouts = 1000
	}
	var accepted, cached atomic.Int64
	var wg sync.WaitGroup
	next := make(chan int)
	for range clients {
		wg.Go(func() {
			for n := range next {
				token := h.login(n)
				for range 2 {
					for _, url := range h.urls {
						before := h.checks.Load()
						if status, body := h.call(http.MethodGet, url+"/api/auth/me", token); status != http.StatusOK {
							t.Errorf("a request before the logout was rejected: %d %s", status, body)
						}
						if h.checks.Load() == before {
							cached.Add(1)
						}
					}
				}
				if status, body := h.call(http.MethodPost, h.urls[n%2]+"/api/auth/logout", token); status != http.StatusOK {
					t.Errorf("the logout failed: %d %s", status, body)
				}
				for _, url := range h.urls {
					if status, _ := h.call(http.MethodGet, url+"/api/auth/me", token); status != http.StatusUnauthorized {
						accepted.Add(1)
					}
				}
			}
		})
	}
	for n := range logouts {
		next <- n
	}
	close(next)
	wg.Wait()
	require.Zero(t, accepted.Load(), "requests with a revoked token were accepted")
	require.Positive(t, cached.Load(), "no request was served from a cache, so the test shows nothing")
}
