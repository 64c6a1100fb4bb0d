package bearer_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// noLease is the monotonic clock of checkers that have no watcher.
func noLease() time.Duration { return 0 }

func TestUserReadsAccessToken(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"Bearer eyJh.b-_9.c", "bearer eyJh.b-_9.c", "BEARER eyJh.b-_9.c"} {
		token, f := bearer.User(http.Header{"Authorization": {value}})
		require.Nil(t, f, value)
		require.Equal(t, "eyJh.b-_9.c", token)
	}
}

func TestUserNamesExpectedCredential(t *testing.T) {
	t.Parallel()
	for kind, name := range map[string]string{secret.KindDeployment: "a deployment token", secret.KindIngest: "an ingest token", secret.KindRefresh: "a refresh token"} {
		token, err := secret.Mint(rand.Reader, kind)
		require.NoError(t, err)
		_, f := bearer.User(http.Header{"Authorization": {"Bearer " + token.Reveal()}})
		require.NotNil(t, f)
		require.Equal(t, "token_invalid", f.Code)
		require.Equal(t, "this route expects an access token, not "+name, f.Text())
	}
}

func TestUserRefusesOtherCredentials(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		"none": nil, "two": {"Bearer a.b.c", "Bearer a.b.c"}, "opaque": {"Bearer ing_abc"}, "basic": {"Basic a.b.c"}, "bare": {"a.b.c"},
		"tab": {"Bearer\ta.b.c"}, "padding": {"Bearer a.b.c="}, "a list": {"Bearer a.b.c,Bearer a.b.c"}, "long": {"Bearer a.b." + strings.Repeat("c", 4096)},
		"line break": {"Bearer a.b.c\r\nX: y"}, "not ASCII": {"Bearer a.b.ç"},
	} {
		_, f := bearer.User(http.Header{"Authorization": values})
		require.NotNil(t, f, name)
		require.Equal(t, fault.Unauthenticated, f.Kind, name)
		require.NotContains(t, f.Error(), "a.b.c", "the error must not contain the credential")
	}
	_, f := bearer.User(http.Header{"Authorization": {"Bearer eyJh.b."}})
	require.NotNil(t, f)
	require.Equal(t, "Could not validate credentials", f.Text(), "a malformed access token is not reported as another kind of token")
	_, f = bearer.User(http.Header{"authorization": {"Bearer a.b.c"}, "X-Service-Token": {"a.b.c"}, "Proxy-Authorization": {"Bearer a.b.c"}})
	require.NotNil(t, f)
}

// fakeAuth returns a fixed token or error and records the last request.
// during, if set, runs before each response.
type fakeAuth struct {
	last   *authpeerv1.AuthenticateRequest
	calls  int
	token  string
	until  time.Time
	during func()
	err    error
}

func (w *fakeAuth) Authenticate(_ context.Context, in *authpeerv1.AuthenticateRequest, _ ...grpc.CallOption) (*authpeerv1.AuthenticateResponse, error) {
	w.last = in
	w.calls++
	if w.during != nil {
		w.during()
	}
	if w.err != nil {
		return nil, w.err
	}
	return &authpeerv1.AuthenticateResponse{CallerToken: w.token, ValidUntil: validUntil(w.until)}, nil
}

func TestCallerIdentityFromAuth(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	auth := &fakeAuth{token: "signed"}
	ctx, err := bearer.NewChecker(auth, clk, noLease).Caller(t.Context(), bearer.Claim{Credential: "a.b.c", Client: "203.0.113.7", InMaintenance: true})
	require.NoError(t, err)
	require.Equal(t, "a.b.c", auth.last.GetCredential())
	require.Equal(t, "203.0.113.7", auth.last.GetClientAddress())
	require.True(t, auth.last.GetInMaintenance())
	require.Equal(t, "signed", authn.Token(ctx, clk.Now()))
	clk.Advance(time.Minute)
	require.Empty(t, authn.Token(ctx, clk.Now()), "the identity expires with auth's signature")
}

func TestCallerReturnsAuthRefusal(t *testing.T) {
	t.Parallel()
	refusal := fault.New(fault.Unauthenticated, "token_revoked", "Could not validate credentials")
	ctx, err := bearer.NewChecker(&fakeAuth{err: refusal}, clock.Real(), noLease).Caller(t.Context(), bearer.Claim{Credential: "a.b.c"})
	require.ErrorIs(t, err, refusal)
	require.Empty(t, authn.Token(ctx, clock.Real().Now()))
}

func TestRecheckDetectsChangedAccess(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	signer := authn.NewSigner(clk, clk.Now().String, func() authn.SigningKey { return key })
	sign := func(role string, projects ...authn.ProjectRole) string {
		token, _, err := signer.Sign(&authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: role, Projects: projects})
		require.NoError(t, err)
		return token
	}
	member := authn.ProjectRole{Project: "prj_1", Role: authn.ProjectViewer}
	auth := &fakeAuth{token: sign(authn.RoleOperator, member)}
	checker := bearer.NewChecker(auth, clk, noLease)
	opened, err := checker.Caller(t.Context(), bearer.Claim{Credential: "a.b.c"})
	require.NoError(t, err)
	again := checker.Recheck(opened, bearer.Claim{Credential: "a.b.c", Client: "203.0.113.7"})
	clk.Advance(time.Hour)
	auth.token = sign(authn.RoleOperator, member)
	require.NoError(t, again(t.Context()))
	require.Equal(t, "203.0.113.7", auth.last.GetClientAddress())
	for _, token := range []string{sign(authn.RoleOperator), sign(authn.RoleAdmin, member), "unreadable"} {
		auth.token = token
		err := again(t.Context())
		require.True(t, fault.Is(err, fault.Unavailable) && fault.HasCode(err, bearer.CodeAccessChanged), "%v", err)
	}
	auth.err = fault.New(fault.Unauthenticated, "token_revoked", "Could not validate credentials")
	require.ErrorIs(t, again(t.Context()), auth.err)
}
