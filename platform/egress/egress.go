// Package egress owns the one HTTP client that calls addresses which people configure: an OpenID provider's
// issuer, a webhook, an engine. Such an address may be chosen to make this process call what only it can reach.
//
// It promises:
//   - the address is checked when it is dialed, after its name was resolved, so that a name that answers
//     differently the second time gains nothing;
//   - only public addresses are called, and beside them only the networks of SERVICE_EGRESS_ALLOW, loopback
//     included; link-local networks and the addresses of cloud metadata are never called;
//   - plain http only goes to those networks;
//   - no redirect leaves the origin; no proxy is taken from the environment, because a proxy would resolve
//     and dial by itself;
//   - the answer's body, its header and its time are capped, and no compression is undone.
//
// A host is written plainly: ASCII, no user information, and digits only as a whole address of the usual form.
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

// ErrRefused is what a call that this package does not let out ends with.
var ErrRefused = errors.New("the address may not be called")

// ErrTooLarge is what reading an answer ends with that is over the cap.
var ErrTooLarge = errors.New("the answer is too large")

// The caps where Options name none.
const (
	DefaultBody    = 1 << 20
	DefaultHeader  = 64 << 10
	DefaultTimeout = 10 * time.Second
)

// maxRedirects is how often a call may be sent on within its origin.
const maxRedirects = 3

// Options are what a client is made of. The zero value calls public addresses only.
type Options struct {
	// Networks are what may be called beside public addresses.
	Networks Networks
	// Body and Header cap the answer in bytes, Timeout the whole call. Dial caps what comes before the request
	// is sent, the way to the address and the TLS handshake each; it is Timeout where zero.
	Body    int64
	Header  int64
	Timeout time.Duration
	Dial    time.Duration
	// Resolver is the machine's where nil.
	Resolver *net.Resolver
}

// New makes a client. It may be used at once by many.
func New(o Options) *http.Client {
	o.Body, o.Header = cmp.Or(o.Body, DefaultBody), cmp.Or(o.Header, DefaultHeader)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Dial = cmp.Or(o.Dial, o.Timeout)
	return &http.Client{
		Transport: &door{
			body:  o.Body,
			https: o.transport(o.Networks.open),
			http:  o.transport(o.Networks.allowed),
		},
		CheckRedirect: withinOrigin,
		Timeout:       o.Timeout,
	}
}

// transport dials what check lets through.
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

// withinOrigin lets a redirect go on within the scheme, host and port of the first request.
func withinOrigin(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return fmt.Errorf("%w: a redirect leaves %s", ErrRefused, first.Host)
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", ErrRefused, maxRedirects)
	}
	return nil
}

// door checks each request's address before it is resolved and caps what comes back.
type door struct {
	body        int64
	https, http http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := d.through(r.URL)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must; nothing was read
		}
		return nil, err
	}
	answer, err := out.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.ContentLength > d.body {
		_ = answer.Body.Close() // nobody reads it
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, answer.ContentLength, d.body)
	}
	answer.Body = &capped{ReadCloser: answer.Body, left: d.body}
	return answer, nil
}

// through picks the transport of a well-written address.
func (d *door) through(u *url.URL) (http.RoundTripper, error) {
	if err := CheckURL(u); err != nil {
		return nil, err
	}
	if u.Scheme == "http" {
		return d.http, nil
	}
	return d.https, nil
}
