package key

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// TestRotation_keyLifecycle follows a key from its publication to its retirement on two replicas.
func TestRotation_keyLifecycle(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	mine, theirs := b.replica(), b.replica()
	old := signingKey(t, mine, Access).ID
	require.NoError(t, mine.Rotate(t.Context(), Access, false))
	b.clock.Advance(maxAge)
	public, err := theirs.Ring.Of(Access).Public(t.Context())
	require.NoError(t, err)
	require.Len(t, public, 2, "the successor is published")
	fresh := public[0].ID
	for _, r := range []*Rotation{mine, theirs} {
		require.Equal(t, old, signingKey(t, r, Access).ID, "the successor does not sign yet")
		require.True(t, finds(t.Context(), r, Access, fresh))
	}
	b.clock.Advance(lead)
	for _, r := range []*Rotation{mine, theirs} {
		require.Equal(t, fresh, signingKey(t, r, Access).ID)
		require.True(t, finds(t.Context(), r, Access, old))
	}
	b.clock.Advance(8 * time.Hour)
	require.True(t, finds(t.Context(), theirs, Access, old), "the old key verifies as long as its tokens may live")
	require.NoError(t, mine.Run(t.Context()))
	require.Zero(t, b.count("retired_at IS NOT NULL"))
	b.clock.Advance(slack)
	require.False(t, finds(t.Context(), theirs, Access, old))
	require.NoError(t, mine.Run(t.Context()))
	require.Equal(t, 1, b.count("retired_at IS NOT NULL AND sealed IS NULL"), "the private half is deleted")
	require.True(t, finds(t.Context(), theirs, Access, fresh))
}

func TestRotation_Run_concurrentReplicas(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	replicas := []*Rotation{b.replica(), b.replica(), b.replica()}
	run := func() {
		var wg sync.WaitGroup
		for _, r := range replicas {
			for range 3 {
				wg.Go(func() {
					if err := r.Run(t.Context()); err != nil {
						t.Errorf("a concurrent run failed: %v", err)
					}
				})
			}
		}
		wg.Wait()
	}
	b.clock.Advance(30*24*time.Hour - time.Second)
	run()
	require.Equal(t, 2, b.count("true"))
	b.clock.Advance(time.Second)
	run()
	require.Equal(t, 4, b.count("true"), "one successor per purpose")
	b.clock.Advance(lead)
	first := signingKey(t, replicas[0], Access).ID
	for _, r := range replicas {
		require.Equal(t, first, signingKey(t, r, Access).ID)
	}
	run()
	require.Equal(t, 4, b.count("true"))
	var kind string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT DISTINCT actor_kind FROM audit WHERE action = 'key.rotate'`).Scan(&kind))
	require.Equal(t, "service", kind)
}

func TestRotation_Rotate_revoke(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	mine, theirs := b.replica(), b.replica()
	require.NoError(t, mine.Rotate(t.Context(), Access, false))
	b.clock.Advance(lead)
	old, caller := signingKey(t, theirs, Access).ID, signingKey(t, theirs, Caller).ID
	require.NoError(t, mine.Rotate(t.Context(), Access, true))
	require.Equal(t, 2, b.count("revoked_at IS NOT NULL AND sealed IS NULL"), "the former key is revoked too, and no private half remains")
	fresh := signingKey(t, mine, Access).ID
	require.NotEqual(t, old, fresh)
	require.False(t, finds(t.Context(), mine, Access, old))
	require.True(t, finds(t.Context(), theirs, Access, fresh), "another replica finds a key that it has not read yet")
	require.False(t, finds(t.Context(), theirs, Access, old))
	latest, err := theirs.Ring.Of(Access).Latest(t.Context(), theirs.Ring.store.Pool)
	require.NoError(t, err)
	require.Equal(t, fresh, latest.ID)
	require.Equal(t, caller, signingKey(t, theirs, Caller).ID, "keys of other purposes stay")
}

func TestSet_Latest_readsEachTime(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	mine, theirs := b.replica(), b.replica()
	old := signingKey(t, theirs, Access).ID
	require.NoError(t, mine.Rotate(t.Context(), Access, true))
	require.Equal(t, old, signingKey(t, theirs, Access).ID, "Signing returns the key of the last read")
	latest, err := theirs.Ring.Of(Access).Latest(t.Context(), theirs.Ring.store.Pool)
	require.NoError(t, err)
	require.Equal(t, signingKey(t, mine, Access).ID, latest.ID)
}

func TestRotation_Rotate_pendingSuccessor(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r := b.replica()
	require.NoError(t, r.Rotate(t.Context(), Caller, false))
	err := r.Rotate(t.Context(), Caller, false)
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	require.NoError(t, r.Rotate(t.Context(), Access, false), "a pending successor does not block rotations of another purpose")
	b.clock.Advance(lead)
	require.NoError(t, r.Rotate(t.Context(), Caller, false))
	require.Equal(t, 3, b.count("purpose = 'caller'"))
}

func TestRotation_List_states(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r := b.replica()
	states := func() (access []State) {
		keys, more, err := r.List(t.Context(), Access, request.Page{Limit: 10})
		require.NoError(t, err)
		require.False(t, more)
		for _, k := range keys {
			access = append(access, k.State)
		}
		return access
	}
	require.Equal(t, []State{Signing}, states())
	require.NoError(t, r.Rotate(t.Context(), Access, false))
	require.Equal(t, []State{Published, Signing}, states())
	b.clock.Advance(lead)
	require.Equal(t, []State{Signing, Verifying}, states())
	b.clock.Advance(9 * time.Hour)
	require.Equal(t, []State{Signing, Retired}, states())
	require.NoError(t, r.Rotate(t.Context(), Access, true))
	require.Equal(t, []State{Signing, Revoked, Revoked}, states())
	all, more, err := r.List(t.Context(), "", request.Page{Limit: 2, Offset: 1})
	require.NoError(t, err)
	require.True(t, more, "another page follows, because there are four keys")
	require.Equal(t, []State{Revoked, Revoked}, []State{all[0].State, all[1].State})
	require.True(t, all[0].Generation > all[1].Generation)
}

func TestRing_JWKS_accessKeysOnly(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r := b.replica()
	require.NoError(t, r.Rotate(t.Context(), Access, false))
	raw, err := r.Ring.JWKS(t.Context())
	require.NoError(t, err)
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	require.NoError(t, json.Unmarshal(raw, &set))
	require.Len(t, set.Keys, 2, "the successor is published")
	public, err := r.Ring.Of(Access).Public(t.Context())
	require.NoError(t, err)
	for i, k := range set.Keys {
		x := base64.RawURLEncoding.EncodeToString(public[i].Key)
		require.Equal(t, map[string]string{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": public[i].ID, "x": x}, k)
	}
	require.NotContains(t, string(raw), signingKey(t, r, Caller).ID, "keys of caller identities are not published")
	require.NoError(t, r.Rotate(t.Context(), Access, true))
	raw, err = r.Ring.JWKS(t.Context())
	require.NoError(t, err)
	require.NotContains(t, string(raw), public[0].ID)
}

func TestSet_Find_unknownKeysShareReads(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r := b.replica()
	r.Ring.mu.Lock()
	before := r.Ring.begun
	r.Ring.mu.Unlock()
	r.Ring.gate <- struct{}{} // as if a read were in progress when Find is called
	const n = 200
	var wg sync.WaitGroup
	var called sync.WaitGroup
	called.Add(n)
	for range n {
		wg.Go(func() {
			called.Done()
			_, err := r.Ring.Of(Access).Find(t.Context(), "AAAAAAAAAAAAAAAA")
			if !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("the error for an unknown key id is %v", err)
			}
		})
	}
	called.Wait()
	<-r.Ring.gate
	wg.Wait()
	require.Less(t, r.Ring.begun-before, uint64(n/2))
}

func TestSet_Find_databaseDown(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r := b.replica()
	known := signingKey(t, r, Access)
	b.pool.Close()
	_, err := r.Ring.Of(Access).Find(t.Context(), "AAAAAAAAAAAAAAAA")
	require.True(t, fault.Is(err, fault.Unavailable), "an unreadable database is not the caller's fault: %v", err)
	key, err := r.Ring.Of(Access).Find(t.Context(), known.ID)
	require.NoError(t, err)
	require.Equal(t, known.Public().Key, key)
	b.clock.Advance(maxAge)
	_, err = r.Ring.Of(Access).Signing(t.Context())
	require.Error(t, err, "a key that may have been revoked does not sign")
	require.True(t, finds(t.Context(), r, Access, known.ID))
	b.clock.Advance(authn.KeysMaxAge)
	_, err = r.Ring.Of(Access).Find(t.Context(), known.ID)
	require.True(t, fault.Is(err, fault.Unavailable), "a key that may have been revoked is not accepted forever: %v", err)
}

// On the other replica, only Find reads the keys, so Find itself must notice the revocation.
func TestSet_Find_revokedOnAnotherReplica(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	mine, theirs := b.replica(), b.replica()
	old := signingKey(t, theirs, Caller).ID
	require.NoError(t, mine.Rotate(t.Context(), Caller, true))
	require.True(t, finds(t.Context(), theirs, Caller, old), "the replica still uses the keys that it read less than a second ago")
	b.clock.Advance(maxAge)
	require.False(t, finds(t.Context(), theirs, Caller, old))
}

// TestRotationUnderLoad signs and verifies on three replicas while one of them rotates. No valid token may be
// refused.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	replicas := []*Rotation{b.replica(), b.replica(), b.replica()}
	type token struct {
		kid       string
		text, sig []byte
	}
	sign := func(r *Rotation) token {
		k := signingKey(t, r, Access)
		return token{k.ID, []byte("text"), ed25519.Sign(k.Private, []byte("text"))}
	}
	var live []token
	for step := range 120 {
		live = append(live, sign(replicas[step%3]))
		b.clock.Advance(10 * time.Second)
		if step%40 == 20 {
			require.NoError(t, replicas[step%3].Rotate(t.Context(), Access, false))
		}
		var wg sync.WaitGroup
		for _, r := range replicas {
			for _, tok := range live {
				wg.Go(func() {
					key, err := r.Ring.Of(Access).Find(t.Context(), tok.kid)
					if err != nil || !ed25519.Verify(key, tok.text, tok.sig) {
						t.Errorf("step %d: a token of the key %s is refused: %v", step, tok.kid, err)
					}
				})
			}
		}
		wg.Wait()
	}
	kids := map[string]bool{}
	for _, tok := range live {
		kids[tok.kid] = true
	}
	require.Len(t, kids, 4)
}
