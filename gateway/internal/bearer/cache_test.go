package bearer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// counting is a fake auth that returns the number of the call as the identity. during, if set, runs before each
// response.
type counting struct {
	calls  int
	during func()
	err    error
}

func (c *counting) Authenticate(context.Context, *authpeerv1.AuthenticateRequest, ...grpc.CallOption) (*authpeerv1.AuthenticateResponse, error) {
	c.calls++
	if c.during != nil {
		c.during()
	}
	return &authpeerv1.AuthenticateResponse{CallerToken: fmt.Sprint(c.calls)}, c.err
}

func TestAnonymousIdentityIsReused(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC))
	auth := &counting{}
	checker := bearer.NewChecker(auth, clk, noLease)
	token := func(claim bearer.Claim) string {
		ctx, err := checker.Caller(t.Context(), claim)
		require.NoError(t, err)
		return authn.Token(ctx, clk.Now())
	}
	one := bearer.Claim{Client: "203.0.113.7"}
	require.Equal(t, "1", token(one))
	require.Equal(t, "2", token(bearer.Claim{Client: "203.0.113.8"}), "the identity contains the client's address")
	require.Equal(t, "3", token(bearer.Claim{Client: "203.0.113.7", InMaintenance: true}), "auth did not check the maintenance mode for this identity")
	require.Equal(t, "4", token(bearer.Claim{Client: "203.0.113.7", Credential: "a.b.c"}))
	require.Equal(t, "5", token(bearer.Claim{Client: "203.0.113.7", Credential: "a.b.c"}), "a credential is checked each time without a lease")
	clk.Advance(authn.AnonymousLife - time.Millisecond)
	require.Equal(t, "1", token(one))
	clk.Advance(time.Millisecond)
	require.Equal(t, "6", token(one))
	clk.Advance(-time.Hour)
	require.Equal(t, "7", token(one), "the system's clock was set back")

	auth.during = func() { clk.Advance(authn.AnonymousLife) }
	two := bearer.Claim{Client: "203.0.113.9"}
	require.Equal(t, "8", token(two))
	require.Equal(t, "9", token(two), "the age counts from the start of the call, when auth may have read the mode")
}

func TestAnonymousRefusalIsNotReused(t *testing.T) {
	t.Parallel()
	auth := &counting{err: fault.New(fault.Unavailable, fault.CodeMaintenance, "Back at nine")}
	checker := bearer.NewChecker(auth, clock.NewFake(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)), noLease)
	_, err := checker.Caller(t.Context(), bearer.Claim{})
	require.Error(t, err)
	auth.err = nil
	_, err = checker.Caller(t.Context(), bearer.Claim{})
	require.NoError(t, err)
}

func TestAnonymousIdentitiesAreBounded(t *testing.T) {
	t.Parallel()
	auth := &counting{}
	checker := bearer.NewChecker(auth, clock.NewFake(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)), noLease)
	for i := range 4097 {
		_, err := checker.Caller(t.Context(), bearer.Claim{Client: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	for i := range 4097 {
		_, err := checker.Caller(t.Context(), bearer.Claim{Client: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	require.Greater(t, auth.calls, 4097, "not all identities were kept")
}
