// Package deploytoken owns the rows of deployment tokens, never their text.
//
// It promises that a token is revoked at most once, from one epoch on, which every later reader sees. What a grant or a
// revocation means for inference is decided by package deployment. Only store.go contains SQL, and only token_proto.go
// uses protobuf messages.
package deploytoken

import "time"

// Kind is the kind of tokens in errors.
const Kind = "deployment token"

// Token is the stored part of a token.
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
