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

// Config are the settings of all outbound calls to configured addresses.
type Config struct {
	Allow []string `env:"SERVICE_EGRESS_ALLOW" doc:"private networks that configured addresses (an OpenID provider's) may lie in, as CIDRs or addresses separated by commas, loopback included; plain http only goes there; none by default"`
	CA    string   `env:"SERVICE_EGRESS_CA" doc:"PEM file with the authorities that configured addresses are trusted by, in place of the machine's"`
}

// Validate names every setting that cannot be used.
func (c *Config) Validate() error {
	_, err := c.Networks()
	return err
}

// Networks reads the settings. The error is a conf.SettingError.
func (c *Config) Networks() (Networks, error) {
	allow := make([]netip.Prefix, 0, len(c.Allow))
	for _, text := range c.Allow {
		prefix, err := parseNetwork(text)
		if err != nil {
			return Networks{}, conf.Faultf("SERVICE_EGRESS_ALLOW", "%v", err)
		}
		allow = append(allow, prefix)
	}
	n := NewNetworks(allow...)
	if c.CA == "" {
		return n, nil
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return Networks{}, conf.Faultf("SERVICE_EGRESS_CA", "%v", err)
	}
	n.roots = x509.NewCertPool()
	if !n.roots.AppendCertsFromPEM(pem) {
		return Networks{}, conf.Faultf("SERVICE_EGRESS_CA", "%s holds no certificate", c.CA)
	}
	return n, nil
}

// The widest networks that may be allowed: 10.0.0.0/8 and fc00::/7. Wider ones are a mistake or no guard.
const (
	minBits4 = 8
	minBits6 = 7
)

func parseNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		addr, aerr := netip.ParseAddr(text)
		if aerr != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is neither a network (10.0.0.0/8) nor an address", text)
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	switch {
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 network in IPv6 form: write it as IPv4", text)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%q has bits set outside of the network: want %s", text, p.Masked())
	case p.Addr().Is4() && p.Bits() < minBits4, p.Addr().Is6() && p.Bits() < minBits6:
		return netip.Prefix{}, fmt.Errorf("%q is too wide: at least /%d for IPv4 and /%d for IPv6", text, minBits4, minBits6)
	case slices.ContainsFunc(never(), p.Overlaps) && p.IsSingleIP(), slices.ContainsFunc(linkLocal(), p.Overlaps):
		return netip.Prefix{}, fmt.Errorf("%q is link-local or serves metadata, which is never called", text)
	}
	return p, nil
}

// Networks decide which addresses may be called. The zero value lets only public ones through.
type Networks struct {
	list  []netip.Prefix
	roots *x509.CertPool
}

// NewNetworks allows the networks beside the public addresses.
func NewNetworks(allow ...netip.Prefix) Networks { return Networks{list: allow} }

// WithRoots answers a copy that trusts other authorities than the machine's.
func (n Networks) WithRoots(roots *x509.CertPool) Networks {
	n.roots = roots
	return n
}

// allowed is the check of plain http: the networks that were named, and nothing else.
func (n Networks) allowed(a netip.Addr) error {
	a = a.Unmap() // an IPv4 address in IPv6 form is the IPv4 one
	if err := harmless(a); err != nil {
		return err
	}
	if !slices.ContainsFunc(n.list, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return fmt.Errorf("%w: plain http to %s, which is in no network of SERVICE_EGRESS_ALLOW", ErrRefused, a)
	}
	return nil
}

// open is the check of https: public addresses too.
func (n Networks) open(a netip.Addr) error {
	if n.allowed(a) == nil {
		return nil
	}
	a = a.Unmap()
	if err := harmless(a); err != nil {
		return err
	}
	if !public(a) {
		return fmt.Errorf("%w: %s is neither public nor in a network of SERVICE_EGRESS_ALLOW", ErrRefused, a)
	}
	return nil
}

func public(a netip.Addr) bool { return ssrf.New(ssrf.WithAnyPort()).SafeAddr(a) == nil }

// harmless refuses what is never called, whoever allowed its network. An address of NAT64 is also what it
// leads to, which must be public.
func harmless(a netip.Addr) error {
	if a.Zone() != "" || metadata(a) {
		return fmt.Errorf("%w: %s is link-local or serves metadata", ErrRefused, a)
	}
	if !ssrf.IPv6NAT64Prefix.Contains(a) {
		return nil
	}
	b := a.As16()
	if to := netip.AddrFrom4([4]byte(b[12:])); metadata(to) || !public(to) {
		return fmt.Errorf("%w: %s leads to %s", ErrRefused, a, to)
	}
	return nil
}

func metadata(a netip.Addr) bool {
	return slices.ContainsFunc(append(never(), linkLocal()...), func(p netip.Prefix) bool { return p.Contains(a) })
}

// linkLocal are the networks that no router carries: what lies there trusts whoever is near.
func linkLocal() []netip.Prefix {
	return prefixes("169.254.0.0/16", "fe80::/10")
}

// never are the addresses at which clouds hand out credentials, also where they lie in private or public
// networks: AWS, Alibaba, Oracle and Azure.
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
