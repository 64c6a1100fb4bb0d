package auth_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth"
)

const (
	access = authv1.KeyPurpose_KEY_PURPOSE_ACCESS
	caller = authv1.KeyPurpose_KEY_PURPOSE_CALLER
)

// accessWorks reports whether a call with the access token succeeds.
func (h *harness) accessWorks(token string) bool {
	h.t.Helper()
	ctx, err := h.as(token)
	if err != nil {
		require.True(h.t, fault.Is(err, fault.Unauthenticated), "%v", err)
		return false
	}
	_, err = h.public.GetMe(ctx, &authv1.GetMeRequest{})
	return err == nil
}

// rotate rotates the keys of a purpose, authenticated with the given access token.
func (h *harness) rotate(token string, purpose authv1.KeyPurpose, revoke bool) ([]*authv1.SigningKey, error) {
	h.t.Helper()
	ctx, err := h.as(token)
	require.NoError(h.t, err)
	out, err := h.keys.RotateKey(ctx, &authv1.RotateKeyRequest{Purpose: purpose, Revoke: revoke})
	return out.GetKeys(), err
}

func states(keys []*authv1.SigningKey) (all []string) {
	for _, k := range keys {
		all = append(all, k.GetState())
	}
	return all
}

func TestKeyService_adminsOnly(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	_, err = h.db.Pool(auth.Name).Exec(t.Context(), `UPDATE account SET role = 'operator'`)
	require.NoError(t, err)
	_, err = h.rotate(token, access, true)
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	ctx, err := h.as(token)
	require.NoError(t, err)
	_, err = h.keys.ListKeys(ctx, &authv1.ListKeysRequest{})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = h.db.Pool(auth.Name).Exec(t.Context(), `UPDATE account SET role = 'admin'`)
	require.NoError(t, err)
	out, err := h.keys.ListKeys(mustAs(h, token), &authv1.ListKeysRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"signing", "signing"}, states(out.GetKeys()))
	_, err = h.rotate(token, authv1.KeyPurpose_KEY_PURPOSE_UNSPECIFIED, true)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// The key is revoked on one of three replicas. All three have just used the key.
func TestRotateKey_revokedAccessKeyEffectiveOnAllReplicas(t *testing.T) {
	t.Parallel()
	h := open(t)
	replicas := []*harness{h, replica(t, h.db, h.clock), replica(t, h.db, h.clock)}
	token, refresh, err := h.login("admin", password)
	require.NoError(t, err)
	for _, r := range replicas {
		require.True(t, r.accessWorks(token))
	}
	keys, err := h.rotate(token, access, true)
	require.NoError(t, err)
	require.Equal(t, []string{"signing", "revoked"}, states(keys))
	for n, r := range replicas {
		require.False(t, r.accessWorks(token), "replica %d must reject a token of the revoked key", n)
	}
	for n, r := range replicas {
		fresh, next, err := r.refresh(refresh)
		require.NoError(t, err, "the session continues with a token of the new key")
		for m, other := range replicas {
			require.True(t, other.accessWorks(fresh), "replica %d rejects a token of replica %d", m, n)
		}
		refresh = next
	}
	var actor, action string
	row := h.db.Pool(auth.Name).QueryRow(t.Context(), `SELECT actor_name, action FROM audit WHERE target_kind = 'signing_key'`)
	require.NoError(t, row.Scan(&actor, &action))
	require.Equal(t, []string{"admin", "key.revoke"}, []string{actor, action})
}

// After the revocation of the key that signs caller identities, services reject its identities within seconds.
func TestRotateKey_revokedCallerKeyGoneWithinSeconds(t *testing.T) {
	t.Parallel()
	h := open(t)
	other := replica(t, h.db, h.clock)
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	before := mustAs(h, token)
	for _, r := range []*harness{h, other} {
		_, err := r.public.GetMe(before, &authv1.GetMeRequest{})
		require.NoError(t, err)
	}
	keys, err := h.rotate(token, caller, true)
	require.NoError(t, err)
	require.Equal(t, []string{"signing", "revoked"}, states(keys))
	require.True(t, h.accessWorks(token), "new identities are accepted at once: a verifier fetches unknown keys")
	h.clock.Advance(5 * time.Second)
	for n, r := range []*harness{h, other} {
		_, err := r.public.GetMe(before, &authv1.GetMeRequest{})
		require.True(t, fault.Is(err, fault.Unauthenticated), "replica %d: %v", n, err)
		require.True(t, r.accessWorks(token), "replica %d must sign with the new key", n)
	}
}

// Three replicas issue and check tokens while keys of both purposes rotate, on schedule and on request.
func TestRotateKey_noRejectionsUnderLoad(t *testing.T) {
	t.Parallel()
	h := open(t)
	replicas := []*harness{h, replica(t, h.db, h.clock), replica(t, h.db, h.clock)}
	first, refresh, err := h.login("admin", password)
	require.NoError(t, err)
	tokens := []string{first}
	for step := range 40 {
		if step%20 == 5 {
			for _, purpose := range []authv1.KeyPurpose{access, caller} {
				_, err := h.rotate(tokens[len(tokens)-1], purpose, false)
				require.NoError(t, err)
			}
		}
		var wg sync.WaitGroup
		for n := range 12 {
			wg.Go(func() {
				if !replicas[n%3].accessWorks(tokens[n%len(tokens)]) {
					t.Errorf("step %d: a valid token is rejected", step)
				}
			})
		}
		wg.Wait()
		token, next, err := replicas[step%3].refresh(refresh)
		require.NoError(t, err)
		tokens, refresh = append(tokens, token), next
		h.clock.Advance(15 * time.Second)
	}
	out, err := h.keys.ListKeys(mustAs(h, tokens[0]), &authv1.ListKeysRequest{})
	require.NoError(t, err)
	require.Len(t, out.GetKeys(), 6)
}
