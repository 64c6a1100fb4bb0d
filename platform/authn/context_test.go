package authn_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
)

func TestContext_carriesCaller(t *testing.T) {
	t.Parallel()
	_, ok := authn.FromContext(t.Context())
	require.False(t, ok)
	require.Equal(t, authn.KindNone, authn.CallerOf(t.Context()).Kind)
	_, ok = authn.FromContext(authn.NewContext(t.Context(), nil))
	require.False(t, ok, "a nil caller counts as none")

	ctx := authn.NewContext(t.Context(), operator())
	got, ok := authn.FromContext(ctx)
	require.True(t, ok)
	require.Equal(t, "usr_1", got.Subject)
	require.Equal(t, "usr_1", authn.CallerOf(ctx).Subject)
}

func TestToken_emptyAfterExpiry(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	require.Empty(t, authn.Token(t.Context(), at))
	ctx := authn.WithToken(t.Context(), "raw", at.Add(time.Minute))
	require.Equal(t, "raw", authn.Token(ctx, at.Add(59*time.Second)))
	require.Empty(t, authn.Token(ctx, at.Add(time.Minute)))
}

func TestBackground_dropsCallerAndToken(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	type other struct{}
	ctx := context.WithValue(t.Context(), other{}, "kept")
	ctx = authn.WithToken(authn.NewContext(ctx, operator()), "raw", at.Add(time.Minute))
	ctx = authn.Background(ctx)
	_, ok := authn.FromContext(ctx)
	require.False(t, ok)
	require.Empty(t, authn.Token(ctx, at))
	require.Equal(t, "kept", ctx.Value(other{}))
}
