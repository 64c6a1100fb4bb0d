// Package key keeps the installation's signing keys: Ed25519 pairs by purpose, with their private halves sealed
// to their rows. It promises:
//   - the newest key that may sign does, and tokens signed by older keys stay valid for their lifetime;
//   - a scheduled key is published before it signs, so that verifiers that cache keys know it by then;
//   - replicas that create a key at the same time create only one;
//   - a revoked key ends at once: its private half is deleted and all its signatures become invalid.
package key

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Purpose is what a key signs; a key of one purpose never signs for another.
type Purpose string

// The purposes of keys.
const (
	// Access signs access tokens.
	Access Purpose = "access"
	// Caller signs the caller identity that travels between services.
	Caller Purpose = "caller"
)

// Purposes lists all purposes.
func Purposes() []Purpose { return []Purpose{Access, Caller} }

const (
	// lead is how long a key is published before it signs: longer than verifiers use the keys they have read
	// (authn.Keys), and longer than the clocks of two hosts differ.
	lead = 2 * time.Minute
	// slack is added to the lifetime of the last token of a key, for the leeway of verifiers and clock differences.
	slack = time.Minute
)

// State is what a key is currently used for.
type State string

// The states of a key.
const (
	// Published keys verify, and sign from SignsAt on.
	Published State = "published"
	// Signing is the one key of its purpose that signs.
	Signing State = "signing"
	// Verifying keys have a successor; their signatures are still valid.
	Verifying State = "verifying"
	// Retired keys have no tokens left that are still valid.
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
	// VerifiesUntil is set when the key gets a successor.
	VerifiesUntil *time.Time
	RetiredAt     *time.Time
	RevokedAt     *time.Time

	sealed []byte
}

// verifies reports whether signatures of the key may be valid at this time.
func (k *Key) verifies(now time.Time) bool {
	return k.RevokedAt == nil && k.RetiredAt == nil && (k.VerifiesUntil == nil || now.Before(*k.VerifiesUntil))
}

// state returns the state of the key; signing is the id of the key that signs for its purpose.
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

// aad binds a sealed key to its row.
func aad(kid string) string { return "signing_key.sealed:" + kid }

// open unseals the private half.
func (k *Key) open(ring *secret.Keyring) (authn.SigningKey, error) {
	seed, err := ring.Open(k.sealed, aad(k.ID))
	if err != nil {
		return authn.SigningKey{}, err
	}
	return authn.SigningKeyFromSeed(seed)
}
