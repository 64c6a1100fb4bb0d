package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// heldFromCaller reports whether a header of a caller does not reach the engine. docs/reference/inference.md lists these
// headers with the reason.
//
// The names in this file are in the canonical form of package http.
func heldFromCaller(name string) bool {
	switch name {
	case "Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
		"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Method-Override",
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect",
		"Host", "Content-Length", "X-Request-Id", "Traceparent", "Tracestate",
		"Origin", "Referer", "Baggage":
		return true
	}
	return hasPrefix(name, "Proxy-", "X-Auth-", "X-Service-", "Grpc-", "X-Forwarded-", "X-Envoy-", "X-Original-", "X-Rewrite-", "X-Http-Method") ||
		hasPrefix(name, "Sec-Websocket-") || // socketHeader writes those of a handshake
		strings.Contains(name, "_") || !canonical(name) // an engine may read the name as another one
}

// heldFromEngine reports whether a header of an engine does not reach the caller, whether it is in the head of a response,
// in that of a 1xx response or in a trailer. The documentation lists these headers, too. Location and Link have rules of
// their own: see redirect.
func heldFromEngine(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Set-Login", "Www-Authenticate",
		"Clear-Site-Data", "Service-Worker-Allowed", "Alt-Svc", "Strict-Transport-Security", "Permissions-Policy", "Referrer-Policy",
		"X-Frame-Options", "X-Content-Type-Options", "Timing-Allow-Origin", "Refresh", "Nel", "Report-To", "Reporting-Endpoints", "Accept-Ch",
		"Critical-Ch", "Sourcemap", "X-Sourcemap",
		"X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-Url", "Cdn-Cache-Control", "Expires", "Pragma",
		"Content-Location",
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"X-Request-Id", "Cache-Control":
		return true
	}
	return hasPrefix(name, "Content-Security-Policy", "Cross-Origin-", "Origin-", "Access-Control-", "Public-Key-Pins", "X-Accel-", "Surrogate-") ||
		hasPrefix(name, "Proxy-", "X-Service-") || !canonical(name)
}

func hasPrefix(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// canonical reports whether a name consists of letters, digits and the other characters of RFC 9110, and has the
// capitals that the lists of this file expect.
func canonical(name string) bool {
	upper := true
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if letter && upper != (c <= 'Z') {
			return false
		}
		if !letter && c != '-' && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
		upper = c == '-'
	}
	return name != ""
}

// namedHop returns the names of the headers that the header Connection lists, or nil if it lists none that passes
// otherwise.
func namedHop(h httprelay.Header, held func(name string) bool) map[string]bool {
	var named map[string]bool
	for _, f := range h {
		if f.Name != "Connection" {
			continue
		}
		for name := range strings.SplitSeq(f.Value, ",") {
			name = strings.TrimSpace(name)
			if strings.EqualFold(name, "close") || strings.EqualFold(name, "keep-alive") {
				continue
			}
			if name = http.CanonicalHeaderKey(name); held(name) {
				continue
			}
			if named == nil {
				named = map[string]bool{}
			}
			named[name] = true
		}
	}
	return named
}

// withoutCredentials returns the values that do not contain a credential of this product. It returns the given slice if
// none does, and an empty one if all do.
func withoutCredentials(values []string) []string {
	if !slices.ContainsFunc(values, secret.Holds) {
		return values
	}
	return slices.DeleteFunc(slices.Clone(values), secret.Holds)
}
