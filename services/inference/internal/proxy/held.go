package proxy

import (
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// reason is why a header is held back; docs/reference/inference.md lists the headers by reason.
type reason string

// The reasons why a header is held back.
const (
	passes    reason = ""
	identity  reason = "a credential, or the identity of the caller"
	address   reason = "the address of the caller, or another address or method than that of the request"
	hop       reason = "belongs to one connection"
	own       reason = "the proxy writes its own"
	origin    reason = "the page that made the call"
	ambiguous reason = "engines may read the name as another one"
	policy    reason = "changes what a browser does with the other pages of this host"
	command   reason = "a command to a proxy or a shared cache"
)

// heldFromCaller returns why a header of a caller does not reach the engine. All other headers do.
//
// The names in this file are in the canonical form of package http.
func heldFromCaller(name string) reason {
	switch name {
	case "Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key":
		return identity
	case "Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Method-Override":
		return address
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect":
		return hop
	case "Host", "Content-Length", "X-Request-Id", "Traceparent", "Tracestate":
		return own
	case "Origin", "Referer", "Baggage":
		return origin
	}
	switch {
	case hasPrefix(name, "Proxy-", "X-Auth-", "X-Service-", "Grpc-"):
		return identity
	case hasPrefix(name, "X-Forwarded-", "X-Envoy-", "X-Original-", "X-Rewrite-", "X-Http-Method"):
		return address
	case hasPrefix(name, "Sec-Websocket-"):
		return own // socketHeader writes those of a handshake
	case strings.Contains(name, "_") || !canonical(name):
		return ambiguous
	}
	return passes
}

// heldFromEngine returns why a header of an engine does not reach the caller, whether it is in the head of a response, in
// that of a 1xx response or in a trailer. All other headers do. Location has a rule of its own: see redirect.
func heldFromEngine(name string) reason {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Set-Login", "Www-Authenticate":
		return identity
	case "Clear-Site-Data", "Service-Worker-Allowed", "Alt-Svc", "Strict-Transport-Security", "Permissions-Policy", "Referrer-Policy",
		"X-Frame-Options", "X-Content-Type-Options", "Timing-Allow-Origin", "Refresh", "Nel", "Report-To", "Reporting-Endpoints", "Accept-Ch",
		"Critical-Ch", "Sourcemap", "X-Sourcemap":
		return policy
	case "X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-Url", "Cdn-Cache-Control", "Expires", "Pragma":
		return command
	case "Content-Location":
		return address
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return hop
	case "X-Request-Id", "Cache-Control":
		return own
	}
	switch {
	case hasPrefix(name, "Content-Security-Policy", "Cross-Origin-", "Origin-", "Access-Control-", "Public-Key-Pins"):
		return policy
	case hasPrefix(name, "X-Accel-", "Surrogate-"):
		return command
	case hasPrefix(name, "Proxy-", "X-Service-"):
		return identity
	case !canonical(name):
		return ambiguous
	}
	return passes
}

func hasPrefix(name string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
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
func namedHop(h http.Header, held func(name string) reason) map[string]bool {
	var named map[string]bool
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.TrimSpace(name)
			if strings.EqualFold(name, "close") || strings.EqualFold(name, "keep-alive") {
				continue
			}
			if name = http.CanonicalHeaderKey(name); held(name) != passes {
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
// none does, and nil if all do.
func withoutCredentials(values []string) []string {
	for i, value := range values {
		if !secret.Holds(value) {
			continue
		}
		kept := append([]string(nil), values[:i]...)
		for _, value := range values[i+1:] {
			if !secret.Holds(value) {
				kept = append(kept, value)
			}
		}
		return kept
	}
	return values
}
