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

// The ways in which users sign in.
const (
	LoginPassword = "password"
	// LoginOIDC is the login of an account that an OpenID sign-in created; it has no password.
	LoginOIDC = "oidc"
)

// SubjectKind is the target kind of audit entries about accounts.
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

// The reasons why this package ends sessions.
const (
	EndedByReset    = "admin"
	EndedByDisabled = "disabled"
)

// ender ends all sessions of an account, except the session with the given id. An empty id matches no session.
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
	// Issuer is the issuer of the OpenID provider with which users sign in; empty if they use passwords.
	Issuer string
}

// passwordBytes is the number of random bytes in a generated password: 144 bits, encoded as 24 characters.
const passwordBytes = 18

// draw generates a random password.
func draw(random io.Reader) (secret.String, error) {
	raw := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return secret.String{}, fmt.Errorf("generate a password: %w", err)
	}
	return secret.New(base64.RawURLEncoding.EncodeToString(raw)), nil
}

// Hash hashes a new password for storage. If too many passwords are being hashed, it returns the error of Busy, a 503.
func Hash(ctx context.Context, h hasher, pass secret.String) (string, error) {
	hash, err := h.Hash(ctx, pass)
	if errors.Is(err, password.ErrBusy) {
		return "", Busy(err)
	}
	return hash, err
}

// Busy returns the error of a request that is refused because too many passwords are being hashed.
func Busy(cause error) error {
	return fault.New(fault.Unavailable, "login_busy", "too many concurrent logins; try again in a second").WithRetryAfter(time.Second).Wrap(cause)
}

// PasswordsOff returns the error of a password operation while password login is off.
func PasswordsOff() error {
	return fault.New(fault.Unconfigured, "password_login_off", "password login is off; sign in with the OpenID provider")
}

// EmailOfProvider returns the error for a change of the e-mail address if the OpenID provider sets the address.
func EmailOfProvider() error {
	return fault.New(fault.Conflict, "email_of_provider", "the e-mail address is set by the sign-in provider; change it there")
}

// CheckName returns an error if a display name is empty, begins or ends with a space, or contains characters that are
// invisible or change the text direction. With such characters, the name could look like the name of another user.
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

// brailleBlank is a symbol in Unicode but is drawn as blank space.
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
