package key

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// maxAge is how long a replica goes by what it has read: that late it learns of a key made elsewhere when
// nothing else tells it.
const maxAge = time.Second

// Ring holds the live keys of the installation in memory, read anew at need. It is safe for concurrent use.
type Ring struct {
	store *Store
	gate  chan struct{} // holds the one right to read

	mu     sync.Mutex
	keys   []Key                       // live, the newest of a purpose first
	opened map[string]authn.SigningKey // those of keys that sign or will
	read   time.Time
	begun  uint64 // how many reads have begun
	good   uint64 // the last one that ended well
}

// NewRing makes the first keys where they are missing, and reads them.
func NewRing(ctx context.Context, store *Store) (*Ring, error) {
	for _, purpose := range Purposes() {
		if err := store.First(ctx, purpose); err != nil {
			return nil, err
		}
	}
	r := &Ring{store: store, gate: make(chan struct{}, 1)}
	return r, r.Reload(ctx)
}

// Reload reads the keys. Those that come while others wait share one read that began after they came.
func (r *Ring) Reload(ctx context.Context) error {
	r.mu.Lock()
	came := r.begun
	r.mu.Unlock()
	select {
	case r.gate <- struct{}{}:
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
	defer func() { <-r.gate }()
	r.mu.Lock()
	if r.good > came {
		r.mu.Unlock()
		return nil
	}
	r.begun++
	mine, opened := r.begun, r.opened
	r.mu.Unlock()
	at := r.store.Clock.Now()
	keys, err := r.store.live(ctx, r.store.Pool)
	if err != nil {
		return err
	}
	if opened, err = r.open(keys, opened); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys, r.opened, r.read, r.good = keys, opened, at, mine
	return nil
}

// open unseals the keys that were not yet.
func (r *Ring) open(keys []Key, known map[string]authn.SigningKey) (map[string]authn.SigningKey, error) {
	opened := map[string]authn.SigningKey{}
	for _, k := range keys {
		signing, ok := known[k.ID]
		if !ok {
			var err error
			if signing, err = k.open(r.store.Keyring); err != nil {
				return nil, fmt.Errorf("open the %s key %s: %w", k.Purpose, k.ID, err)
			}
		}
		opened[k.ID] = signing
	}
	return opened, nil
}

// fresh reads the keys where what is known is older than maxAge.
func (r *Ring) fresh(ctx context.Context) error {
	r.mu.Lock()
	age := clock.Since(r.store.Clock, r.read)
	r.mu.Unlock()
	if age < maxAge {
		return nil
	}
	return r.Reload(ctx)
}

// signing is the newest key of the purpose that may sign, as the ring knows.
func (r *Ring) signing(purpose Purpose) (authn.SigningKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return newest(r.keys, r.opened, purpose, r.store.Clock.Now())
}

// newest is the newest key of the purpose that may sign.
func newest(keys []Key, opened map[string]authn.SigningKey, purpose Purpose, now time.Time) (authn.SigningKey, error) {
	for _, k := range keys {
		if k.Purpose == purpose && !k.SignsAt.After(now) && k.verifies(now) {
			return opened[k.ID], nil
		}
	}
	return authn.SigningKey{}, fmt.Errorf("there is no %s key that may sign", purpose)
}

func (r *Ring) find(purpose Purpose, kid string) (ed25519.PublicKey, bool) {
	now := r.store.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.keys, func(k Key) bool { return k.ID == kid && k.Purpose == purpose && k.verifies(now) })
	if at < 0 {
		return nil, false
	}
	return r.keys[at].Public.Key, true
}

// Of are the ring's keys of one purpose.
func (r *Ring) Of(purpose Purpose) Set { return Set{ring: r, purpose: purpose} }

// Set are the keys of one purpose: an authn.KeySource.
type Set struct {
	ring    *Ring
	purpose Purpose
}

// Signing is the key to sign with now.
func (s Set) Signing(ctx context.Context) (authn.SigningKey, error) {
	if err := s.ring.fresh(ctx); err != nil {
		return authn.SigningKey{}, err
	}
	return s.ring.signing(s.purpose)
}

// Latest is Signing after a read of its own, for what lives so long that it should not be signed with a key
// that was just revoked elsewhere. It reads by q, the transaction of whoever has one: it waits for no other
// read and takes no second connection, for which transactions that fill the pool would wait for ever.
func (s Set) Latest(ctx context.Context, q pg.Querier) (authn.SigningKey, error) {
	keys, err := s.ring.store.live(ctx, q)
	if err != nil {
		return authn.SigningKey{}, err
	}
	s.ring.mu.Lock()
	known := s.ring.opened
	s.ring.mu.Unlock()
	opened, err := s.ring.open(keys, known)
	if err != nil {
		return authn.SigningKey{}, err
	}
	return newest(keys, opened, s.purpose, s.ring.store.Clock.Now())
}

// Find answers the key of an id, looking again for one that is not known: another replica may have made it.
func (s Set) Find(ctx context.Context, kid string) (ed25519.PublicKey, error) {
	if key, ok := s.ring.find(s.purpose, kid); ok {
		return key, nil
	}
	if err := s.ring.Reload(ctx); err != nil {
		return nil, fault.New(fault.Unavailable, "keys", "credentials cannot be checked now").Wrap(err)
	}
	if key, ok := s.ring.find(s.purpose, kid); ok {
		return key, nil
	}
	return nil, fault.New(fault.Unauthenticated, authn.CodeTokenInvalid, "Could not validate credentials").Wrap(errNoKey)
}

var errNoKey = errors.New("key id is not live")

// Public lists the public halves, of keys that will sign too.
func (s Set) Public(ctx context.Context) ([]authn.PublicKey, error) {
	if err := s.ring.fresh(ctx); err != nil {
		return nil, err
	}
	now := s.ring.store.Clock.Now()
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	var list []authn.PublicKey
	for _, k := range s.ring.keys {
		if k.Purpose == s.purpose && k.verifies(now) {
			list = append(list, k.Public)
		}
	}
	return list, nil
}

// jwk is a public key as RFC 8037 writes it.
type jwk struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
	X         string `json:"x"`
}

// JWKS is the JWK set of the keys that sign access tokens, their public halves alone.
func (r *Ring) JWKS(ctx context.Context) ([]byte, error) {
	keys, err := r.Of(Access).Public(ctx)
	if err != nil {
		return nil, err
	}
	set := struct {
		Keys []jwk `json:"keys"`
	}{Keys: []jwk{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, jwk{
			KeyType: "OKP", Curve: "Ed25519", ID: k.ID, Algorithm: "EdDSA", Use: "sig", X: base64.RawURLEncoding.EncodeToString(k.Key),
		})
	}
	return json.Marshal(set)
}
