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

// The most that is read of a person's groups, and the longest texts.
const (
	maxGroups  = 1000
	maxGroup   = 512
	maxSubject = 255
	maxName    = 64
	maxEmail   = 254
)

// Identity is who the provider says somebody is. Issuer and Subject are the person; the rest is what the
// provider calls him today.
type Identity struct {
	Issuer, Subject string
	// Name is what the person is called there; it may be empty.
	Name string
	// Email is set only where the provider has verified it.
	Email  string
	Groups []string
}

// identity reads checked claims. A claim of a wrong type is an error: to take it for nothing would take roles
// and teams away.
func (c claims) identity(issuer, groupsClaim string) (Identity, error) {
	who := Identity{Issuer: issuer, Subject: c.text("sub")}
	if who.Subject == "" || len(who.Subject) > maxSubject || strings.ContainsFunc(who.Subject, notPrintable) {
		return Identity{}, fmt.Errorf("the subject is not 1 to %d printable ASCII characters", maxSubject)
	}
	for name, to := range map[string]*string{"preferred_username": &who.Name, "email": &who.Email} {
		if !c.has(name) {
			continue
		}
		if err := json.Unmarshal(c[name], to); err != nil || len(*to) > 4*maxEmail || strings.ContainsFunc(*to, unicode.IsControl) {
			return Identity{}, fmt.Errorf("%s is no plain text", name)
		}
	}
	if string(c["email_verified"]) != "true" || len(who.Email) > maxEmail || !strings.Contains(who.Email, "@") {
		who.Email = ""
	}
	var err error
	who.Groups, err = c.groups(groupsClaim)
	return who, err
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

// groups reads a list of names; some providers write a list of one as the name itself.
func (c claims) groups(name string) ([]string, error) {
	if !c.has(name) {
		var elsewhere map[string]string
		if json.Unmarshal(c["_claim_names"], &elsewhere) == nil && elsewhere[name] != "" {
			return nil, errors.New("the groups are too many to be told: narrow them at the provider")
		}
		return nil, nil
	}
	if one := c.text(name); one != "" {
		return checkGroups([]string{one})
	}
	var list []string
	if err := json.Unmarshal(c[name], &list); err != nil {
		return nil, errors.New("the groups are no list of names")
	}
	return checkGroups(list)
}

func checkGroups(list []string) ([]string, error) {
	if len(list) > maxGroups {
		return nil, fmt.Errorf("more than %d groups", maxGroups)
	}
	for _, g := range list {
		if g == "" || len(g) > maxGroup || strings.ContainsFunc(g, unicode.IsControl) {
			return nil, fmt.Errorf("a group's name is not 1 to %d plain characters", maxGroup)
		}
	}
	return list, nil
}

// usernames are the names that a new account may get, the nicest first. The suffix comes from the identity,
// so it is the person's own and no count of namesakes.
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

// plainName writes a name in lower-case ASCII, so that no two accounts look alike.
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
