package auth_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/auth"
)

const (
	modeOff = authv1.MaintenanceMode_MAINTENANCE_MODE_OFF
	modeOn  = authv1.MaintenanceMode_MAINTENANCE_MODE_MAINTENANCE
)

// modeSetter changes the mode on one replica, as the admin.
type modeSetter struct {
	*harness

	client authv1.MaintenanceServiceClient
	admin  context.Context
}

func newModeSetter(t *testing.T, h *harness, token string) *modeSetter {
	t.Helper()
	conn, err := h.bus.As("gateway").Dial("auth")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	k := &modeSetter{harness: h, client: authv1.NewMaintenanceServiceClient(conn)}
	out, err := h.peer.Authenticate(t.Context(), &authpeerv1.AuthenticateRequest{Credential: token, InMaintenance: true})
	require.NoError(t, err)
	k.admin = withCaller(t, h, out.GetCallerToken())
	return k
}

func (k *modeSetter) set(mode authv1.MaintenanceMode, message *string, until *time.Time) (*authv1.Maintenance, error) {
	in := &authv1.SetMaintenanceRequest{Mode: mode, Message: message}
	if until != nil {
		in.Until = timestamppb.New(*until)
	}
	ctx, cancel := context.WithCancel(k.t.Context())
	var advanced sync.WaitGroup
	advanced.Go(func() {
		for k.clock.Await(ctx, 1) == nil {
			k.clock.Advance(authn.AnonymousLife)
		}
	})
	out, err := k.client.SetMaintenance(k.admin, in)
	cancel()
	advanced.Wait()
	if err != nil {
		return nil, fault.From(err)
	}
	return out, nil
}

// A call that begins maintenance waits for authn.AnonymousLife, because gateways reuse auth's response to an anonymous
// caller for that long.
func TestSetMaintenance_waitsForGateways(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	k := newModeSetter(t, h, token)
	for _, when := range []string{"at the beginning", "when repeated after a failure"} {
		waiting, acknowledged := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := k.client.SetMaintenance(k.admin, &authv1.SetMaintenanceRequest{Mode: modeOn})
			done <- err
			acknowledged()
		}()
		require.NoError(t, k.clock.Await(waiting, 1), "the change is acknowledged without a wait %s", when)
		require.Equal(t, "maintenance", fault.From(h.rejection("")).Code, "auth rejects at once")
		k.clock.Advance(authn.AnonymousLife - time.Millisecond)
		select {
		case err := <-done:
			require.Fail(t, "acknowledged too early "+when, "%v", err)
		case <-time.After(20 * time.Millisecond):
		}
		k.clock.Advance(time.Millisecond)
		require.NoError(t, <-done)
	}
	_, err = k.client.SetMaintenance(k.admin, &authv1.SetMaintenanceRequest{Mode: modeOff})
	require.NoError(t, err, "the end is acknowledged without a wait")
}

// rejection returns the error with which the replica rejects a request with the credential.
func (h *harness) rejection(credential string) error {
	_, err := h.as(credential)
	return err
}

func TestMaintenance_effectiveOnEveryReplica(t *testing.T) {
	t.Parallel()
	db, clk := newDB(t), clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	one, two := replica(t, db, clk), replica(t, db, clk)
	token, _, err := one.login("admin", password)
	require.NoError(t, err)
	k := newModeSetter(t, one, token)
	first, err := k.client.GetMaintenance(k.admin, &authv1.GetMaintenanceRequest{})
	require.NoError(t, err)
	require.Equal(t, modeOff, first.GetMode())
	require.Nil(t, first.GetChangedAt())
	require.Nil(t, first.Message)

	for range 20 {
		out, err := k.set(modeOn, new("Back at nine"), new(clk.Now().Add(authn.AnonymousLife+90*time.Second)))
		require.NoError(t, err)
		require.Equal(t, "Back at nine", out.GetMessage())
		require.Equal(t, "admin", out.GetChangedBy())
		for _, h := range []*harness{two, one} {
			for name, credential := range map[string]string{"admin": token, "anonymous": "", "bad token": "a.b.c"} {
				f := fault.From(h.rejection(credential))
				require.Equal(t, fault.Unavailable, f.Kind, name)
				require.Equal(t, "maintenance", f.Code, name)
				require.Equal(t, "Back at nine", f.Msg, name)
				require.Equal(t, 90*time.Second, f.RetryAfter, name)
			}
		}
		_, err = k.set(modeOff, nil, nil)
		require.NoError(t, err)
		require.NoError(t, two.rejection(token))
		require.True(t, fault.Is(two.rejection("a.b.c"), fault.Unauthenticated))
	}
}

func TestMaintenance_endedByAdminAfterNewLogin(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	_, err = newModeSetter(t, h, token).set(modeOn, nil, nil)
	require.NoError(t, err)
	h.t.Log("an admin without a session signs in during maintenance")
	anyone, err := h.peer.Authenticate(t.Context(), &authpeerv1.AuthenticateRequest{InMaintenance: true})
	require.NoError(t, err)
	cfg, err := h.public.GetConfig(withCaller(t, h, anyone.GetCallerToken()), &authv1.GetConfigRequest{})
	require.NoError(t, err)
	require.Equal(t, "the installation is in maintenance", cfg.GetMaintenance().GetMessage())
	require.Nil(t, cfg.GetMaintenance().GetUntil())
	in, err := h.public.Login(withCaller(t, h, anyone.GetCallerToken()), &authv1.LoginRequest{Username: "admin", Password: password})
	require.NoError(t, err)
	_, err = newModeSetter(t, h, in.GetToken()).set(modeOff, nil, nil)
	require.NoError(t, err)
	require.NoError(t, h.rejection(in.GetToken()))
	cfg, err = h.public.GetConfig(mustAs(h, ""), &authv1.GetConfigRequest{})
	require.NoError(t, err)
	require.Nil(t, cfg.GetMaintenance())
}

func TestMaintenance_survivesRestartAndIsAudited(t *testing.T) {
	t.Parallel()
	db, clk := newDB(t), clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	h := replica(t, db, clk)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	k := newModeSetter(t, h, token)
	_, err = k.set(modeOn, new("A new database"), nil)
	require.NoError(t, err)
	require.Equal(t, "maintenance", fault.From(replica(t, db, clk).rejection("")).Code, "a process that starts during maintenance rejects requests")
	_, err = k.set(modeOff, new("not kept"), nil)
	require.NoError(t, err)

	pool := db.Pool(auth.Name)
	rows, err := audit.List(t.Context(), pool, audit.Filter{Action: "maintenance.set"}, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, "admin", rows[0].Actor.Name)
	require.JSONEq(t, `{"mode": "maintenance", "message": "A new database", "until": null}`, string(rows[0].Before))
	require.JSONEq(t, `{"mode": "off", "message": "", "until": null}`, string(rows[0].After))
	events, err := event.List(t.Context(), pool, "installation", "installation", request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, []string{"off", "maintenance", "A new database"}, []string{events[0].From, events[0].To, events[0].Message})
	require.Equal(t, "off", events[1].To)
}

func TestMaintenance_retryAfter(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	k := newModeSetter(t, h, token)
	for name, tc := range map[string]struct{ until, want time.Duration }{
		"until the end": {5 * time.Minute, 5 * time.Minute}, "at most one hour": {48 * time.Hour, time.Hour}, "at least one second": {time.Millisecond, time.Second},
	} {
		_, err := k.set(modeOn, nil, new(h.clock.Now().Add(authn.AnonymousLife+tc.until)))
		require.NoError(t, err)
		require.Equal(t, tc.want, fault.From(h.rejection("")).RetryAfter, name)
	}
	_, err = k.set(modeOn, nil, new(h.clock.Now().Add(time.Minute)))
	require.NoError(t, err)
	h.clock.Advance(2 * time.Minute)
	f := fault.From(h.rejection(""))
	require.Equal(t, "maintenance", f.Code, "maintenance lasts until an admin ends it")
	require.Equal(t, time.Minute, f.RetryAfter)
}

func TestSetMaintenance_invalid(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	k := newModeSetter(t, h, token)
	past := h.clock.Now()
	for name, in := range map[string]*authv1.SetMaintenanceRequest{
		"no mode":                   {},
		"unknown mode":              {Mode: 3},
		"empty message":             {Mode: modeOn, Message: new("")},
		"long message":              {Mode: modeOn, Message: new(strings.Repeat("x", 501))},
		"message with a line break": {Mode: modeOn, Message: new("a\nb")},
		"end in the past":           {Mode: modeOn, Until: timestamppb.New(past)},
	} {
		_, err := k.client.SetMaintenance(k.admin, in)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
	anonymous := mustAs(h, "")
	_, err = k.client.SetMaintenance(anonymous, &authv1.SetMaintenanceRequest{Mode: modeOn})
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	require.NoError(t, h.rejection(""))
}

// Concurrent changes are made one after the other: each event begins with the mode in which the previous one ended.
func TestSetMaintenance_concurrent(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	k := newModeSetter(t, h, token)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			mode := modeOn
			if i%2 == 0 {
				mode = modeOff
			}
			_, err := k.set(mode, nil, nil)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	events, err := event.List(t.Context(), h.db.Pool(auth.Name), "installation", "installation", request.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, events, 16)
	last := "off"
	for _, e := range events {
		require.Equal(t, last, e.From)
		last = e.To
	}
}
