package middleware

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Hosts are the host names that requests may use. The limitation prevents DNS rebinding: another site can make its own
// name resolve to this listener. The browser then treats the site's page as same-origin with the API, so
// CrossOriginProtection accepts it. But such a page can only use its own name. It cannot use an address, a local
// name without a dot (which cannot be registered), localhost, or a name of the installation.
type Hosts struct{ known map[string]bool }

// ParseHosts returns the host of the public URL, unless the URL is empty, and the further names.
func ParseHosts(publicURL string, further []string) (Hosts, error) {
	h := Hosts{known: map[string]bool{}}
	for _, name := range further {
		if name != hostname(name) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || name == "" {
			return Hosts{}, errors.New("a host must consist of lower-case letters, digits, hyphens and dots, without a scheme, port or trailing dot, like box.internal.example")
		}
		h.known[name] = true
	}
	if u, err := url.Parse(publicURL); err == nil && u.Host != "" {
		h.known[hostname(u.Host)] = true
	}
	return h, nil
}

// Check refuses a request for a host name that is not allowed.
func (h Hosts) Check(r *http.Request) *fault.Error {
	if h.Allows(r.Host) {
		return nil
	}
	return fault.New(fault.Forbidden, "host", "host name is not allowed; add it to SERVICE_GATEWAY_ALLOWED_HOSTS")
}

// Allows reports whether requests may use a host.
func (h Hosts) Allows(host string) bool {
	name := hostname(host)
	// A request without a host (HTTP/1.0) passes, because its name has no dot. Browsers always send a host.
	if !strings.Contains(name, ".") && !strings.Contains(name, ":") || strings.HasSuffix(name, ".localhost") || h.known[name] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// hostname returns the name in a Host header, normalized for comparison.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
