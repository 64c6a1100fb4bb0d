package account

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
)

// How a user signs in.
const (
	LoginPassword = "password"
	// LoginOIDC is the login of an account that an OpenID sign-in created; it has no password.
	LoginOIDC = "oidc"
)

// SubjectKind is the target kind of accounts in the audit log.
const SubjectKind = "account"

// User is an account as admins see it.
type User struct {
	ID          string
	Username    string
	Role        string
	Email       *string
	DisplayName *string
	// Login is LoginPassword or LoginOIDC.
	Login       string
	CreatedAt   time.Time
	DisabledAt  *time.Time
	LastLoginAt *time.Time
}

// admin reports whether the user is an enabled admin.
func (u User) admin() bool { return u.Role == RoleAdmin && u.DisabledAt == nil }

// The reasons for which this package ends sessions.
const (
	EndedByReset    = "admin"
	EndedByDisabled = "disabled"
)

// ender ends the sessions of an account in the transaction of the change that ends them.
type ender interface {
	EndAll(ctx context.Context, tx pgx.Tx, accountID, why, except string) error
}

// Users creates and changes accounts for admins.
type Users struct {
	Pool     *pgxpool.Pool
	Hasher   hasher
	Sessions ender
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	Rand     io.Reader
	// Issuer is the OpenID provider that users sign in with; empty if they use passwords.
	Issuer string
}

// passwordBytes is 144 bits of randomness, encoded as 24 characters.
const passwordBytes = 18

// draw generates a random password.
func draw(random io.Reader) (secret.String, error) {
	raw := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return secret.String{}, fmt.Errorf("generate a password: %w", err)
	}
	return secret.New(base64.RawURLEncoding.EncodeToString(raw)), nil
}

// Hash returns the stored form of a new password. If the queue of the hasher is full it returns Busy, a 503.
func Hash(ctx context.Context, h hasher, pass secret.String) (string, error) {
	hash, err := h.Hash(ctx, pass)
	if errors.Is(err, password.ErrBusy) {
		return "", Busy(err)
	}
	return hash, err
}

// Busy is the error while too many passwords are being hashed.
func Busy(cause error) error {
	return fault.New(fault.Unavailable, "login_busy", "too many concurrent logins").WithRetryAfter(time.Second).Wrap(cause)
}

// PasswordsOff is the error for password operations while password login is off.
func PasswordsOff() error {
	return fault.New(fault.Unconfigured, "password_login_off", "password login is off; sign in with the OpenID provider")
}

// EmailOfProvider is the error for changing an address that the OpenID provider sets at each sign-in.
func EmailOfProvider() error {
	return fault.New(fault.Conflict, "email_of_provider", "the e-mail address is set by the sign-in provider; change it there")
}

// CheckName rejects a display name with invisible characters or characters that change the text direction: it
// could look like the name of another user.
func CheckName(field, name string) error {
	for _, r := range name {
		if !visible(r) {
			return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should contain visible characters only", field))
		}
	}
	if name == "" || strings.TrimSpace(name) != name {
		return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should not begin or end with a space", field))
	}
	return nil
}

// CheckText rejects the characters that CheckName rejects, but allows line breaks, tabs, variation selectors and
// the zero-width joiner and non-joiner, without which some languages cannot be written.
func CheckText(field, text string) error {
	for _, r := range text {
		if !visible(r) && !strings.ContainsRune("\n\r\t\u200c\u200d", r) && !unicode.Is(unicode.Variation_Selector, r) {
			return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should contain visible characters only", field))
		}
	}
	return nil
}

// brailleBlank is a symbol in Unicode but has no visible form.
const brailleBlank = '\u2800'

// visible reports whether a character is visible or the plain space. unicode.IsPrint is not enough: it accepts
// some letters and marks that have no visible form.
func visible(r rune) bool {
	switch {
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector), r == brailleBlank:
		return false
	default:
		return r == ' ' || unicode.IsPrint(r)
	}
}
