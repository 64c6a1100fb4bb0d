// Package key keeps the installation's signing keys, Ed25519 pairs by purpose, their private halves
// sealed for their rows. It promises:
//   - the newest key that may sign does, and what older keys signed holds for as long as it may live;
//   - a scheduled key is published before it signs, so that whoever caches keys knows it by then;
//   - replicas that race to make a key make one;
//   - a revoked key is gone at once: its private half is deleted and nothing that it signed holds.
package key

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Purpose says what a key signs; a key of one purpose never signs for another.
type Purpose string

// The purposes.
const (
	// Access signs access tokens.
	Access Purpose = "access"
	// Caller signs the caller identity that travels between services.
	Caller Purpose = "caller"
)

// Purposes lists them all.
func Purposes() []Purpose { return []Purpose{Access, Caller} }

const (
	// lead is how long a key is published before it signs: longer than verifiers go without a look
	// (authn.Keys) and than the clocks of two hosts are apart.
	lead = 2 * time.Minute
	// slack is added to the life of the last token of a key: the leeway of verifiers and the clocks.
	slack = time.Minute
)

// State is what a key is good for now.
type State string

// The states of a key.
const (
	// Published keys verify, and sign from a set time on.
	Published State = "published"
	// Signing is the one key that signs.
	Signing State = "signing"
	// Verifying keys have a successor; what they signed still holds.
	Verifying State = "verifying"
	// Retired keys signed nothing that still lives.
	Retired State = "retired"
	// Revoked keys were taken out of use by an admin.
	Revoked State = "revoked"
)

// Key is one key as it is shown.
type Key struct {
	ID         string
	Purpose    Purpose
	Public     authn.PublicKey
	Generation int64
	CreatedAt  time.Time
	SignsAt    time.Time
	// VerifiesUntil is set once there is a successor.
	VerifiesUntil *time.Time
	RetiredAt     *time.Time
	RevokedAt     *time.Time

	sealed []byte
}

// verifies says whether what the key signed may hold at this time.
func (k *Key) verifies(now time.Time) bool {
	return k.RevokedAt == nil && k.RetiredAt == nil && (k.VerifiesUntil == nil || now.Before(*k.VerifiesUntil))
}

// state is what the key is good for; signing is the id of the purpose's key that signs.
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
