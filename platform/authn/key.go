package authn

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// SigningKey is a private key and its id.
type SigningKey struct {
	ID      string
	Private ed25519.PrivateKey
}

// PublicKey is the published half of a SigningKey.
type PublicKey struct {
	ID  string
	Key ed25519.PublicKey
}

// NewSigningKey makes a key. Its id is derived from the public half, so two keys never share one.
func NewSigningKey(entropy io.Reader) (SigningKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(entropy, seed); err != nil {
		return SigningKey{}, fmt.Errorf("read entropy for a signing key: %w", err)
	}
	return SigningKeyFromSeed(seed)
}

// SigningKeyFromSeed rebuilds a stored key from its 32 bytes.
func SigningKeyFromSeed(seed []byte) (SigningKey, error) {
	if len(seed) != ed25519.SeedSize {
		return SigningKey{}, fmt.Errorf("a signing key's seed has %d bytes, not %d", ed25519.SeedSize, len(seed))
	}
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey)
	return SigningKey{ID: keyID(public), Private: private}, nil
}

// Public is what verifiers need.
func (k SigningKey) Public() PublicKey {
	public, _ := k.Private.Public().(ed25519.PublicKey)
	return PublicKey{ID: k.ID, Key: public}
}

func keyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// String keeps the private half out of logs.
func (k SigningKey) String() string { return "signing key " + k.ID }

// GoString keeps the private half out of %#v.
func (k SigningKey) GoString() string { return k.String() }

// The ages bound what a key may still do after it was revoked: KeysMaxAge while the keys can be fetched,
// and while they cannot no longer than what it signed could live anyway.
const (
	// KeysMaxAge is how long a set of keys is used without a look whether it still holds.
	KeysMaxAge     = 5 * time.Second
	keysMaxStale   = callerLifetime + callerLeeway
	keysRetryPause = time.Second
	keysTimeout    = 5 * time.Second
)

// KeySource finds the live public key of an id: a fault of kind unauthenticated for an id that is not live,
// and unavailable where that cannot be known.
type KeySource interface {
	Find(ctx context.Context, id string) (ed25519.PublicKey, error)
}

// FetchKeys asks for the keys that are live now.
type FetchKeys func(ctx context.Context) ([]PublicKey, error)

// Keys is the cached set of live keys. A known key is looked up again every few seconds, by one of those
// that use it; an unknown id is fetched before it is refused, one fetch at a time for all that wait, so that
// a key that signs from one moment to the next is known everywhere. When keys cannot be fetched, those that
// are known live on for as long as a token that they signed. It is safe for concurrent use.
type Keys struct {
	fetch FetchKeys
	clk   clock.Clock
	gate  chan struct{} // holds the one right to fetch

	mu      sync.Mutex
	keys    map[string]ed25519.PublicKey
	fetched time.Time // the last success
	tried   time.Time // the last try
	begun   uint64    // how many fetches have begun
	lastErr error
}

// NewKeys makes an empty set that fetches at its first lookup.
func NewKeys(clk clock.Clock, fetch FetchKeys) *Keys {
	return &Keys{fetch: fetch, clk: clk, gate: make(chan struct{}, 1)}
}

// StaticKeys is a set that never changes, for the process that owns the keys.
func StaticKeys(clk clock.Clock, keys ...PublicKey) *Keys {
	return NewKeys(clk, func(context.Context) ([]PublicKey, error) { return keys, nil })
}

// Forget drops all keys, so that the next lookup fetches: for a revocation that was pushed.
func (k *Keys) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys, k.fetched, k.tried, k.lastErr = nil, time.Time{}, time.Time{}, nil
}

// Find implements KeySource.
func (k *Keys) Find(ctx context.Context, id string) (ed25519.PublicKey, error) {
	key, age, came := k.cached(id)
	switch {
	case key != nil && age < KeysMaxAge:
		return key, nil
	case key != nil && age < keysMaxStale:
		// The one that gets the gate refreshes; all others go on with what they have.
		select {
		case k.gate <- struct{}{}:
			k.refresh(ctx)
			<-k.gate
		default:
			return key, nil
		}
	default:
		select {
		case k.gate <- struct{}{}:
			// A fetch that began since this lookup came saw all that was live then.
			if known, age, begun := k.cached(id); begun == came && (known == nil || age >= KeysMaxAge) {
				k.refresh(ctx)
			}
			<-k.gate
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		}
	}
	return k.settled(id)
}

func (k *Keys) cached(id string) (key ed25519.PublicKey, age time.Duration, begun uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[id], clock.Since(k.clk, k.fetched), k.begun
}

func (k *Keys) settled(id string) (ed25519.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.keys[id]; key != nil && clock.Since(k.clk, k.fetched) < keysMaxStale {
		return key, nil
	}
	if k.lastErr != nil {
		return nil, fault.New(fault.Unavailable, "keys", "credentials cannot be checked now").Wrap(k.lastErr)
	}
	return nil, refuse(errors.New("key id is not live"))
}

// refresh fetches, but not again right after a fetch that failed. The caller holds the gate.
func (k *Keys) refresh(ctx context.Context) {
	k.mu.Lock()
	wait := k.lastErr != nil && clock.Since(k.clk, k.tried) < keysRetryPause
	if !wait {
		k.begun++
	}
	k.mu.Unlock()
	if wait {
		return
	}
	// The fetch serves all that wait, so it outlives the request that happened to start it.
	ctx, cancel := context.WithTimeout(Background(context.WithoutCancel(ctx)), keysTimeout)
	defer cancel()
	fetched, err := k.fetch(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried, k.lastErr = k.clk.Now(), err
	if err != nil {
		return
	}
	keys := make(map[string]ed25519.PublicKey, len(fetched))
	for _, key := range fetched {
		if len(key.Key) == ed25519.PublicKeySize && key.ID != "" {
			keys[key.ID] = key.Key
		}
	}
	k.keys, k.fetched = keys, k.tried
}
