package proxy

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// prefix is the path under which deployments are served.
const prefix = "/inference/"

// route parses the deployment and the engine's path from the path of a request. It decodes the path once and
// rebuilds it, so that only /v1 and paths below it reach an engine. The result found is false if the path does not have
// the form /inference/{deployment}/v1/...; the result ok is false if it has that form but must not be relayed.
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

// clean reports whether every parser would read the path as one below /v1.
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
