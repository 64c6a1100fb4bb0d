package webpage

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

const maxNext = 2048

// local returns the value next if it is a path of this installation, otherwise "". Browsers read a backslash as a
// slash and drop line breaks and tabs, so `/\host`, `//host` and `/<tab>/host` all lead to another host.
func local(next string) string {
	if len(next) > maxNext || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || !utf8.ValidString(next) {
		return ""
	}
	if strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r <= ' ' || r == 0x7f }) {
		return ""
	}
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil {
		return ""
	}
	// A dot segment may make the first segment empty: browsers resolve `/x/..//host` to `//host`.
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return ""
		}
	}
	if strings.Contains(u.Path, "//") {
		return ""
	}
	return next
}

// userCode returns the given code in upper case if it has the characters and length of a device's user code, otherwise
// "".
func userCode(code string) string {
	const longest = 16
	if len(code) > longest || strings.ContainsFunc(code, func(r rune) bool {
		return r != '-' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) {
		return ""
	}
	return strings.ToUpper(code)
}
