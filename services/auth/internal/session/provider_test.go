package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPasswordSession_endsWhenProviderConfigured(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	byPassword, byProvider, device := h.login(), h.open(MethodOIDC), h.open(MethodDevice)
	h.ByProvider = true
	_, err := h.authenticate(byPassword.Access)
	h.refused(err)
	_, err = h.renew(byPassword.Refresh)
	h.refused(err)
	for _, tokens := range []Tokens{byProvider, device} {
		_, err = h.authenticate(tokens.Access)
		require.NoError(t, err)
	}
	_, err = h.renew(byProvider.Refresh)
	require.NoError(t, err)
	h.ByProvider = false
	_, err = h.renew(byPassword.Refresh)
	require.NoError(t, err, "a rejected refresh does not use up the token")
}

// The provider can reject a user who has left the organization only at a sign-in. A session that a sign-in with the
// provider opened is therefore not extended.
func TestProviderSession_renewedForThirtyDays(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tokens, byPassword := h.open(MethodOIDC), h.login()
	refresh, other := tokens.Refresh, byPassword.Refresh
	for range 3 {
		h.clock.Advance(RefreshTTL/3 - time.Second)
		next, err := h.renew(refresh)
		require.NoError(t, err)
		refresh = next.Refresh
		next, err = h.renew(other)
		require.NoError(t, err)
		other = next.Refresh
	}
	h.clock.Advance(3 * time.Second)
	_, err := h.renew(refresh)
	h.refused(err)
	_, err = h.renew(other)
	require.NoError(t, err, "a password session is extended by each refresh")
}
