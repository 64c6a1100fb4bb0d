package proxy

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// prefix is where deployments are served.
const prefix = "/inference/"

// route reads the deployment and the engine's path of a request. The path is decoded once and rebuilt,
// so that nothing but /v1/... reaches an engine; found is false for what is not of this form, and ok for
// a path of the form whose rest must not be passed on.
func route(escaped string) (deployment, target string, found, ok bool) {
	rest, is := strings.CutPrefix(escaped, prefix)
	if !is {
		return "", "", false, false
	}
	deployment, rest, _ = strings.Cut(rest, "/")
	if rest != "v1" && !strings.HasPrefix(rest, "v1/") || deployment == "" {
		return "", "", false, false
	}
	lower := strings.ToLower(rest)
	if strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c") || strings.Contains(lower, "%00") {
		return deployment, "", true, false
	}
	decoded, err := url.PathUnescape(rest)
	if err != nil || !clean(decoded) {
		return deployment, "", true, false
	}
	return deployment, "/" + decoded, true, true
}

// clean refuses what another parser could read as a way out of /v1.
func clean(decoded string) bool {
	for i := range len(decoded) {
		if c := decoded[i]; c < 0x20 || c == 0x7f || c == '\\' || c == '%' || c == ';' {
			return false
		}
	}
	for segment := range strings.SplitSeq(decoded, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return !strings.Contains(decoded, "//") && utf8.ValidString(decoded)
}
