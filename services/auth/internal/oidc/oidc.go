// Package oidc signs people in by the installation's OpenID provider: authorization code with PKCE, state,
// nonce and RFC 9207's `iss`.
//
// It promises:
//   - an answer of the provider counts once, within ten minutes, and only in the browser that began;
//   - an identity is (issuer, subject) and nothing else. An account is never found by a name or an e-mail
//     address: both change hands at a provider, and at many a person chooses his own, so whoever takes a
//     name there would take the account here. A name that is taken gets a suffix;
//   - role and teams follow the provider's groups at each sign-in, except that the last admin who can sign in
//     stays one;
//   - sign-ins that begin are counted by address, over all replicas, and those that wait are bounded in all;
//   - nothing of a sign-in is stored but hashes, and nothing that the provider answers is repeated in an error.
package oidc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// pendingTTL is how long a person may stay at the provider.
const pendingTTL = 10 * time.Minute

// What a caller without a credential may make of rows: how many sign-ins of an address may begin in a window
// (an office may stand behind one), and how many of all may wait for the provider.
const (
	beginMost   = 60
	beginWindow = time.Minute
	waitingMost = 20_000
)

// CallbackPath is where the provider sends the browser back to, under the public URL.
const CallbackPath = "/auth/callback"

// ticket is one sign-in as the browser carries it: the state, which travels through the provider, and the
// binding, which never leaves the browser. What must not be stored in plain is derived from both.
type ticket struct {
	state   secret.String
	binding secret.String
}

const ticketBytes = 32

func newTicket(r io.Reader) (ticket, error) {
	raw := make([]byte, 2*ticketBytes)
	if _, err := io.ReadFull(r, raw); err != nil {
		return ticket{}, fmt.Errorf("draw a sign-in: %w", err)
	}
	return ticket{state: secret.New(encode(raw[:ticketBytes])), binding: secret.New(encode(raw[ticketBytes:]))}, nil
}

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// wellFormed says whether both could have been drawn, so that nothing else reaches the database.
func (t ticket) wellFormed() bool {
	for _, s := range []secret.String{t.state, t.binding} {
		if raw, err := base64.RawURLEncoding.Strict().DecodeString(s.Reveal()); err != nil || len(raw) != ticketBytes {
			return false
		}
	}
	return true
}

func (t ticket) derive(use string) []byte {
	mac := hmac.New(sha256.New, []byte(t.binding.Reveal()))
	mac.Write([]byte(use + "\x00" + t.state.Reveal()))
	return mac.Sum(nil)
}

// nonce comes back in the ID token.
func (t ticket) nonce() string { return encode(t.derive("nonce")) }

// verifier is PKCE's: 43 characters that the provider sees when the code is exchanged.
func (t ticket) verifier() string { return encode(t.derive("pkce")) }

// aead is for one message only, so its nonce may be fixed with its key.
func (t ticket) aead() (a cipher.AEAD, nonce []byte, err error) {
	block, err := aes.NewCipher(t.derive("next"))
	if err != nil {
		return nil, nil, fmt.Errorf("make a sign-in's cipher: %w", err)
	}
	if a, err = cipher.NewGCM(block); err != nil {
		return nil, nil, fmt.Errorf("make a sign-in's cipher: %w", err)
	}
	return a, t.derive("iv")[:a.NonceSize()], nil
}

func (t ticket) seal(text string) ([]byte, error) {
	a, nonce, err := t.aead()
	if err != nil {
		return nil, err
	}
	return a.Seal(nil, nonce, []byte(text), nil), nil
}

func (t ticket) open(sealed []byte) (string, error) {
	a, nonce, err := t.aead()
	if err != nil {
		return "", err
	}
	raw, err := a.Open(nil, nonce, sealed, nil)
	if err != nil {
		return "", fmt.Errorf("open where a sign-in goes on: %w", err)
	}
	return string(raw), nil
}

// localPath is the path of this installation that a person wanted, `/` for anything that a browser could
// take for another place.
func localPath(next string) string {
	u, err := url.Parse(next)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.User != nil, u.Opaque != "":
		return "/"
	case !strings.HasPrefix(next, "/"), strings.HasPrefix(next, "//"), strings.ContainsRune(next, '\\'),
		strings.ContainsFunc(next, unicode.IsControl):
		return "/"
	}
	return next
}
