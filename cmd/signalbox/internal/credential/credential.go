// Package credential owns the stored logins of the command line. They are in the keyring of the operating system, or,
// if it has none, in a file that only the user can read. A login is stored with the address of its installation, so
// that it is never sent to another one. The package promises that a store that was chosen once is never replaced by a
// less safe one without notice.
package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Credential is an access token of one installation.
type Credential struct {
	Server    string
	Token     secret.String
	User      string
	ExpiresAt time.Time // zero if it is unknown
}

// ErrNone reports that no login is stored.
var ErrNone = errors.New("no login is stored")

// The kinds of stores.
const (
	Keyring = "keyring"
	File    = "file"
)

// Store holds at most one credential for each context.
type Store interface {
	// Kind returns keyring or file.
	Kind() string
	// Get returns ErrNone if the context has no credential.
	Get(context string) (Credential, error)
	Set(context string, c Credential) error
	// Delete succeeds if the context has no credential.
	Delete(context string) error
}

// stored is the form in which a credential is stored.
type stored struct {
	Server    string     `json:"server"`
	Token     string     `json:"token"`
	User      string     `json:"user,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func (c Credential) stored() stored {
	s := stored{Server: c.Server, Token: c.Token.Reveal(), User: c.User}
	if !c.ExpiresAt.IsZero() {
		s.ExpiresAt = &c.ExpiresAt
	}
	return s
}

func (s stored) credential() Credential {
	c := Credential{Server: s.Server, Token: secret.New(s.Token), User: s.User}
	if s.ExpiresAt != nil {
		c.ExpiresAt = *s.ExpiresAt
	}
	return c
}

func encode(c Credential) (string, error) {
	raw, err := json.Marshal(c.stored())
	if err != nil {
		return "", fmt.Errorf("encode the login: %w", err)
	}
	return string(raw), nil
}

func decode(text string) (Credential, error) {
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Credential{}, fmt.Errorf("decode the stored login: %w", err)
	}
	return s.credential(), nil
}
