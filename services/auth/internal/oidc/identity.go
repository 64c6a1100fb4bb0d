package oidc

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// The maximum number of groups, and the maximum lengths of a group's name, the subject, a new username and an e-mail
// address, in bytes.
const (
	maxGroups  = 1000
	maxGroup   = 512
	maxSubject = 255
	maxName    = 64
	maxEmail   = 254
)

// Identity is a user of the provider. Issuer and Subject identify the user. The other fields may change; they contain
// what the provider currently states.
type Identity struct {
	Issuer, Subject string
	// Name is the user's name at the provider; it may be empty.
	Name string
	// Email is set only if the provider has verified it.
	Email  string
	Groups []string
}

// identity reads verified claims. A claim of a wrong type is an error: if the claim were ignored, the user could lose
// the admin role and teams.
func (c claims) identity(issuer, groupsClaim string) (Identity, error) {
	ident := Identity{Issuer: issuer, Subject: c.text("sub")}
	if ident.Subject == "" || len(ident.Subject) > maxSubject || strings.ContainsFunc(ident.Subject, notPrintable) {
		return Identity{}, fmt.Errorf("the subject must have 1 to %d printable ASCII characters", maxSubject)
	}
	for name, to := range map[string]*string{"preferred_username": &ident.Name, "email": &ident.Email} {
		if !c.has(name) {
			continue
		}
		if err := json.Unmarshal(c[name], to); err != nil || len(*to) > 4*maxEmail || strings.ContainsFunc(*to, unicode.IsControl) {
			return Identity{}, fmt.Errorf("claim %s is not plain text", name)
		}
	}
	if string(c["email_verified"]) != "true" || len(ident.Email) > maxEmail || !strings.Contains(ident.Email, "@") {
		ident.Email = ""
	}
	var err error
	ident.Groups, err = c.groups(groupsClaim)
	return ident, err
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

// groups returns the groups in a claim. Some providers send a single group as a string instead of a list.
func (c claims) groups(name string) ([]string, error) {
	if !c.has(name) {
		var elsewhere map[string]string
		if json.Unmarshal(c["_claim_names"], &elsewhere) == nil && elsewhere[name] != "" {
			return nil, errors.New("the user has too many groups for the ID token; limit the groups in the claim at the provider")
		}
		return nil, nil
	}
	if one := c.text(name); one != "" {
		return checkGroups([]string{one})
	}
	var list []string
	if err := json.Unmarshal(c[name], &list); err != nil {
		return nil, errors.New("the groups claim is not a list of names")
	}
	return checkGroups(list)
}

func checkGroups(list []string) ([]string, error) {
	if len(list) > maxGroups {
		return nil, fmt.Errorf("the user has more than %d groups", maxGroups)
	}
	for _, g := range list {
		if g == "" || len(g) > maxGroup || strings.ContainsFunc(g, unicode.IsControl) {
			return nil, fmt.Errorf("the name of a group must have 1 to %d bytes and no control characters", maxGroup)
		}
	}
	return list, nil
}

// usernames returns the usernames to try for a new account, in order of preference. The suffixes are parts of a hash of
// the identity, so they do not depend on other accounts.
func (i Identity) usernames() []string {
	base := plainName(i.Name)
	if base == "" {
		base = plainName(i.Email)
	}
	sum := sha256.Sum256([]byte(i.Issuer + "\x00" + i.Subject))
	tail := hex.EncodeToString(sum[:])
	if base == "" {
		return []string{"user-" + tail[:8], "user-" + tail[:32]}
	}
	return []string{base, base + "-" + tail[:6], base + "-" + tail[:12], base + "-" + tail[:32]}
}

// plainName converts a name to lower-case ASCII, so that a name with look-alike letters of another alphabet cannot
// imitate another username.
func plainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._@+-", r) {
			return r
		}
		return '-'
	}, name)
	plain = strings.Trim(plain, "._@+-")
	return strings.TrimRight(plain[:min(len(plain), maxName)], "._@+-")
}
