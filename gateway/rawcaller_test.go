package gateway_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// headerRecorder records the headers that a service's HTTP handler receives.
type headerRecorder struct {
	mu   sync.Mutex
	what []http.Header
}

func (s *headerRecorder) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what = append(s.what, r.Header.Clone())
}

func (s *headerRecorder) take() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := s.what
	s.what = nil
	return what
}

func TestRawCallCarriesSignedCallerNotToken(t *testing.T) {
	t.Parallel()
	service := &headerRecorder{}
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Inference = service })
	const path = "/api/playground/sessions/pg_01arz3ndektsv4rrffq69g5fav/targets/1/v1/chat/completions"
	forged, _, err := r.credentials.signer.Sign(&authn.Caller{Kind: authn.KindUser, Subject: "usr_2", Username: "eve", Role: authn.RoleAdmin})
	require.NoError(t, err)

	got := r.do("POST", path, `{}`, as(userToken, "X-Service-Caller", forged, "X-Kept", "yes")...)
	require.Equal(t, http.StatusOK, got.status, got.body)
	reached := service.take()
	require.Len(t, reached, 1)
	require.Empty(t, reached[0].Values("Authorization"))
	require.Equal(t, "yes", reached[0].Get("X-Kept"))
	require.Len(t, reached[0].Values("X-Service-Caller"), 1)
	caller, _, err := r.verifier.Verify(t.Context(), reached[0].Get("X-Service-Caller"))
	require.NoError(t, err)
	require.Equal(t, []string{"usr_1", "ada", authn.RoleOperator}, []string{caller.Subject, caller.Username, caller.Role}, "the identity comes from auth, not from the client's header")

	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"no token":             {nil, http.StatusUnauthorized},
		"signed caller only":   {[]string{"X-Service-Caller", forged}, http.StatusUnauthorized},
		"deployment token":     {as("dtk_x"), http.StatusUnauthorized},
		"two tokens":           {as(userToken, "Authorization", "Bearer "+adminToken), http.StatusUnauthorized},
		"page of another site": {as(userToken, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), http.StatusForbidden},
	} {
		got := r.do("POST", path, `{}`, c.headers...)
		require.Equal(t, c.want, got.status, "%s: %s", name, got.body)
		require.NotEmpty(t, got.json(t)["detail"], name)
		require.Empty(t, service.take(), name)
	}
	r.credentials.revoked.Store(userToken, true)
	require.Eventually(t, func() bool {
		got := r.do("POST", path, `{}`, as(userToken)...)
		service.take()
		return got.status == http.StatusUnauthorized
	}, 30*time.Second, 10*time.Millisecond, "a revoked token stops working")
}

// A long call ends when its caller loses access, but not when maintenance begins.
func TestRawCallEndsWhenCallerIsRevoked(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(clock.Real().Now())
	begun := make(chan struct{}, 1)
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
		fault.WriteOpenAI(w, context.Cause(r.Context()), "")
	})
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Inference, d.Clock = service, clk })
	done := make(chan response, 1)
	go func() {
		done <- r.do("POST", "/api/playground/sessions/pg_01arz3ndektsv4rrffq69g5fav/targets/1/v1/chat/completions", `{}`, as(userToken)...)
	}()
	<-begun
	r.credentials.mode.Store(fault.New(fault.Unavailable, fault.CodeMaintenance, "maintenance"))
	for range 2 { // the second check shows that the first did not end the call
		calls := len(r.all())
		require.NoError(t, clk.Await(t.Context(), 1))
		clk.Advance(sse.Recheck)
		require.Eventually(t, func() bool { return len(r.all()) > calls }, time.Minute, time.Millisecond)
	}
	r.credentials.mode.Store(nil)
	r.credentials.revoked.Store(userToken, true)
	require.Eventually(t, func() bool { clk.Advance(sse.Recheck); return len(done) == 1 }, time.Minute, 10*time.Millisecond)
	got := <-done
	require.Equal(t, http.StatusUnauthorized, got.status, got.body)
	require.Equal(t, "token_revoked", got.json(t)["code"])
}
