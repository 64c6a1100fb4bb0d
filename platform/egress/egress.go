// Package egress owns the HTTP client for addresses that users configure, such as an OpenID provider's issuer, a
// webhook or an engine. It protects against server-side request forgery, in which a user configures an address that
// only this process can reach.
//
// It promises:
//   - the address is checked when it is dialed, after name resolution, so that DNS rebinding has no effect;
//   - only public addresses and the networks in SERVICE_EGRESS_ALLOW are called. Loopback addresses are not public.
//     Link-local networks and cloud metadata addresses are never called;
//   - plain http is only used for the networks in SERVICE_EGRESS_ALLOW;
//   - redirects stay within the origin, and proxy settings in the environment are ignored, because a proxy would
//     resolve and dial by itself;
//   - the size of the response's body and header and the duration of the call are limited, and responses are not
//     decompressed.
//
// URLs must not contain user information. A host must be an ASCII name or an IP address in its usual, complete form.
package egress

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// ErrRefused is the error for a call that this package does not allow.
var ErrRefused = errors.New("the address is not allowed")

// ErrTooLarge is the error for a response that exceeds the limit.
var ErrTooLarge = errors.New("the response is too large")

// Default limits.
const (
	DefaultBody    = 1 << 20
	DefaultHeader  = 64 << 10
	DefaultTimeout = 10 * time.Second
)

// maxRedirects is the maximum number of redirects within the origin.
const maxRedirects = 3

// Options configures a client. The zero value allows public addresses only.
type Options struct {
	// Networks may be called in addition to public addresses.
	Networks Networks
	// Body and Header limit the response in bytes. Timeout limits the duration of the whole call. Dial limits the
	// duration of connecting and, separately, of the TLS handshake. It defaults to Timeout.
	Body    int64
	Header  int64
	Timeout time.Duration
	Dial    time.Duration
	// Resolver defaults to the system's resolver.
	Resolver *net.Resolver
}

// New returns a client. It is safe for concurrent use.
func New(o Options) *http.Client {
	o.Body, o.Header = cmp.Or(o.Body, DefaultBody), cmp.Or(o.Header, DefaultHeader)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Dial = cmp.Or(o.Dial, o.Timeout)
	return &http.Client{
		Transport: &guard{
			body:  o.Body,
			https: o.transport(o.Networks.open),
			http:  o.transport(o.Networks.allowed),
		},
		CheckRedirect: withinOrigin,
		Timeout:       o.Timeout,
	}
}

// transport returns a transport that connects only to addresses for which the function check returns nil.
func (o Options) transport(check func(netip.Addr) error) *http.Transport {
	dialer := &net.Dialer{Timeout: o.Dial, Resolver: o.Resolver, Control: control(check)}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Networks.roots},
		TLSHandshakeTimeout:    o.Dial,
		ResponseHeaderTimeout:  o.Timeout,
		MaxResponseHeaderBytes: o.Header,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second,
	}
}

// withinOrigin allows redirects only within the scheme, host and port of the first request.
func withinOrigin(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return fmt.Errorf("%w: redirect to a different origin than %s", ErrRefused, first.Host)
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", ErrRefused, maxRedirects)
	}
	return nil
}

// guard is a transport that checks each request's URL and limits the response body.
type guard struct {
	body        int64
	https, http http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (d *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := d.through(r.URL)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must always close the body
		}
		return nil, err
	}
	resp, err := out.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > d.body {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, resp.ContentLength, d.body)
	}
	resp.Body = &capped{ReadCloser: resp.Body, left: d.body}
	return resp, nil
}

// through checks a URL and returns the transport for its scheme, which checks the address.
func (d *guard) through(u *url.URL) (http.RoundTripper, error) {
	if err := CheckURL(u); err != nil {
		return nil, err
	}
	if u.Scheme == "http" {
		return d.http, nil
	}
	return d.https, nil
}
