// Package leak uses an installation and then searches it for the credentials that were issued: in a dump of
// its database, its logs, its traces and the arguments of its processes. It also requires an audit row for
// each change that a user made.
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

// credentialStore stores the credentials that a test has seen.
type credentialStore struct {
	mu   sync.Mutex
	kept map[string][]string // from a credential to its names
}

// shortest is the minimum length of a credential to search for. A shorter text could be found by chance.
const shortest = 12

// add stores a credential under a name.
func (h *credentialStore) add(name, credential string) {
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

// names returns the names of all credentials, sorted.
func (h *credentialStore) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, names := range h.kept {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// encoding is an encoding of a credential.
type encoding struct{ name, text string }

// encodings returns all encodings of a credential to search for: plain, hexadecimal, and base64 in both
// alphabets at each offset within the encoded text.
func encodings(credential string) []encoding {
	digits := hex.EncodeToString([]byte(credential))
	all := []encoding{{"plain", credential}, {"hex", digits}, {"HEX", strings.ToUpper(digits)}}
	for shift := range 3 {
		padded := append(make([]byte, shift), credential...)
		// Omit the first digits, which depend on the preceding text, and the last digits, which depend on the
		// following text.
		skip := []int{0, 2, 3}[shift]
		for name, alphabet := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := alphabet.EncodeToString(padded)
			whole := len(padded) / 3 * 4
			all = append(all, encoding{fmt.Sprintf("%s+%d", name, shift), text[skip:whole]})
		}
	}
	return all
}

// search reports each credential that the given content contains, with its encoding. The parameter place describes
// the content.
func (h *credentialStore) search(place string, content []byte) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for credential, names := range h.kept {
		for _, f := range encodings(credential) {
			if at := bytes.Index(content, []byte(f.text)); at >= 0 {
				found = append(found, fmt.Sprintf("%s contains the %s (%s), after %q", place, strings.Join(names, ", the "), f.name, before(content, at)))
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

// before returns the text before a match, so that the message shows where the match is.
func before(content []byte, at int) []byte { return content[max(0, at-80):at] }
