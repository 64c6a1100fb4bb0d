// Package oidc signs users in with the installation's OpenID provider. It uses the authorization code flow with PKCE,
// state, nonce and the `iss` of RFC 9207.
//
// It promises:
//   - a response of the provider is accepted once, within ten minutes, and only from the browser that began the
//     sign-in;
//   - an account is found only by issuer and subject, never by a name or an e-mail address. Users of many providers can
//     choose their name and address, or get those of a former user. They could otherwise take over another user's
//     account;
//   - if a username is taken, the new account gets the username with a suffix;
//   - role and teams follow the provider's groups at each sign-in, except that the last admin who can sign in stays an
//     admin;
//   - new sign-ins are counted by address across all replicas, and the total of unfinished sign-ins is limited;
//   - the secrets of a sign-in are stored only as hashes, and its path is stored encrypted;
//   - errors contain no text that the provider chooses, except error codes, addresses, and the issuer and audience of
//     an ID token.
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

// pendingTTL is how long a sign-in may take.
const pendingTTL = 10 * time.Minute

// Callers without a credential can begin sign-ins, so two numbers are limited: an address may begin at most beginMost
// sign-ins within beginWindow (a whole office may share one address), and at most waitingMost may be unfinished in
// total.
const (
	beginMost   = 60
	beginWindow = time.Minute
	waitingMost = 20_000
)

// CallbackPath is the path, under the public URL, to which the provider sends the browser back.
const CallbackPath = "/auth/callback"

// ticket holds the secrets of one sign-in. state is sent to the provider, which returns it. binding is known only to
// the browser. The other secrets of the sign-in are derived from both, so that they need not be stored.
type ticket struct {
	state   secret.String
	binding secret.String
}

const ticketBytes = 32

func newTicket(r io.Reader) (ticket, error) {
	raw := make([]byte, 2*ticketBytes)
	if _, err := io.ReadFull(r, raw); err != nil {
		return ticket{}, fmt.Errorf("generate the secrets of a sign-in: %w", err)
	}
	return ticket{state: secret.New(encode(raw[:ticketBytes])), binding: secret.New(encode(raw[ticketBytes:]))}, nil
}

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// wellFormed reports whether both secrets have the right length and encoding. Other values are not looked up in the
// database.
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

// nonce returns the nonce that the ID token must contain.
func (t ticket) nonce() string { return encode(t.derive("nonce")) }

// verifier returns the PKCE verifier: 43 characters that the provider receives when the code is exchanged.
func (t ticket) verifier() string { return encode(t.derive("pkce")) }

// aead returns the cipher and the nonce of a sign-in. Each key encrypts only one message, so the nonce need not be
// random.
func (t ticket) aead() (a cipher.AEAD, nonce []byte, err error) {
	block, err := aes.NewCipher(t.derive("next"))
	if err != nil {
		return nil, nil, fmt.Errorf("create the cipher of a sign-in: %w", err)
	}
	if a, err = cipher.NewGCM(block); err != nil {
		return nil, nil, fmt.Errorf("create the cipher of a sign-in: %w", err)
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
		return "", fmt.Errorf("decrypt the path of a sign-in: %w", err)
	}
	return string(raw), nil
}

// localPath returns the given path if it is a path of this installation. It returns `/` if a browser could interpret
// the given path as an address on another host.
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
