package edge

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Hosts are what requests may be addressed to. A page can make its own name resolve to this listener, and is
// then, to its browser, of the same origin as the API, so CrossOriginProtection lets it pass. What it cannot
// do is be addressed by a name that is not its own: an address, a name of the local network without a dot
// (which nobody can register), localhost, or a name that the installation is known by.
type Hosts struct{ known map[string]bool }

// ParseHosts knows the public URL's host, where there is a URL, and the further names.
func ParseHosts(publicURL string, further []string) (Hosts, error) {
	h := Hosts{known: map[string]bool{}}
	for _, name := range further {
		if name != hostname(name) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || name == "" {
			return Hosts{}, errors.New("a host is a name in lower case without scheme, port and trailing dot, like box.internal.example")
		}
		h.known[name] = true
	}
	if u, err := url.Parse(publicURL); err == nil && u.Host != "" {
		h.known[hostname(u.Host)] = true
	}
	return h, nil
}

// Check refuses a request that is addressed to somebody else.
func (h Hosts) Check(r *http.Request) *fault.Error {
	name := hostname(r.Host)
	_, err := netip.ParseAddr(name)
	// Clients of HTTP/1.0 name no host; no browser is one.
	if err == nil || !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") || h.known[name] {
		return nil
	}
	return fault.New(fault.Forbidden, "host", "This installation is not known by the host of the request; SERVICE_PUBLIC_URL and SERVICE_GATEWAY_ALLOWED_HOSTS say its names")
}

// hostname is the name in a Host header, as it is compared.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
