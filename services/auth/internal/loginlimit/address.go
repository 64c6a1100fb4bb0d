// Package loginlimit counts login attempts by client address in Postgres, so that all replicas share one count and no
// cache service is needed. Every attempt counts, for any account and with any result, unless the limit refuses it.
package loginlimit

import (
	"net/netip"
	"time"
)

// At most Attempts login attempts per client address are allowed within Window (docs/specification.md).
const (
	Attempts = 10
	Window   = time.Minute
)

// Key returns the key by which attempts are counted: an IPv4 address, or the /64 network of an IPv6 address, because
// one client controls all addresses in it. If the argument is not an IP address, Key returns "unknown".
func Key(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown"
	}
	a = a.Unmap()
	if a.Is4() {
		return a.String()
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return "unknown"
	}
	return p.String()
}
