package edge

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the networks whose word on the client's address counts.
type Proxies []netip.Prefix

// ParseProxies reads CIDRs; a bare address is a network of one.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for _, text := range list {
		if addr, err := netip.ParseAddr(text); err == nil {
			p = append(p, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("trusted proxy %q: %w", text, err)
		}
		switch {
		case prefix.Bits() == 0:
			// Then the left end of the header would count, which anybody writes.
			return nil, fmt.Errorf("trusted proxy %q: everybody is no proxy", text)
		case prefix.Addr().Is4In6():
			return nil, fmt.Errorf("trusted proxy %q: an IPv4 network is written as IPv4", text)
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

// Client is the address a request came from: the peer's, or, where the peer is a trusted proxy, the
// first one from the right of X-Forwarded-For that is not. A proxy that says nothing readable is
// itself the client. It is empty where the peer has no IP address.
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
