// Package limit counts login attempts by client address in Postgres, so that all replicas share one
// count and none needs a cache store. Every attempt counts, whoever it is for and however it ends.
package limit

import (
	"net/netip"
	"time"
)

// The specification's figures: the attempt past Attempts within Window is refused.
const (
	Attempts = 10
	Window   = time.Minute
)

// Key is what attempts are counted by: the address, and of an IPv6 address its /64, because one
// client commands all of those.
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
