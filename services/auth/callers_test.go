package auth_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth"
)

// gatewayID is a valid id of a gateway.
const gatewayID = "rep_01jd8q2w3e4r5t6y7z8a9b0c1d"

// cachingGateway is the WatchCallers stream of a gateway that caches callers.
type cachingGateway struct {
	t      *testing.T
	id     string
	stream authpeerv1.CredentialService_WatchCallersClient
	end    context.CancelFunc
}

// gateway opens the WatchCallers stream of the gateway with this id. It also starts the worker that receives the
// service's wake-ups.
func (h *harness) gateway(id string) *cachingGateway {
	h.t.Helper()
	for _, w := range h.svc.Workers() {
		if w.Name == "auth.wake" {
			ctx, cancel := context.WithCancel(h.t.Context())
			done := make(chan error, 1)
			go func() { done <- w.Run(ctx) }()
			h.t.Cleanup(func() { cancel(); require.NoError(h.t, <-done) })
		}
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	stream, err := h.peer.WatchCallers(ctx)
	require.NoError(h.t, err)
	h.t.Cleanup(cancel)
	return &cachingGateway{t: h.t, id: id, stream: stream, end: cancel}
}

func (g *cachingGateway) send(acked, renewal int64) {
	g.t.Helper()
	require.NoError(g.t, g.stream.Send(&authpeerv1.WatchCallersRequest{GatewayId: g.id, AckedEpoch: acked, Renewal: renewal}))
}

func (g *cachingGateway) receive() *authpeerv1.WatchCallersResponse {
	g.t.Helper()
	out, err := g.stream.Recv()
	require.NoError(g.t, err)
	return out
}

// lease requests a lease, acknowledges the current epoch and returns it.
func (g *cachingGateway) lease() int64 {
	g.t.Helper()
	g.send(0, 1)
	out := g.receive()
	require.EqualValues(g.t, 1, out.GetRenewed())
	require.Equal(g.t, 4995*time.Millisecond, out.GetLease().AsDuration(), "the granted lease is shorter than the stored lease of 5 s")
	g.send(out.GetEpoch(), 2)
	require.Equal(g.t, out.GetEpoch(), g.receive().GetEpoch())
	return out.GetEpoch()
}

// logout ends the session of a new token. It returns the token and the result of the call.
func (h *harness) logout() (token string, done <-chan error) {
	h.t.Helper()
	token, _, err := h.login("admin", password)
	require.NoError(h.t, err)
	ctx := mustAs(h, token)
	result := make(chan error, 1)
	go func() {
		_, err := h.public.Logout(ctx, &authv1.LogoutRequest{})
		result <- err
	}()
	return token, result
}

func TestAuthenticate_reportsExpiry(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	out, err := h.peer.Authenticate(t.Context(), &authpeerv1.AuthenticateRequest{Credential: token})
	require.NoError(t, err)
	require.Equal(t, h.clock.Now().Add(8*time.Hour), out.GetValidUntil().AsTime(), "a gateway must not cache the caller longer")
	out, err = h.peer.Authenticate(t.Context(), &authpeerv1.AuthenticateRequest{})
	require.NoError(t, err)
	require.Nil(t, out.GetValidUntil())
}

func TestLogout_waitsForGateways(t *testing.T) {
	t.Parallel()
	h := open(t)
	g := h.gateway(gatewayID)
	epoch := g.lease()
	token, done := h.logout()
	news := g.receive()
	require.Equal(t, epoch+1, news.GetEpoch())
	require.Zero(t, news.GetRenewed())
	require.True(t, fault.Is(h.rejection(token), fault.Unauthenticated), "auth itself rejects the token at once")
	g.send(epoch, 3)
	g.receive()
	require.Empty(t, done, "the logout was acknowledged although the gateway may still use its cache")
	g.send(epoch+1, 0)
	require.NoError(t, <-done)
}

// A gateway that does not respond may be frozen and resume later. Once its lease has ended, it no longer uses its
// cache.
func TestLogout_waitsForLeaseOfSilentGateway(t *testing.T) {
	t.Parallel()
	h := open(t)
	g := h.gateway(gatewayID)
	epoch := g.lease()
	_, done := h.logout()
	require.Equal(t, epoch+1, g.receive().GetEpoch())
	g.end()
	require.NoError(t, h.clock.Await(t.Context(), 1))
	require.Empty(t, done, "the logout still waits: the stream has ended, but the lease has not")
	_, err := h.db.Pool(auth.Name).Exec(t.Context(), `UPDATE gateway_lease SET lease_until = clock_timestamp()`)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for len(done) == 0 && t.Context().Err() == nil {
			h.clock.Advance(time.Second)
		}
	}()
	<-ended
	require.NoError(t, <-done)
	for _, w := range h.svc.Workers() {
		if w.Name == "auth.gateway-sweep" {
			ctx, cancel := context.WithCancel(t.Context())
			swept := make(chan error, 1)
			go func() { swept <- w.Run(ctx) }()
			require.Eventually(t, func() bool { return h.count("gateway_lease") == 0 }, time.Minute, time.Millisecond)
			cancel()
			require.NoError(t, <-swept)
		}
	}
}

func TestLogout_doesNotWaitForGatewayThatLeft(t *testing.T) {
	t.Parallel()
	h := open(t)
	g := h.gateway(gatewayID)
	epoch := g.lease()
	_, done := h.logout()
	require.Equal(t, epoch+1, g.receive().GetEpoch())
	require.NoError(t, g.stream.Send(&authpeerv1.WatchCallersRequest{GatewayId: gatewayID, Leaving: true}))
	require.NoError(t, <-done)
	require.Zero(t, h.count("gateway_lease"))
}

func TestWatchCallers_rejectsInvalidGateway(t *testing.T) {
	t.Parallel()
	h := open(t)
	for name, ids := range map[string][]string{
		"empty": {""}, "malformed": {"rep_1"}, "another kind": {"usr_01jd8q2w3e4r5t6y7z8a9b0c1d"}, "changed": {gatewayID, "rep_01jd8q2w3e4r5t6y7z8a9b0c1e"},
	} {
		stream, err := h.peer.WatchCallers(t.Context())
		require.NoError(t, err)
		for _, gateway := range ids {
			require.NoError(t, stream.Send(&authpeerv1.WatchCallersRequest{GatewayId: gateway, Renewal: 1}), name)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		require.True(t, fault.Is(err, fault.Refused), "%s: %v", name, err)
	}
}

func (h *harness) count(table string) (n int) {
	h.t.Helper()
	require.NoError(h.t, h.db.Pool(auth.Name).QueryRow(h.t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
	return n
}

// A change that makes cached callers outdated raises the epoch of callers once, when the change commits. Other changes
// must not raise the epoch, because each increase makes every gateway drop its cache.
func TestCallerEpoch_raisedByChanges(t *testing.T) {
	t.Parallel()
	h := open(t)
	_, _, err := h.login("admin", password)
	require.NoError(t, err)
	pool := h.db.Pool(auth.Name)
	epoch := func() (e int64) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT epoch FROM caller_epoch`).Scan(&e))
		return e
	}
	_, err = pool.Exec(t.Context(), `INSERT INTO team (id, key, name, created_at) VALUES ('tea_1', 'core', 'Core', now())`)
	require.NoError(t, err)
	for _, c := range []struct {
		sql    string
		raises bool
	}{
		{`UPDATE session SET last_used_at = now()`, false},
		{`UPDATE session SET revoked_at = now(), revoked_reason = 'logout'`, true},
		{`UPDATE session SET revoked_at = revoked_at`, false},
		{`UPDATE account SET email = 'a@example.com', role = role`, false},
		{`UPDATE account SET role = 'operator'`, true},
		{`UPDATE account SET disabled_at = now(), epoch = epoch + 1`, true},
		{`UPDATE account SET must_change_password = NOT must_change_password`, true},
		{`UPDATE membership SET role = 'viewer'`, true},
		{`DELETE FROM membership`, true},
		{`INSERT INTO membership (project_id, account_id, role) SELECT p.id, a.id, 'owner' FROM project p, account a`, true},
		{`INSERT INTO team_member (team_id, account_id, role) SELECT 'tea_1', id, 'lead' FROM account`, true},
		{`UPDATE team_member SET role = 'member'`, true},
		{`UPDATE project SET name = 'Other'`, false},
		{`UPDATE project SET team_id = 'tea_1'`, true},
		{`DELETE FROM team_member`, true},
		{`UPDATE signing_key SET revoked_at = now(), sealed = NULL WHERE purpose = 'access'`, true},
		{`UPDATE maintenance SET mode = 'maintenance', message = 'x'`, true},
	} {
		before := epoch()
		_, err := pool.Exec(t.Context(), c.sql)
		require.NoError(t, err, c.sql)
		want := before
		if c.raises {
			want++
		}
		require.Equal(t, want, epoch(), c.sql)
	}
}
