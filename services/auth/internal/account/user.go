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

// How a person signs in.
const (
	LoginPassword = "password"
	// LoginOIDC is a person whom the provider makes an account for; it has no password.
	LoginOIDC = "oidc"
)

// SubjectKind names accounts in the audit.
const SubjectKind = "account"

// User is an account as admins see it.
type User struct {
	ID          string
	Username    string
	Role        string
	Email       *string
	DisplayName *string
	// Login is how the person signs in.
	Login       string
	CreatedAt   time.Time
	DisabledAt  *time.Time
	LastLoginAt *time.Time
}

// admin says whether the user has the role and is not disabled.
func (u User) admin() bool { return u.Role == RoleAdmin && u.DisabledAt == nil }

// The reasons why the sessions of an account end here.
const (
	EndedByReset    = "admin"
	EndedByDisabled = "disabled"
)

// ender ends sessions in the transaction of what ends them.
type ender interface {
	EndAll(ctx context.Context, tx pgx.Tx, accountID, why, except string) error
}

// Users makes and changes accounts for admins.
type Users struct {
	Pool     *pgxpool.Pool
	Hasher   hasher
	Sessions ender
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	Rand     io.Reader
	// Issuer is the provider that people sign in by; empty where they do by passwords.
	Issuer string
}

// passwordBytes is 144 bits of randomness, 24 characters to type.
const passwordBytes = 18

// draw makes a password.
func draw(random io.Reader) (secret.String, error) {
	raw := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return secret.String{}, fmt.Errorf("draw a password: %w", err)
	}
	return secret.New(base64.RawURLEncoding.EncodeToString(raw)), nil
}

// Hash makes the stored form of a new password; a full queue before the hasher is 503.
func Hash(ctx context.Context, h hasher, pass secret.String) (string, error) {
	hash, err := h.Hash(ctx, pass)
	if errors.Is(err, password.ErrBusy) {
		return "", Busy(err)
	}
	return hash, err
}

// Busy is the answer while too many passwords are hashed at once.
func Busy(cause error) error {
	return fault.New(fault.Unavailable, "login_busy", "Too many logins at once").WithRetryAfter(time.Second).Wrap(cause)
}

// PasswordsOff is the answer where passwords open nothing.
func PasswordsOff() error {
	return fault.New(fault.Unconfigured, "password_login_off", "People sign in by this deployment's provider: there are no passwords")
}

// EmailOfProvider is the answer where the provider says what an address is, at each sign-in.
func EmailOfProvider() error {
	return fault.New(fault.Conflict, "email_of_provider", "The e-mail address is the sign-in provider's to change")
}

// CheckName refuses a name for people with characters that cannot be seen or that turn the text around:
// one would look like somebody else's.
func CheckName(field, name string) error {
	for _, r := range name {
		if !visible(r) {
			return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should hold visible characters only", field))
		}
	}
	if name == "" || strings.TrimSpace(name) != name {
		return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should not begin or end with a space", field))
	}
	return nil
}

// CheckText refuses what CheckName does in text of several lines, but what joins and parts the letters of a word:
// without those, some languages cannot be written.
func CheckText(field, text string) error {
	for _, r := range text {
		if !visible(r) && !strings.ContainsRune("\n\r\t\u200c\u200d", r) && !unicode.Is(unicode.Variation_Selector, r) {
			return fault.InvalidFields(fault.At(fault.TypeValue, "Value error, should hold visible characters only", field))
		}
	}
	return nil
}

// brailleBlank is a symbol to Unicode, and shows nothing.
const brailleBlank = '\u2800'

// visible says whether a character shows, or is the plain space. Unicode counts some letters and marks among
// what is printed that show nothing.
func visible(r rune) bool {
	switch {
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector), r == brailleBlank:
		return false
	default:
		return r == ' ' || unicode.IsPrint(r)
	}
}
