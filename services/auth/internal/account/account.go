// Package account owns the user accounts of an installation: their names, roles and memberships. It increases the
// epoch of an account when its tokens must stop working. The first start creates one admin.
package account

import "time"

// The roles of an account.
const (
	RoleAdmin    = "admin"
	RoleOperator = "operator"
)

// Account is one user.
type Account struct {
	ID           string
	Username     string
	Role         string
	Email        *string
	PasswordHash string
	// Epoch increases when all access tokens of the account must stop working.
	Epoch      int64
	DisabledAt *time.Time
}
