package egress

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"code.dny.dev/ssrf"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// Config holds the settings for outbound calls to configured addresses.
type Config struct {
	Allow []string `env:"SERVICE_EGRESS_ALLOW" doc:"comma-separated CIDRs or IP addresses of the private or loopback networks that may be called, for example for an OpenID provider; plain HTTP is allowed only to these networks; empty by default"`
	CA    string   `env:"SERVICE_EGRESS_CA" doc:"PEM file with the CAs to trust for configured addresses, instead of the system's CAs"`
}

// Validate is called by conf.Load.
func (c *Config) Validate() error {
	_, err := c.Networks()
	return err
}

// Networks parses the settings. The error is a conf.SettingError.
func (c *Config) Networks() (Networks, error) {
	allow := make([]netip.Prefix, 0, len(c.Allow))
	for _, text := range c.Allow {
		prefix, err := parseNetwork(text)
		if err != nil {
			return Networks{}, conf.Errorf("SERVICE_EGRESS_ALLOW", "%v", err)
		}
		allow = append(allow, prefix)
	}
	n := NewNetworks(allow...)
	if c.CA == "" {
		return n, nil
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return Networks{}, conf.Errorf("SERVICE_EGRESS_CA", "%v", err)
	}
	n.roots = x509.NewCertPool()
	if !n.roots.AppendCertsFromPEM(pem) {
		return Networks{}, conf.Errorf("SERVICE_EGRESS_CA", "%s contains no certificate", c.CA)
	}
	return n, nil
}

// The minimum prefix lengths of an allowed network, so that 10.0.0.0/8 and fc00::/7 are accepted. A larger network
// would be a mistake or defeat the protection.
const (
	minBits4 = 8
	minBits6 = 7
)

func parseNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		addr, aerr := netip.ParseAddr(text)
		if aerr != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is neither a network such as 10.0.0.0/8 nor an IP address", text)
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	switch {
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 network in IPv6 form; write it as IPv4", text)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%q has host bits set; use %s", text, p.Masked())
	case p.Addr().Is4() && p.Bits() < minBits4, p.Addr().Is6() && p.Bits() < minBits6:
		return netip.Prefix{}, fmt.Errorf("%q is too wide; use at least /%d for IPv4 or /%d for IPv6", text, minBits4, minBits6)
	case slices.ContainsFunc(never(), p.Overlaps) && p.IsSingleIP(), slices.ContainsFunc(linkLocal(), p.Overlaps):
		return netip.Prefix{}, fmt.Errorf("%q is link-local or a cloud metadata address, which is never allowed", text)
	}
	return p, nil
}

// Networks decides which addresses may be called. The zero value allows only public addresses.
type Networks struct {
	list  []netip.Prefix
	roots *x509.CertPool
}

// NewNetworks returns Networks that allow the given networks in addition to public addresses.
func NewNetworks(allow ...netip.Prefix) Networks { return Networks{list: allow} }

// WithRoots returns a copy that trusts these CAs instead of the system's.
func (n Networks) WithRoots(roots *x509.CertPool) Networks {
	n.roots = roots
	return n
}

// allowed is the check for plain http. It returns an error unless the address is in an allowed network.
func (n Networks) allowed(a netip.Addr) error {
	a = a.Unmap() // treat an IPv4-mapped IPv6 address as IPv4
	if err := harmless(a); err != nil {
		return err
	}
	if !slices.ContainsFunc(n.list, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return fmt.Errorf("%w: %s is not in SERVICE_EGRESS_ALLOW, which plain http requires", ErrRefused, a)
	}
	return nil
}

// open is the check for https. It returns an error unless the address is public or in an allowed network.
func (n Networks) open(a netip.Addr) error {
	if n.allowed(a) == nil {
		return nil
	}
	a = a.Unmap()
	if err := harmless(a); err != nil {
		return err
	}
	if !public(a) {
		return fmt.Errorf("%w: %s is neither public nor in SERVICE_EGRESS_ALLOW", ErrRefused, a)
	}
	return nil
}

func public(a netip.Addr) bool { return ssrf.New(ssrf.WithAnyPort()).SafeAddr(a) == nil }

// harmless returns an error for an address that must never be called, even if its network is allowed: a link-local or
// cloud metadata address, or a NAT64 address whose embedded IPv4 address is not public.
func harmless(a netip.Addr) error {
	if a.Zone() != "" || metadata(a) {
		return fmt.Errorf("%w: %s is link-local or a cloud metadata address", ErrRefused, a)
	}
	if !ssrf.IPv6NAT64Prefix.Contains(a) {
		return nil
	}
	b := a.As16()
	if to := netip.AddrFrom4([4]byte(b[12:])); metadata(to) || !public(to) {
		return fmt.Errorf("%w: %s translates to %s, which is not public", ErrRefused, a, to)
	}
	return nil
}

func metadata(a netip.Addr) bool {
	return slices.ContainsFunc(append(never(), linkLocal()...), func(p netip.Prefix) bool { return p.Contains(a) })
}

// linkLocal returns the link-local networks. They are not routed, so services there often trust all callers.
func linkLocal() []netip.Prefix {
	return prefixes("169.254.0.0/16", "fe80::/10")
}

// never returns the addresses at which clouds (AWS, Alibaba, Oracle and Azure) serve credentials. Some of these
// addresses are private and some are public.
func never() []netip.Prefix {
	return prefixes("fd00:ec2::254/128", "fd00:ec2::23/128", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32")
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, text := range list {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}
