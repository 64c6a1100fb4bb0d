// Package account owns the people of an installation: their names, roles and what ends their tokens.
// The first start makes one admin.
package account

import "time"

// The roles.
const (
	RoleAdmin    = "admin"
	RoleOperator = "operator"
)

// Account is one person.
type Account struct {
	ID           string
	Username     string
	Role         string
	Email        *string
	PasswordHash string
	// Epoch is raised by whatever must end the account's access tokens.
	Epoch      int64
	DisabledAt *time.Time
}
