// Package deploytoken owns the rows of deployment tokens. A row has the hash of a token, never its text.
//
// A token is revoked at most once. The row keeps the epoch from which the token is revoked. Package deployment decides
// what a new or a revoked token means for inference. Only store.go contains SQL, and only token_proto.go uses protobuf
// messages.
package deploytoken

import "time"

// Kind is the name of tokens in errors.
const Kind = "deployment token"

// Token is the stored record of a token. It contains the hash of the token instead of its text.
type Token struct {
	ID           string
	DeploymentID string
	Name         string
	Prefix       string
	Hash         []byte
	CreatedAt    time.Time
	RevokedAt    *time.Time
	// RevokedEpoch is the snapshot epoch from which the token is revoked.
	RevokedEpoch *int64
}
