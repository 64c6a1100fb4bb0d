// Package key keeps the installation's signing keys: one live Ed25519 key a purpose, its private
// half sealed for its row. The first start makes them; replicas that race agree on one.
package key

// Purpose says what a key signs; a key of one purpose never signs for another.
type Purpose string

// The purposes.
const (
	// Access signs access tokens.
	Access Purpose = "access"
	// Caller signs the caller identity that travels between services.
	Caller Purpose = "caller"
)

// aad binds a sealed key to its row.
func aad(kid string) string { return "signing_key.sealed:" + kid }
