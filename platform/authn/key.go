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

const (
	keysMaxAge     = time.Minute
	keysMaxStale   = 15 * time.Minute
	keysPause      = 10 * time.Second
	keysRetryPause = time.Second
	keysTimeout    = 5 * time.Second
)

// FetchKeys asks for the keys that are live now.
type FetchKeys func(ctx context.Context) ([]PublicKey, error)

// Keys is the cached set of live keys. Lookups of known keys never wait; an unknown id causes one
// fetch, at most one per 10 s however many ids are tried. Keys are refreshed each minute, and live
// on for 15 minutes when they cannot be fetched. It is safe for concurrent use.
type Keys struct {
	fetch FetchKeys
	clk   clock.Clock
	gate  chan struct{} // holds the one right to fetch

	mu      sync.Mutex
	keys    map[string]ed25519.PublicKey
	fetched time.Time // the last success
	tried   time.Time // the last try
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

// find gives the key of an id, or a fault: unauthenticated for an id that is not live, unavailable
// when that cannot be known.
func (k *Keys) find(ctx context.Context, id string) (ed25519.PublicKey, error) {
	key, age := k.cached(id)
	switch {
	case key != nil && age < keysMaxAge:
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
			if fresh, age := k.cached(id); fresh == nil || age >= keysMaxAge {
				k.refresh(ctx)
			}
			<-k.gate
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		}
	}
	return k.settled(id)
}

func (k *Keys) cached(id string) (ed25519.PublicKey, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[id], clock.Since(k.clk, k.fetched)
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

// refresh fetches unless it did so a moment ago. The caller holds the gate.
func (k *Keys) refresh(ctx context.Context) {
	k.mu.Lock()
	pause := keysPause
	if k.lastErr != nil {
		pause = keysRetryPause
	}
	wait := !k.tried.IsZero() && clock.Since(k.clk, k.tried) < pause
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
