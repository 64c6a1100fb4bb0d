package authn_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

type harness struct {
	clk      *clock.Fake
	key      authn.SigningKey
	signer   *authn.Signer
	verifier *authn.Verifier
}

func newHarness(t *testing.T) harness {
	t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC))
	n := 0
	newID := func() string { n++; return fmt.Sprintf("jti-%d", n) }
	return harness{
		clk: clk, key: key,
		signer:   authn.NewSigner(clk, newID, func() authn.SigningKey { return key }),
		verifier: authn.NewVerifier(clk, authn.StaticKeys(clk, key.Public())),
	}
}

func TestCallerToken_roundTrip(t *testing.T) {
	t.Parallel()
	callers := map[string]*authn.Caller{
		"none": {Kind: authn.KindNone, ClientAddr: "192.0.2.1"},
		"user": {
			Kind: authn.KindUser, Subject: "usr_1", Username: "ann", SessionID: "ses_1", Role: authn.RoleOperator,
			ClientAddr: "2001:db8::1", Epoch: 1<<62 + 1, Teams: []string{"team_1"},
			Projects: []authn.ProjectRole{{Project: "prj_1", Role: authn.ProjectEditor}},
		},
		"ingest":     {Kind: authn.KindIngest, Subject: "run_1", RunID: "run_1"},
		"deployment": {Kind: authn.KindDeployment, Subject: "dep_1", DeploymentID: "dep_1"},
	}
	for name, c := range callers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
			token, signedFor, err := b.signer.Sign(c)
			require.NoError(t, err)
			got, expires, err := b.verifier.Verify(t.Context(), token)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(c, got))
			require.Equal(t, signedFor, expires)
			require.Equal(t, time.Date(2026, 11, 21, 3, 1, 0, 0, time.UTC), expires)
		})
	}
}

func TestSigner_Sign_invalidCallers(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	for name, c := range map[string]*authn.Caller{
		"agent":                 {Kind: authn.KindAgent, Subject: "nod_1"},
		"service":               {Kind: authn.KindService, Subject: "jobs"},
		"no kind":               {Subject: "usr_1", Role: authn.RoleAdmin},
		"user without subject":  {Kind: authn.KindUser, Role: authn.RoleAdmin},
		"user without role":     {Kind: authn.KindUser, Subject: "usr_1"},
		"none with role":        {Kind: authn.KindNone, Role: authn.RoleAdmin},
		"ingest without run":    {Kind: authn.KindIngest, Subject: "x"},
		"ingest with role":      {Kind: authn.KindIngest, RunID: "run_1", Role: authn.RoleAdmin},
		"deployment without id": {Kind: authn.KindDeployment},
	} {
		_, _, err := b.signer.Sign(c)
		require.Error(t, err, name)
	}
}

func TestVerifier_rejectsServiceKind(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	token, err := authn.CallerFormat().Sign(b.key, b.clk.Now(), "jobs", "j", authn.Caller{Kind: authn.KindService})
	require.NoError(t, err)
	_, _, err = b.verifier.Verify(t.Context(), token)
	require.True(t, fault.Is(err, fault.Unauthenticated))
}

func TestSigner_Sign_truncatesProjects(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	c := operator()
	c.Projects = nil
	for i := range 700 {
		c.Projects = append(c.Projects, authn.ProjectRole{Project: fmt.Sprintf("prj_%026d", i), Role: authn.ProjectEditor})
	}
	token, _, err := b.signer.Sign(c)
	require.NoError(t, err)
	require.Less(t, len(token), 40<<10)
	got, _, err := b.verifier.Verify(t.Context(), token)
	require.NoError(t, err)
	require.Len(t, got.Projects, authn.MaxProjects)
	require.True(t, got.ProjectsCut)
	require.Len(t, c.Projects, 700, "the original caller is not modified")
}

func TestCallerToken_maxSize(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	c := operator()
	c.Username = strings.Repeat("x", 70<<10)
	_, _, err := b.signer.Sign(c)
	require.ErrorContains(t, err, "exceed the maximum")
	_, _, err = b.verifier.Verify(t.Context(), strings.Repeat(".", 1<<20))
	require.True(t, fault.Is(err, fault.Unauthenticated))
}

func TestVerifier_clockSkew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		shift time.Duration
		ok    bool
	}{
		{"29 s after expiry", 89 * time.Second, true},
		{"31 s after expiry", 91 * time.Second, false},
		{"signer 29 s ahead", -29 * time.Second, true},
		{"signer 31 s ahead", -31 * time.Second, false},
	} {
		b := newHarness(t)
		token, _, err := b.signer.Sign(operator())
		require.NoError(t, err)
		here := clock.NewFake(b.clk.Now().Truncate(time.Second).Add(c.shift))
		_, _, err = authn.NewVerifier(here, authn.StaticKeys(here, b.key.Public())).Verify(context.Background(), token)
		require.Equal(t, c.ok, err == nil, c.name)
		if !c.ok {
			require.True(t, fault.Is(err, fault.Unauthenticated), c.name)
			require.Equal(t, c.shift > 0, fault.HasCode(err, authn.CodeTokenExpired), c.name)
		}
	}
}

// A remembered token is rejected as soon as a new one would be.
func TestVerifier_rememberedToken(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	keys := []authn.PublicKey{b.key.Public()}
	known := authn.NewKeys(b.clk, func(context.Context) ([]authn.PublicKey, error) { return keys, nil })
	v := authn.NewVerifier(b.clk, known)
	token, expires, err := b.signer.Sign(operator())
	require.NoError(t, err)
	var first *authn.Caller
	for range 3 {
		c, until, err := v.Verify(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, expires, until)
		if first == nil {
			first = c
		}
		require.Same(t, first, c, "the signature is verified once")
	}
	_, _, err = v.Verify(t.Context(), token[:len(token)-2])
	require.True(t, fault.Is(err, fault.Unauthenticated), "a truncated form of a remembered token is rejected")
	keys = nil
	b.clk.Advance(authn.KeysMaxAge)
	_, _, err = v.Verify(t.Context(), token)
	require.True(t, fault.Is(err, fault.Unauthenticated), "a remembered token is rejected once its key is revoked")
	keys = []authn.PublicKey{b.key.Public()}
	_, _, err = v.Verify(t.Context(), token)
	require.NoError(t, err)
	b.clk.Advance(2 * time.Minute)
	_, _, err = v.Verify(t.Context(), token)
	require.True(t, fault.HasCode(err, authn.CodeTokenExpired), "%v", err)
}

func TestVerifier_manyTokens(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	for range 2100 {
		token, _, err := b.signer.Sign(operator())
		require.NoError(t, err)
		for range 2 {
			c, _, err := b.verifier.Verify(t.Context(), token)
			require.NoError(t, err)
			require.Equal(t, operator().Subject, c.Subject)
		}
	}
}
