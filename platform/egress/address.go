package egress

import (
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// CheckURL refuses an address that is not written plainly; whether its host may be called is decided when it
// is dialed.
func CheckURL(u *url.URL) error {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%w: its scheme is %q, want https", ErrRefused, u.Scheme)
	case u.User != nil:
		return fmt.Errorf("%w: it carries a user", ErrRefused)
	case u.Opaque != "":
		return fmt.Errorf("%w: it has no host", ErrRefused)
	}
	return checkHost(u.Hostname())
}

// checkHost wants a name of ASCII letters, digits, hyphens, underscores and dots, or a whole IP address. What
// ends in a number and is none (127.1, 0x7f.1, 2130706433) is read as an address by some resolvers.
func checkHost(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return fmt.Errorf("%w: its address has a zone", ErrRefused)
		}
		return nil
	}
	for _, c := range []byte(host) {
		if !letterOrDigit(c) && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%w: the host %q is not plain", ErrRefused, host)
		}
	}
	last := strings.TrimSuffix(host, ".")
	if at := strings.LastIndexByte(last, '.'); at >= 0 {
		last = last[at+1:]
	}
	if last == "" || isNumber(last) {
		return fmt.Errorf("%w: the host %q is neither a name nor a whole address", ErrRefused, host)
	}
	return nil
}

func letterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isNumber says whether a label is a number in one of the spellings of inet_aton.
func isNumber(label string) bool {
	label = strings.ToLower(label)
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// control is a dialer's hook: it sees the very address that is about to be connected to.
func control(check func(netip.Addr) error) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		if network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("%w: by %s", ErrRefused, network)
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %s is no address", ErrRefused, address)
		}
		return check(at.Addr())
	}
}

// capped fails a read past its last byte.
type capped struct {
	io.ReadCloser

	left int64
}

// Read implements io.Reader.
func (c *capped) Read(p []byte) (int, error) {
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.ReadCloser.Read(p)
	if int64(n) > c.left {
		n, c.left = int(c.left), 0
		return n, ErrTooLarge
	}
	c.left -= int64(n)
	return n, err
}
