package oauth

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// loopback are the hosts of programs that listen on the machine of their person, on a port that they get
// only when they run.
func loopback(host string) bool { return host == "127.0.0.1" || host == "::1" || host == "localhost" }

// checkRedirect says why an address cannot be registered.
func checkRedirect(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("the redirect address is no URL")
	case u.User != nil || u.Opaque != "" || u.Hostname() == "" || strings.Contains(raw, "#"):
		return errors.New("a redirect address has a host and neither user nor fragment")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	default:
		return errors.New("a redirect address is https, or http on the loopback host")
	}
}

// redirects says whether the address is one of the registered ones: letter by letter, but for the port of a
// loopback address (RFC 8252 7.3).
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

// portless is a loopback address without its port; false for any other address.
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

// answered is a redirect address with the answer's fields, which come after those that it has.
func answered(redirect string, fields url.Values) string {
	u, err := url.Parse(redirect)
	if err != nil {
		return redirect // it was parsed when it was registered
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += fields.Encode()
	return u.String()
}
