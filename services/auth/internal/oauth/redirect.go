package oauth

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// loopback reports whether a host is the user's own machine. The port on which a program there receives codes is chosen
// when the program starts, so it cannot be registered.
func loopback(host string) bool { return host == "127.0.0.1" || host == "::1" || host == "localhost" }

// checkRedirect returns an error if an address may not be registered as a redirect address.
func checkRedirect(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("the redirect address is not a URL")
	case u.User != nil || u.Opaque != "" || u.Hostname() == "" || strings.Contains(raw, "#"):
		return errors.New("the redirect address must have a host and must not have a user or a fragment")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	default:
		return errors.New("the redirect address must be https, or http on a loopback host")
	}
}

// redirects reports whether an address is registered. The port of a loopback address may differ (RFC 8252 7.3).
func redirects(registered []string, given string) bool {
	if slices.Contains(registered, given) {
		return true
	}
	bare, ok := portless(given)
	return ok && slices.ContainsFunc(registered, func(r string) bool {
		other, ok := portless(r)
		return ok && other == bare
	})
}

// portless returns a loopback http address without its port. It returns false for any other address.
func portless(raw string) (string, bool) {
	const scheme = "http://"
	u, err := url.Parse(raw)
	if err != nil || checkRedirect(raw) != nil || u.Scheme != "http" || strings.HasSuffix(u.Host, ":") {
		return "", false
	}
	rest, ok := strings.CutPrefix(raw, scheme+u.Host)
	if !ok {
		return "", false
	}
	return scheme + strings.TrimSuffix(u.Host, ":"+u.Port()) + rest, true
}

// withFields returns a redirect address with the given fields added at the end of its query.
func withFields(redirect string, fields url.Values) string {
	u, err := url.Parse(redirect)
	if err != nil {
		return redirect // not reached: the address was parsed when it was registered
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += fields.Encode()
	return u.String()
}
