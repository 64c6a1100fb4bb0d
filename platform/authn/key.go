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

// PublicKey is the public key of a SigningKey, with the same id.
type PublicKey struct {
	ID  string
	Key ed25519.PublicKey
}

// NewSigningKey generates a key. Its id is derived from the public key, so different keys have different ids.
func NewSigningKey(entropy io.Reader) (SigningKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(entropy, seed); err != nil {
		return SigningKey{}, fmt.Errorf("read entropy for a signing key: %w", err)
	}
	return SigningKeyFromSeed(seed)
}

// SigningKeyFromSeed restores a key from its 32-byte seed.
func SigningKeyFromSeed(seed []byte) (SigningKey, error) {
	if len(seed) != ed25519.SeedSize {
		return SigningKey{}, fmt.Errorf("the seed of a signing key must have %d bytes, got %d", ed25519.SeedSize, len(seed))
	}
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey)
	return SigningKey{ID: keyID(public), Private: private}, nil
}

// Public returns the public key, which verifiers need.
func (k SigningKey) Public() PublicKey {
	public, _ := k.Private.Public().(ed25519.PublicKey)
	return PublicKey{ID: k.ID, Key: public}
}

func keyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// String returns the key's id. It keeps the private key out of logs.
func (k SigningKey) String() string { return "signing key " + k.ID }

// GoString keeps the private key out of %#v.
func (k SigningKey) GoString() string { return k.String() }

// A revoked key is accepted for at most KeysMaxAge plus the duration of a fetch if the keys can be fetched, and for at
// most keysMaxStale if they cannot. keysMaxStale is the longest time for which a token is accepted. During an outage, a
// token that was signed before the last fetch is therefore accepted until it expires.
const (
	// KeysMaxAge is the age of a set of keys at which the next lookup fetches the keys again.
	KeysMaxAge     = 5 * time.Second
	keysMaxStale   = callerLifetime + callerLeeway
	keysRetryPause = time.Second
	keysTimeout    = 5 * time.Second
)

// KeySource finds the valid public key with an id. The error is a fault of kind unauthenticated if no valid key has
// the id, and of kind unavailable if that cannot be determined.
type KeySource interface {
	Find(ctx context.Context, id string) (ed25519.PublicKey, error)
}

// FetchKeys returns the keys that are currently valid.
type FetchKeys func(ctx context.Context) ([]PublicKey, error)

// Keys is a cache of the valid keys. When the cache is older than KeysMaxAge, the next lookup fetches the keys again.
// Before an unknown id is rejected, the keys are fetched again too, so that a new key is accepted everywhere at once.
// Concurrent lookups share one fetch. If the keys cannot be fetched, the cached keys remain in use until keysMaxStale
// after the last successful fetch, and the next attempt is made after keysRetryPause. Keys is safe for concurrent use.
type Keys struct {
	fetch FetchKeys
	clk   clock.Clock
	gate  chan struct{} // a semaphore of 1; the holder may fetch

	mu      sync.Mutex
	keys    map[string]ed25519.PublicKey
	fetched time.Time // last successful fetch
	tried   time.Time // last attempt
	begun   uint64    // number of fetches started
	lastErr error
}

// NewKeys returns an empty cache that fetches on its first lookup.
func NewKeys(clk clock.Clock, fetch FetchKeys) *Keys {
	return &Keys{fetch: fetch, clk: clk, gate: make(chan struct{}, 1)}
}

// StaticKeys returns a Keys with keys that never change.
func StaticKeys(clk clock.Clock, keys ...PublicKey) *Keys {
	return NewKeys(clk, func(context.Context) ([]PublicKey, error) { return keys, nil })
}

// Find implements KeySource.
func (k *Keys) Find(ctx context.Context, id string) (ed25519.PublicKey, error) {
	key, age, came := k.cached(id)
	switch {
	case key != nil && age < KeysMaxAge:
		return key, nil
	case key != nil && age < keysMaxStale:
		// The lookup that acquires the gate refreshes the keys; the others use the cached key.
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
			// If another fetch started after this lookup began, its result is recent enough.
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
		return nil, fault.New(fault.Unavailable, "keys", "credentials cannot be verified right now; try again later").Wrap(k.lastErr)
	}
	return nil, refuse(errors.New("no valid key has the key id of the token"))
}

// refresh fetches the keys, except within keysRetryPause of a failed fetch. The caller holds the gate.
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
	// The fetch serves all waiting lookups, so it must not end with the request that started it.
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
