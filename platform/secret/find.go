package secret

import (
	"cmp"
	"slices"
	"strings"
)

// shape is a form of credentials: a beginning, in which "?" stands for any character, and characters after it.
type shape struct {
	begin string
	chars string
	// least is the minimum number of characters after the beginning. If it is 0, there are at least short ones with a
	// digit among them, or long ones in a row without a dash, so that ordinary words with the same beginning are not
	// taken for credentials.
	least int
}

const (
	long     = 16
	short    = 8
	upper    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	wordlike = base62 + "_-"
	ownLeast = 32 // a token of this product may be cut off
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
)

func shapes() []shape {
	var all []shape
	for _, kind := range kinds() {
		all = append(all, shape{begin: kind + "_", chars: base62, least: ownLeast})
	}
	return append(all, []shape{
		{begin: "sk-", chars: wordlike},
		{begin: "hf_", chars: base62},
		{begin: "gh?_", chars: base62},
		{begin: "github_pat_", chars: base62 + "_"},
		{begin: "glpat-", chars: wordlike},
		{begin: "xox?-", chars: base62 + "-"},
		{begin: "AKIA", chars: upper, least: short},
		{begin: "AIza", chars: wordlike, least: long},
	}...)
}

// part is a part of a text, s[from:to].
type part struct{ from, to int }

// Mask replaces with `with` all parts of a text that look like credentials: the tokens of this product, PEM blocks, JSON
// web tokens, the user information of URLs, and keys of well-known services. It returns the text itself if it finds none.
func Mask(s, with string) string {
	parts := append(append(pemParts(s), jwtParts(s)...), urlParts(s)...)
	for _, one := range shapes() {
		parts = append(parts, one.parts(s)...)
	}
	if len(parts) == 0 {
		return s
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var out strings.Builder
	end := 0
	for _, p := range parts {
		if p.from >= end {
			out.WriteString(s[end:p.from])
			out.WriteString(with)
		}
		end = max(end, p.to)
	}
	out.WriteString(s[end:])
	return out.String()
}

// parts returns the parts of a text that have the shape and do not continue a word.
func (h shape) parts(s string) (found []part) {
	literal, _, _ := strings.Cut(h.begin, "?")
	for from := 0; ; {
		i := strings.Index(s[from:], literal)
		if i < 0 {
			return found
		}
		from += i
		to := from + h.match(s[from:])
		if to == from || continues(s, from) {
			from += len(literal)
			continue
		}
		found, from = append(found, part{from, to}), to
	}
}

// match returns how many bytes at the beginning of s have the shape.
func (h shape) match(s string) int {
	if len(s) < len(h.begin) {
		return 0
	}
	for i := range len(h.begin) {
		if h.begin[i] != '?' && h.begin[i] != s[i] {
			return 0
		}
	}
	rest := s[len(h.begin):]
	n := count(rest, h.chars)
	enough := n >= h.least
	if h.least == 0 {
		enough = n >= short && strings.ContainsAny(rest[:n], "0123456789") ||
			slices.ContainsFunc(strings.Split(rest[:n], "-"), func(word string) bool { return len(word) >= long })
	}
	if !enough {
		return 0
	}
	return len(h.begin) + n
}

// continues reports whether the character before s[at] is a letter or a digit, and not the end of an escape sequence of
// JSON such as \n or \u000a. A text may be JSON in a string of JSON, and so on, so the sequence may follow any number of
// backslashes. If they stand for themselves, a word too many is masked.
func continues(s string, at int) bool {
	if at == 0 || strings.IndexByte(base62, s[at-1]) < 0 {
		return false
	}
	const hexDigits = "0123456789abcdefABCDEF"
	escaped := func(end int) bool { return end > 0 && s[end-1] == '\\' } // whether s[end] follows a backslash
	if strings.IndexByte("bfnrt", s[at-1]) >= 0 && escaped(at-1) {
		return false
	}
	const unicode = 4
	code := at > unicode+1 && s[at-unicode-1] == 'u' && count(s[at-unicode:at], hexDigits) == unicode && escaped(at-unicode-1)
	return !code
}

// count returns how many bytes at the beginning of s are among chars.
func count(s, chars string) int {
	n := 0
	for n < len(s) && strings.IndexByte(chars, s[n]) >= 0 {
		n++
	}
	return n
}

func pemParts(s string) (found []part) {
	for from := 0; ; {
		i := strings.Index(s[from:], pemBegin)
		if i < 0 {
			return found
		}
		from += i
		to := len(s) // a block without an end is cut off
		if end := strings.Index(s[from:], pemEnd); end >= 0 {
			to = from + end + len(pemEnd)
			if dashes := strings.Index(s[to:], "-----"); dashes >= 0 {
				to += dashes + len("-----")
			}
		}
		found, from = append(found, part{from, to}), to
	}
}

// jwtParts finds JSON web tokens: base64url parts that are joined by dots. The first one is a JSON object.
func jwtParts(s string) (found []part) {
	const begin = "eyJ"
	for from := 0; ; {
		i := strings.Index(s[from:], begin)
		if i < 0 {
			return found
		}
		from += i
		head := count(s[from:], wordlike)
		to := from + head
		if head >= short && to < len(s) && s[to] == '.' && count(s[to+1:], wordlike) >= short && !continues(s, from) {
			to += count(s[to:], wordlike+".")
			found = append(found, part{from, to})
		}
		from = max(to, from+len(begin))
	}
}

// urlParts finds the user information of URLs, without the @ after it.
func urlParts(s string) (found []part) {
	const begin = "://"
	for from := 0; ; {
		i := strings.Index(s[from:], begin)
		if i < 0 {
			return found
		}
		from += i + len(begin)
		authority := s[from:]
		if end := strings.IndexAny(authority, "/?#\"'<>\\ \t\r\n"); end >= 0 {
			authority = authority[:end]
		}
		if at := strings.LastIndexByte(authority, '@'); at > 0 {
			found = append(found, part{from, from + at})
		}
	}
}
