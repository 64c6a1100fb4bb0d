// Package leak searches an installation that was used for the credentials that it made: what a dump of its
// database holds, its logs, its traces and the arguments of its processes. It also holds each change by a
// person to its row in the audit.
package leak

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// hoard are the credentials that a test has seen.
type hoard struct {
	mu   sync.Mutex
	kept map[string][]string // what it is called, by the credential
}

// shortest is the length of a text that can be told from chance.
const shortest = 12

// add keeps a credential under a name.
func (h *hoard) add(name, credential string) {
	if len(credential) < shortest {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept == nil {
		h.kept = map[string][]string{}
	}
	if !slices.Contains(h.kept[credential], name) {
		h.kept[credential] = append(h.kept[credential], name)
	}
}

// names are the kinds of what is kept, sorted.
func (h *hoard) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, names := range h.kept {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// form is one way to write a credential.
type form struct{ name, text string }

// forms are all ways in which a credential is searched: as it is, as hexadecimal digits, and as base64 of
// either alphabet wherever it stands in what was encoded.
func forms(credential string) []form {
	digits := hex.EncodeToString([]byte(credential))
	all := []form{{"plain", credential}, {"hex", digits}, {"HEX", strings.ToUpper(digits)}}
	for shift := range 3 {
		padded := append(make([]byte, shift), credential...)
		// The first digits are those of what stands before, the last those of what follows.
		skip := []int{0, 2, 3}[shift]
		for name, alphabet := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := alphabet.EncodeToString(padded)
			whole := len(padded) / 3 * 4
			all = append(all, form{fmt.Sprintf("%s+%d", name, shift), text[skip:whole]})
		}
	}
	return all
}

// search names each credential that a place holds, and how it is written there.
func (h *hoard) search(place string, content []byte) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for credential, names := range h.kept {
		for _, f := range forms(credential) {
			if at := bytes.Index(content, []byte(f.text)); at >= 0 {
				found = append(found, fmt.Sprintf("%s holds the %s (%s), after %q", place, strings.Join(names, ", the "), f.name, before(content, at)))
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

// before is what stands before a find, so that it can be told where it is.
func before(content []byte, at int) []byte { return content[max(0, at-80):at] }
