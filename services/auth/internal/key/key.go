// Package key owns the installation's signing keys: Ed25519 pairs by purpose. It stores their private halves encrypted
// and bound to their rows. It promises:
//   - the newest key whose SignsAt has passed signs new tokens, and tokens of older keys stay valid until they expire;
//   - a scheduled key is published before it signs, so that verifiers that cache keys have read it by then;
//   - if replicas create a key at the same time, only one key is created;
//   - when a key is revoked, its private half is deleted and package session rejects its access tokens at once; the
//     services reject its caller identities when they next read the keys (authn.Keys).
package key

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Purpose is the kind of token that a key signs. A key never signs tokens of another purpose.
type Purpose string

// The purposes of keys.
const (
	// Access signs access tokens.
	Access Purpose = "access"
	// Caller signs the caller identities that services send to each other.
	Caller Purpose = "caller"
)

// Purposes lists all purposes.
func Purposes() []Purpose { return []Purpose{Access, Caller} }

const (
	// lead is how long a key is published before it signs. It exceeds the time for which verifiers cache keys
	// (authn.Keys), and the difference between the clocks of two hosts.
	lead = 2 * time.Minute
	// slack is added to the lifetime of the last token of a key. It covers the leeway of verifiers and differences
	// between clocks.
	slack = time.Minute
)

// State is what a key is currently used for.
type State string

// The states of a key.
const (
	// Published keys are known to verifiers, and sign from SignsAt on.
	Published State = "published"
	// Signing keys sign new tokens. Each purpose has at most one.
	Signing State = "signing"
	// Verifying keys have a successor and no longer sign. Their signatures are still valid.
	Verifying State = "verifying"
	// Retired keys have no valid tokens left: all tokens that they signed have expired.
	Retired State = "retired"
	// Revoked keys were revoked by an admin.
	Revoked State = "revoked"
)

// Key is one signing key.
type Key struct {
	ID         string
	Purpose    Purpose
	Public     authn.PublicKey
	Generation int64
	CreatedAt  time.Time
	SignsAt    time.Time
	// VerifiesUntil is when the key's signatures become invalid; nil if the key has no successor.
	VerifiesUntil *time.Time
	RetiredAt     *time.Time
	RevokedAt     *time.Time

	sealed []byte
}

// verifies reports whether signatures of the key are accepted at the time now.
func (k *Key) verifies(now time.Time) bool {
	return k.RevokedAt == nil && k.RetiredAt == nil && (k.VerifiesUntil == nil || now.Before(*k.VerifiesUntil))
}

// state returns the state of the key. The parameter signing is the id of the key that currently signs for its purpose.
func (k *Key) state(now time.Time, signing string) State {
	switch {
	case k.RevokedAt != nil:
		return Revoked
	case !k.verifies(now):
		return Retired
	case k.ID == signing:
		return Signing
	case k.SignsAt.After(now):
		return Published
	default:
		return Verifying
	}
}

// aad returns the associated data that binds an encrypted key to its row.
func aad(kid string) string { return "signing_key.sealed:" + kid }

// open decrypts the private half.
func (k *Key) open(ring *secret.Keyring) (authn.SigningKey, error) {
	seed, err := ring.Open(k.sealed, aad(k.ID))
	if err != nil {
		return authn.SigningKey{}, err
	}
	return authn.SigningKeyFromSeed(seed)
}
