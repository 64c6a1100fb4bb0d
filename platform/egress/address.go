package egress

import (
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// CheckURL rejects URLs with an unsupported scheme, user information or a host in an unusual notation. Whether the
// host may be called is checked later, when it is dialed.
func CheckURL(u *url.URL) error {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%w: unsupported scheme %q; use https", ErrRefused, u.Scheme)
	case u.User != nil:
		return fmt.Errorf("%w: the URL contains user information", ErrRefused)
	case u.Opaque != "":
		return fmt.Errorf("%w: the URL has no host", ErrRefused)
	}
	return checkHost(u.Hostname())
}

// checkHost accepts names of ASCII letters, digits, hyphens, underscores and dots, and complete IP addresses. It
// rejects other hosts whose last label is a number (127.1, 0x7f.1, 2130706433), because some resolvers parse them as
// addresses.
func checkHost(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return fmt.Errorf("%w: the IP address has a zone", ErrRefused)
		}
		return nil
	}
	for _, c := range []byte(host) {
		if !letterOrDigit(c) && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%w: the host %q contains invalid characters", ErrRefused, host)
		}
	}
	last := strings.TrimSuffix(host, ".")
	if at := strings.LastIndexByte(last, '.'); at >= 0 {
		last = last[at+1:]
	}
	if last == "" || isNumber(last) {
		return fmt.Errorf("%w: the host %q is neither a host name nor a complete IP address", ErrRefused, host)
	}
	return nil
}

func letterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isNumber reports whether a label is a number in a form that inet_aton accepts.
func isNumber(label string) bool {
	label = strings.ToLower(label)
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// control returns a net.Dialer.Control function that applies the function check to the resolved address before
// connecting.
func control(check func(netip.Addr) error) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		if network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("%w: network %s is not TCP", ErrRefused, network)
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %s is not an IP address", ErrRefused, address)
		}
		return check(at.Addr())
	}
}

// capped is a response body that returns ErrTooLarge if it has more bytes than the field left allows.
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
