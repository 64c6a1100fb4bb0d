// Package enginepath reads the paths of calls to engines: /inference/{deployment_id}/v1/... and
// /api/playground/sessions/{playground_id}/targets/{target}/v1/.... The gateway, the proxy and the playground all read
// these paths with it, so that they cannot disagree about a path.
//
// It promises that every parser, whether it decodes a path never, once or several times, reads the target of an accepted
// path as one below /v1, with the same segments that this package has seen.
package enginepath

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	deployments = "/inference"
	sessions    = "/api/playground/sessions/"
	version     = "v1"
	// MaxPath is the maximum length of a path after it was decoded once, in bytes.
	MaxPath = 4096
	// maxRounds is how often the part after /v1/ may be decoded until it no longer changes.
	maxRounds = 4
)

// Verdict is how a path was judged.
type Verdict int

// The verdicts on a path.
const (
	// Elsewhere means that the path belongs to another route.
	Elsewhere Verdict = iota
	// Unknown means that the path is /inference, or is below it but does not have the form of a call.
	Unknown
	// Bad means that the path must be refused with the error of BadPath.
	Bad
	// Good means that the path may be relayed.
	Good
)

// Path is a path that has been read.
type Path struct {
	// Prefix is the part before /v1, as the caller sent it. It is empty if the verdict is Bad because of this part.
	Prefix string
	// ID is the id of the deployment or of the playground session.
	ID string
	// Number is the number of a target of a session; it is empty for a deployment.
	Number string
	// Target is the path at the engine, as the caller sent it: /v1, or a path that begins with /v1/.
	Target string
}

// Read reads the path of a request, as the caller has sent it.
func Read(u *url.URL) (Path, Verdict) {
	sent := Sent(u)
	p, verdict := read(sent)
	if verdict == Elsewhere && sent != u.Path {
		if _, decoded := read(u.Path); decoded != Elsewhere {
			return Path{}, Bad // without its escapes, the path is one of a call
		}
	}
	if verdict != Elsewhere && len(u.Path) > MaxPath {
		return Path{}, Bad
	}
	return p, verdict
}

// Under reports whether a decoded path is /inference or below it.
func Under(path string) bool {
	rest, ok := strings.CutPrefix(path, deployments)
	return ok && (rest == "" || rest[0] == '/')
}

// ForEngine reports whether a decoded path is one of Under or UnderSession. Clients of engines expect the member `error`
// in a response to such a path.
func ForEngine(path string) bool { return Under(path) || UnderSession(path) }

// UnderSession reports whether a decoded path is one of a target of a playground session.
func UnderSession(path string) bool {
	return strings.HasPrefix(path, sessions) && strings.Contains(path, "/targets/")
}

func read(sent string) (Path, Verdict) {
	if rest, ok := strings.CutPrefix(sent, sessions); ok {
		return readSession(sent, rest)
	}
	if !Under(sent) {
		return Path{}, Elsewhere
	}
	rest := strings.TrimPrefix(sent[len(deployments):], "/")
	id, rest, _ := strings.Cut(rest, "/")
	second, tail, _ := strings.Cut(rest, "/")
	switch {
	case strings.Contains(id, "%") || strings.Contains(second, "%"):
		return Path{}, Bad // an escape in the part through /v1/
	case id != "" && second == version && plain(id):
		at := len(sent) - len(rest) - 1
		return judge(Path{Prefix: sent[:at], ID: id, Target: sent[at:]}, tail)
	case id == "" && rest == "" && sent != deployments+"//":
		return Path{}, Unknown // /inference or /inference/
	case !clean(id + "/" + rest):
		return Path{}, Bad
	}
	return Path{}, Unknown
}

// readSession reads the part of a path after "/api/playground/sessions/".
func readSession(sent, rest string) (Path, Verdict) {
	id, rest, _ := strings.Cut(rest, "/")
	rest, ok := strings.CutPrefix(rest, "targets/")
	number, rest, _ := strings.Cut(rest, "/")
	second, tail, _ := strings.Cut(rest, "/")
	switch {
	case !ok || second != version || id == "" || number == "":
		return Path{}, Elsewhere
	case !plain(id) || !plain(number):
		return Path{}, Bad
	}
	at := len(sent) - len(rest) - 1
	return judge(Path{Prefix: sent[:at], ID: id, Number: number, Target: sent[at:]}, tail)
}

// plain reports whether a segment has no escapes and is not a dot segment. The services check whether it is an id.
func plain(segment string) bool {
	return segment != "." && segment != ".." && !strings.Contains(segment, "%")
}

func judge(p Path, tail string) (Path, Verdict) {
	if tail != "" && !clean(tail) {
		return p, Bad
	}
	return p, Good
}

// clean reports whether a path below /v1/ may be relayed in the form that was sent. One slash at its end is allowed.
// Everything else must hold for each form that a parser may see: the path is decoded again and again, until it no longer
// changes.
func clean(sent string) bool {
	form := strings.TrimSuffix(sent, "/")
	for round := 0; ; round++ {
		if !wellFormed(form) {
			return false
		}
		next := decode(form)
		if next == form {
			return true
		}
		if round == maxRounds {
			return false
		}
		form = next
	}
}

// wellFormed checks one form of a path.
func wellFormed(form string) bool {
	start := 0
	for i := 0; i <= len(form); i++ {
		if i == len(form) || form[i] == '/' {
			switch form[start:i] {
			case "", ".", "..":
				return false
			}
			start = i + 1
			continue
		}
		if c := form[i]; c < ' ' || c == 0x7f || c == '\\' || c == ';' {
			return false
		}
	}
	return utf8.ValidString(form)
}

// decode decodes the escapes of a text once. It leaves invalid escapes as they are.
func decode(s string) string {
	at := strings.IndexByte(s, '%')
	if at < 0 {
		return s
	}
	out := append(make([]byte, 0, len(s)), s[:at]...)
	for i := at; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && ishex(s[i+1]) && ishex(s[i+2]) {
			out = append(out, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

func ishex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	default:
		return c - 'A' + 10
	}
}

// Sent returns the path of a URL as it was sent. Only bytes that a URL must not contain, and that some clients send
// nevertheless, are escaped.
func Sent(u *url.URL) string {
	if u.RawPath == "" {
		return u.EscapedPath() // the path was sent in this form
	}
	for i := range len(u.RawPath) {
		if !allowed(u.RawPath[i]) {
			return escape(u.RawPath)
		}
	}
	return u.RawPath
}

// allowed reports whether a path may contain a byte (RFC 3986, appendix A). Like package url, it also allows brackets.
func allowed(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@/%[]", c) >= 0
}

func escape(s string) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(s)+8)
	for i := range len(s) {
		if c := s[i]; allowed(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', digits[c>>4], digits[c&0xf])
		}
	}
	return string(out)
}

// At returns the URL that package net/http writes as a request line with this path, unchanged, and the query of u.
func (p Path) At(u *url.URL) *url.URL {
	return &url.URL{Path: decode(p.Target), RawPath: p.Target, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery}
}

// The codes of requests that no engine may receive.
const (
	codeBadPath   = "bad_path"
	codeBadMethod = "bad_method"
)

// BadPath returns the error for a path with the verdict Bad.
func BadPath() *fault.Error {
	return fault.New(fault.Refused, codeBadPath, "the path must be UTF-8 of at most %d bytes without dot segments, double slashes, semicolons, "+
		"backslashes and control bytes, also after it is decoded, and without escapes before /v1/", MaxPath)
}

// NotFound returns the error for a path with the verdict Unknown.
func NotFound() *fault.Error { return fault.New(fault.Absent, "not_found", "Not Found") }

// BadMethod returns the error for a method that no engine may receive, or nil.
func BadMethod(method string) *fault.Error {
	if method == http.MethodConnect || method == http.MethodTrace {
		return fault.New(fault.Refused, codeBadMethod, "method %s is not allowed", method)
	}
	return nil
}
