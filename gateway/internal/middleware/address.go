package middleware

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the networks of the proxies whose X-Forwarded-For header is trusted.
type Proxies []netip.Prefix

// ParseProxies parses CIDRs and single addresses. It rejects 0.0.0.0/0, ::/0 and IPv4 networks in IPv6 notation.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for _, text := range list {
		if addr, err := netip.ParseAddr(text); err == nil {
			p = append(p, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("trusted proxy %q is not an IP address or a CIDR: %w", text, err)
		}
		switch {
		case prefix.Bits() == 0:
			// The leftmost entry of the header would then be trusted, although any client can set it.
			return nil, fmt.Errorf("%s is not allowed as a trusted proxy; list only the proxies' own addresses", text)
		case prefix.Addr().Is4In6():
			return nil, fmt.Errorf("trusted proxy %q is an IPv4 network in IPv6 notation; write it in IPv4 notation", text)
		}
		p = append(p, prefix.Masked())
	}
	return p, nil
}

func (p Proxies) trusted(addr netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// Client returns the address a request came from: the peer's or, if the peer is a trusted proxy, the
// rightmost address in X-Forwarded-For that is not a trusted proxy. If an entry is not an address, the proxy
// that sent it counts as the client. Client returns "" if the peer has no IP address.
func (p Proxies) Client(r *http.Request) string {
	addr, ok := parseAddr(r.RemoteAddr)
	if !ok {
		return ""
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trusted(addr); i-- {
		hop, ok := parseAddr(strings.TrimSpace(hops[i]))
		if !ok {
			break
		}
		addr = hop
	}
	return addr.String()
}

func parseAddr(s string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.Unmap().WithZone(""), true
}
