// Package reverseproxy forwards requests byte by byte to another Signalbox service: to ingest and inference when
// they run in their own processes.
//
// It promises:
//
//   - Bodies are never parsed. Only small bodies of known length are buffered.
//   - Every part of a response is forwarded to the client as soon as it arrives.
//   - A bearer token is forwarded without being read.
//   - Hop-by-hop headers are not forwarded.
//   - X-Forwarded-For contains the address that the gateway determined, not what the client sent.
//   - With Upstream.SendOnce, a request with a body is sent once. If any request fails after it was sent, the response has
//     X-Should-Retry: false.
//   - A request whose body is in memory is sent again, at most twice, if a replica refused it before it did anything, or if
//     nothing of it was sent. So is a GET or HEAD without a body, except a handshake of WebSocket, if the connection broke
//     before the response. A request that timed out is not. If the name of the service has several addresses, the request
//     goes to one that has not refused it.
//   - If the service does not complete a response, the connection to the client is closed before the response's end.
//   - If a response begins before the request body has ended, the client's connection is closed after the response.
//   - An upgrade to another protocol than WebSocket is ignored.
//   - An upgraded connection is passed through in both directions and ends when either side ends it.
package reverseproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	dialTimeout = 5 * time.Second
	// writeTimeout is how long a client may pause while it reads the response. Inference has the same limit by default, in
	// SERVICE_INFERENCE_IDLE_TIMEOUT.
	writeTimeout = 2 * time.Minute
	chunk        = 32 << 10
)

// Upstream is the service that requests are forwarded to.
type Upstream struct {
	// Service is the name of the service, for messages.
	Service string
	// Address is host:port of its HTTP listener.
	Address string
	// SendOnce is true if requests are calls to models. Those with a body, and handshakes of WebSocket, must not be executed
	// twice. A GET or HEAD without a body may be: HTTP defines that these methods change nothing.
	SendOnce bool
	// Resolver looks up the addresses of the service; nil means that of the system.
	Resolver *net.Resolver
	// TLS authenticates both sides; nil means plain HTTP, which only tests use.
	TLS *tls.Config
}

// Relay is an http.Handler that forwards requests to one upstream.
type Relay struct {
	up        Upstream
	scheme    string
	transport *http.Transport
	// fresh opens a connection for each request.
	fresh  *http.Transport
	log    *slog.Logger
	client func(*http.Request) string
	fail   func(http.ResponseWriter, *http.Request, error)
}

// New returns a relay. The function client returns the address that a request came from; fail writes an error response.
func New(up Upstream, log *slog.Logger, client func(*http.Request) string, fail func(http.ResponseWriter, *http.Request, error)) *Relay {
	r := &Relay{up: up, scheme: "http", log: log, client: client, fail: fail, transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Resolver: up.Resolver}).DialContext,
		TLSClientConfig:       up.TLS,
		TLSHandshakeTimeout:   dialTimeout,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		// HTTP/1.1 only: with one connection per request, a slow stream does not block others.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}}
	if up.TLS != nil {
		r.scheme = "https"
	}
	r.fresh = r.transport.Clone()
	r.fresh.DisableKeepAlives = true
	r.fresh.DialContext = r.elsewhere
	return r
}

// Close closes idle connections.
func (r *Relay) Close() { r.transport.CloseIdleConnections() }

// ServeHTTP implements http.Handler.
func (r *Relay) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	out, err := r.outgoing(w, in)
	if err != nil {
		r.fail(w, in, err)
		return
	}
	if r.up.SendOnce {
		withoutKeys(out)
	}
	informs := &informer{w: w}
	resp, sent, err := r.roundTrip(out, informs)
	informs.end()
	if body, ok := out.Body.(*flowing); ok {
		if !body.ended.Load() {
			w.Header().Set("Connection", "close") // after an unread body, net/http cannot read another request (golang/go#68560)
		}
		defer body.release(http.NewResponseController(w))
	}
	if err != nil {
		sent.mark(w.Header())
		r.refused(w, in, err)
		return
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		r.tunnel(w, in, resp)
		return
	}
	defer func() { _ = resp.Body.Close() }() // the body has been read to its end or is no longer needed
	oneHop(resp.Header)
	resp.Header.Del(fault.HeaderRefused)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	if err := copyOut(w, resp); err != nil {
		// The status has been sent; only a broken connection can signal the failure.
		panic(http.ErrAbortHandler)
	}
}

// refused writes the error response of a failed round trip: the gateway's reason for ending the request, a fault of the
// client, or the message that the service is not available.
func (r *Relay) refused(w http.ResponseWriter, in *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	var cut *cutError
	switch {
	case in.Context().Err() != nil:
		r.fail(w, in, fault.From(context.Cause(in.Context()))) // the gateway's reason if it ended the call
	case errors.As(err, &tooLarge):
		r.fail(w, in, fault.New(fault.TooLarge, "", "the request body is larger than %d bytes", tooLarge.Limit))
	case errors.As(err, &cut):
		r.fail(w, in, fault.New(fault.Refused, "body_cut", "the request body ended before it was complete").Wrap(err))
	default:
		r.log.WarnContext(in.Context(), "service cannot be reached", slog.String("to", r.up.Service), slog.Any("error", err))
		r.fail(w, in, fault.New(fault.Unavailable, "", "%s is not available", r.up.Service).Wrap(err))
	}
}

// outgoing returns the request to send to the service.
func (r *Relay) outgoing(w http.ResponseWriter, in *http.Request) (*http.Request, error) {
	out := in.Clone(in.Context())
	out.RequestURI = ""
	out.URL = &url.URL{
		Scheme: r.scheme, Host: r.up.Address, Path: in.URL.Path, RawPath: enginepath.Sent(in.URL), RawQuery: in.URL.RawQuery, ForceQuery: in.URL.ForceQuery,
	}
	out.Close = false
	oneHop(out.Header)
	if wanted := in.Header.Values("Upgrade"); namesWebSocket(wanted) {
		// The service refuses a malformed handshake. Offers of other protocols are ignored, as RFC 9110 allows.
		out.Header.Set("Connection", "Upgrade")
		out.Header["Upgrade"] = wanted
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Cookie"} {
		out.Header.Del(name)
	}
	out.Header.Set("X-Forwarded-For", r.client(in))
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // otherwise the transport sends its own
	}
	return out, body(w, in, out, r.up.late())
}

// copyOut copies the response body in chunks. A body of unknown length is flushed after every chunk.
func copyOut(w http.ResponseWriter, resp *http.Response) error {
	ctl := http.NewResponseController(w)
	if resp.ContentLength < 0 {
		_ = ctl.Flush() // send the header now, because the body may come late; if this fails, the next write does too
	}
	buf := make([]byte, chunk)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			_ = ctl.SetWriteDeadline(clock.Real().Now().Add(writeTimeout)) // connection deadlines use the real clock
			if _, err := w.Write(buf[:n]); err != nil {
				return fmt.Errorf("write response: %w", err)
			}
			if resp.ContentLength < 0 {
				_ = ctl.Flush()
			}
			_ = ctl.SetWriteDeadline(time.Time{}) // HTTP/2 would end the stream in the service's next pause
		}
		switch {
		case errors.Is(err, io.EOF):
			for name, values := range resp.Trailer {
				w.Header()[http.TrailerPrefix+name] = values
			}
			return nil
		case err != nil:
			return fmt.Errorf("read response: %w", err)
		}
	}
}

// oneHop removes the hop-by-hop headers.
func oneHop(h http.Header) {
	for _, value := range h.Values("Connection") {
		for name := range strings.SplitSeq(value, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
	} {
		h.Del(name)
	}
}
