// Package ratelimit counts login attempts by client address in Postgres, so that all replicas share one
// count without a cache store. Every attempt counts, for any account and with any result.
package ratelimit

import (
	"net/netip"
	"time"
)

// The limits of the specification: attempts beyond Attempts within Window are refused.
const (
	Attempts = 10
	Window   = time.Minute
)

// Key returns the key by which attempts are counted: an IPv4 address, or the /64 of an IPv6 address, because one
// client controls all addresses in it. For anything else it returns "unknown".
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
