package packager

import (
	"bytes"
	"context"
	"math"
	"regexp"
	"slices"
	"strings"
)

// shape is a form of secrets in the content of files.
type shape struct {
	name string
	// hints are texts, in lower case if fold is set. A content with the secret has at least one of them. They are found much sooner
	// than the pattern.
	hints []string
	fold  bool
	// pattern matches the secret. Its last group, or the whole match if it has none, is what is tested by real.
	pattern *regexp.Regexp
	// real reports whether a match is a secret, and not a placeholder.
	real func(match string) bool
	// except, if it is not nil, matches the matches that are not secrets because of what is before the group.
	except *regexp.Regexp
	// text means that the shape is searched for only in files that are texts.
	text bool
}

// compileShapes returns the shapes that are searched for.
func compileShapes() []shape {
	return slices.Concat(tokenShapes(), serviceShapes(), fileShapes(), []shape{
		{name: "private key", hints: []string{"PRIVATE KEY"}, real: varied, pattern: regexp.MustCompile(
			`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\[rnt]|[\s"'+,])+` +
				`(?:[A-Za-z-]+: [^\n\\]*(?:\\[rnt]|[\s"'+,])+)*([A-Za-z0-9+/=]{40,})`)},
		{name: "service account", hints: []string{"service_account"}, real: always, pattern: regexp.MustCompile(
			`(?s)"type"\s*:\s*"service_account".*"private_key"\s*:\s*"|"private_key"\s*:\s*".*"type"\s*:\s*"service_account"`)},
		{name: "kubeconfig", hints: []string{"client-key-data"}, real: varied, pattern: regexp.MustCompile(
			`client-key-data["']?\s*:\s*["']?([A-Za-z0-9+/=]{40,})`)},
		{name: "AWS secret key", hints: []string{"secret"}, fold: true, real: mixed, text: true, pattern: regexp.MustCompile(
			`(?i)aws_?(?:secret_?access|secret|access_?secret)_?key["']?\s*[:=]\s*["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)`)},
		{name: "password in a URL", hints: []string{"://"}, real: random, text: true, pattern: regexp.MustCompile(
			`://[^\s/:@"'<>{}$]*:([^\s/:@"'<>{}$]{8,})@[A-Za-z0-9]`)},
		{
			name: "assignment of a secret", fold: true, real: random, text: true,
			hints: []string{"secret", "token", "password", "passwd", "api_key", "apikey", "api-key", "access_key", "private_key", "auth_key"},
			// These tokens are places in a list that has pages.
			except: regexp.MustCompile(`(?i)^(?:next|prev|previous|page|pagination|continuation|continue|starting|cursor|sync|[_-])+token`),
			pattern: regexp.MustCompile(`(?im)(?:(?:next|prev|previous|page|pagination|continuation|continue|starting|cursor|sync)[_-]?)*` +
				`(?:secret|token|password|passwd|api[_-]?key|access_key|private_key|auth_key|secret_key)` +
				`["']?[ \t]*(?::=|[:=])[ \t]*["']?([A-Za-z0-9+/=_-]{20,})["']?(?:[\s,;}#)]|$)`),
		},
	})
}

// find returns the place of the first secret of the shape in a content, and -1 if there is none. The parameter folded is the
// content in lower case. The matches that are tested do not overlap, so that the time is in proportion to the content whatever it is.
func (h shape) find(ctx context.Context, content []byte, folded func() []byte) (int, error) {
	if !h.hinted(content, folded) {
		return -1, nil
	}
	for from := 0; ; {
		if err := ctx.Err(); err != nil {
			return -1, err
		}
		at := h.pattern.FindSubmatchIndex(content[from:])
		if at == nil {
			return -1, nil
		}
		group := len(at) - 2
		excepted := h.except != nil && h.except.Match(content[from+at[0]:from+at[1]])
		if !excepted && h.real(string(content[from+at[group]:from+at[group+1]])) {
			return from + at[group], nil
		}
		from += at[1]
	}
}

func (h shape) hinted(content []byte, folded func() []byte) bool {
	if h.fold {
		content = folded()
	}
	for _, hint := range h.hints {
		if bytes.Contains(content, []byte(hint)) {
			return true
		}
	}
	return false
}

func always(string) bool { return true }

// varied reports whether a token is more than a placeholder such as xxxxxxxx, and not a known example.
func varied(match string) bool {
	const least = 2.8 // bits for each character
	return entropy(match) >= least && !strings.Contains(match, "EXAMPLE")
}

// cased reports whether a token has upper-case and lower-case letters, in contrast to the names of functions.
func cased(match string) bool {
	return varied(match) && strings.ToUpper(match) != match && strings.ToLower(match) != match
}

// numbered reports whether a token has digits.
func numbered(match string) bool { return varied(match) && digits(match) > 0 }

// mixed reports whether a token has upper-case and lower-case letters and digits, in contrast to words that are joined.
func mixed(match string) bool { return cased(match) && digits(match) > 0 }

func digits(s string) int {
	n := 0
	for i := range len(s) {
		if '0' <= s[i] && s[i] <= '9' {
			n++
		}
	}
	return n
}

// opaque reports whether a value has digits and is not a placeholder.
func opaque(match string) bool { return varied(match) && digits(match) > 1 && !placeholder(match) }

// placeholder reports whether a value stands for a secret in an example.
func placeholder(match string) bool {
	lower := strings.ToLower(match)
	for _, word := range []string{"example", "placeholder", "your", "xxxx", "changeme", "dummy", "redacted", "0123456789", "1234567890"} {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return false
}

// random reports whether a value looks random: neither words, nor a name, nor a path, nor a placeholder.
func random(match string) bool {
	if placeholder(match) {
		return false
	}
	lower := strings.ToLower(match)
	const run, numbers, hexLength, leastHex, least = 16, 2, 32, 3.0, 3.4
	longest := 0
	for piece := range strings.FieldsFuncSeq(match, func(r rune) bool { return strings.ContainsRune("-_/.", r) }) {
		longest = max(longest, len(piece))
	}
	if longest < run || digits(match) < numbers {
		return false
	}
	if strings.Trim(lower, "0123456789abcdef") == "" {
		return len(match) >= hexLength && entropy(lower) >= leastHex
	}
	return lower != match && entropy(match) >= least
}

// entropy returns the Shannon entropy of a text in bits for each byte.
func entropy(s string) float64 {
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	sum := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}
