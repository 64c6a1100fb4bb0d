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

// maxAge is the maximum age of the keys that Signing, Find and Public use. If the last read is older, these methods
// read the keys again. They therefore notice within this time that another replica has created or revoked a key.
const maxAge = time.Second

// Ring caches the keys of the installation that are neither retired nor revoked. It reads them again after maxAge, and
// when a key id is unknown. It is safe for concurrent use.
type Ring struct {
	store *Store
	gate  chan struct{} // has capacity 1; full while a read is in progress

	mu     sync.Mutex
	keys   []Key                       // ordered by purpose, newest first
	opened map[string]authn.SigningKey // private halves of keys, by key id
	read   time.Time
	begun  uint64 // number of reads that have begun
	good   uint64 // sequence number of the last successful read
}

// NewRing creates a key for each purpose that has no valid key, and reads all keys.
func NewRing(ctx context.Context, store *Store) (*Ring, error) {
	for _, purpose := range Purposes() {
		if err := store.EnsureKey(ctx, purpose); err != nil {
			return nil, err
		}
	}
	r := &Ring{store: store, gate: make(chan struct{}, 1)}
	return r, r.Reload(ctx)
}

// Reload reads the keys. Concurrent callers share a read that begins after their calls.
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

// open returns the private halves of all keys, by key id. It decrypts only those that the map known does not contain.
func (r *Ring) open(keys []Key, known map[string]authn.SigningKey) (map[string]authn.SigningKey, error) {
	opened := map[string]authn.SigningKey{}
	for _, k := range keys {
		signing, ok := known[k.ID]
		if !ok {
			var err error
			if signing, err = k.open(r.store.Keyring); err != nil {
				return nil, fmt.Errorf("decrypt the %s key %s: %w", k.Purpose, k.ID, err)
			}
		}
		opened[k.ID] = signing
	}
	return opened, nil
}

// fresh reads the keys if the last read is older than maxAge.
func (r *Ring) fresh(ctx context.Context) error {
	if r.age() < maxAge {
		return nil
	}
	return r.Reload(ctx)
}

// age returns the time since the beginning of the last successful read.
func (r *Ring) age() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return clock.Since(r.store.Clock, r.read)
}

// signing returns the newest key that may sign for the purpose. It does not read the keys again.
func (r *Ring) signing(purpose Purpose) (authn.SigningKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return newest(r.keys, r.opened, purpose, r.store.Clock.Now())
}

// newest returns the newest key that may sign for the purpose.
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

// Of returns the ring's keys of one purpose.
func (r *Ring) Of(purpose Purpose) Set { return Set{ring: r, purpose: purpose} }

// Set holds the keys of one purpose. It is an authn.KeySource.
type Set struct {
	ring    *Ring
	purpose Purpose
}

// Signing returns the key with which new tokens must be signed.
func (s Set) Signing(ctx context.Context) (authn.SigningKey, error) {
	if err := s.ring.fresh(ctx); err != nil {
		return authn.SigningKey{}, err
	}
	return s.ring.signing(s.purpose)
}

// Latest is like Signing, but always reads the keys first. It is for long-lived tokens, which should not be signed
// with a key that another replica has just revoked. It reads with q. Inside a transaction, q must be that
// transaction: taking a second connection could deadlock if transactions fill the pool. Latest does not wait for
// other reads.
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

// Find returns the public key with an id. If the id is unknown, Find reads the keys again, because another replica
// may have created the key. A key that another replica has revoked is returned for at most maxAge, and for at most
// authn.KeysMaxAge if the keys cannot be read; package session therefore also checks the key in the database.
func (s Set) Find(ctx context.Context, kid string) (ed25519.PublicKey, error) {
	if err := s.ring.fresh(ctx); err != nil && s.ring.age() >= authn.KeysMaxAge {
		return nil, unread(err)
	}
	if key, ok := s.ring.find(s.purpose, kid); ok {
		return key, nil
	}
	if err := s.ring.Reload(ctx); err != nil {
		return nil, unread(err)
	}
	if key, ok := s.ring.find(s.purpose, kid); ok {
		return key, nil
	}
	return nil, fault.New(fault.Unauthenticated, authn.CodeTokenInvalid, "Could not validate credentials").Wrap(errNoKey)
}

func unread(err error) error {
	return fault.New(fault.Unavailable, "keys", "credentials cannot be verified right now; try again later").Wrap(err)
}

var errNoKey = errors.New("no valid key has this id")

// Public lists the public halves of all valid keys, including keys that do not sign yet.
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

// jwk is a public key in the format of RFC 8037.
type jwk struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
	X         string `json:"x"`
}

// JWKS returns the public halves of the keys that sign access tokens, as a JWK set.
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
