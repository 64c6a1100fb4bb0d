// Package token keeps the tokens of the callers of deployments: their rows, never their text.
//
// It promises that a token is revoked once, from one epoch on, which every later reader is told. What a
// grant or a revocation tells the world is package deployment's. store.go alone speaks SQL,
// token_proto.go alone speaks proto.
package token

import "time"

// Kind names tokens in errors.
const Kind = "deployment token"

// Token is one caller's credential, as far as it is stored.
type Token struct {
	ID           string
	DeploymentID string
	Name         string
	Prefix       string
	Hash         []byte
	CreatedAt    time.Time
	RevokedAt    *time.Time
	// RevokedEpoch is from which snapshot on the token is dead.
	RevokedEpoch *int64
}
