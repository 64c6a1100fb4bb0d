package reverseproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// repeats is how often a request is sent again.
	repeats = 2
	// refusalBody is how much of the body of a refusal is read, so that its connection ends cleanly.
	refusalBody = 64 << 10
)

// roundTrip sends a request. It sends it again at once, on a new connection and if possible to another address, if that
// cannot repeat an effect: see again. The result sent describes the last attempt.
func (r *Relay) roundTrip(out *http.Request, informs *informer) (resp *http.Response, sent *sentOnce, err error) {
	var refused []string
	ctx, through := out.Context(), r.transport
	if upgrades(out) {
		through = r.fresh // net/http sends a GET again if a kept connection breaks
	}
	for n := 0; ; n++ {
		sent = &sentOnce{}
		resp, err = through.RoundTrip(informs.watch(out.WithContext(sent.trace(ctx))))
		if n == repeats || !again(out, resp, sent, err) {
			return resp, sent, err
		}
		if resp != nil {
			_, _ = io.CopyN(io.Discard, resp.Body, refusalBody) // the response is not used
			_ = resp.Body.Close()
		}
		if out.GetBody != nil {
			if out.Body, err = out.GetBody(); err != nil {
				return nil, sent, fmt.Errorf("read the request body again: %w", err)
			}
		}
		if peer := sent.peer.Load(); peer != nil {
			refused = append(refused, *peer)
		}
		ctx, through = context.WithValue(ctx, refusedKey{}, slices.Clone(refused)), r.fresh
	}
}

// again reports whether a request may be sent again: if the replica stated that it refused it before it did anything, if no
// part of it was sent, or if no part of the response arrived and the request changes nothing. A handshake of WebSocket may
// change something, as an engine may begin a session. Attempts that timed out are not repeated, because the client has
// waited long enough.
func again(out *http.Request, resp *http.Response, sent *sentOnce, err error) bool {
	var network net.Error
	switch {
	case out.Context().Err() != nil, out.Body != nil && out.GetBody == nil:
		return false
	case err == nil:
		return resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get(fault.HeaderRefused) != ""
	case errors.As(err, &network) && network.Timeout():
		return false
	case !sent.begun.Load():
		return true
	}
	return !sent.heard.Load() && out.Body == nil && !upgrades(out) && (out.Method == http.MethodGet || out.Method == http.MethodHead)
}

// upgrades reports whether a request offers another protocol.
func upgrades(out *http.Request) bool { return len(out.Header["Upgrade"]) > 0 }

// refusedKey is the key of the addresses that have refused a request.
type refusedKey struct{}

// elsewhere opens a connection to one of the addresses of a host. Those that have refused the request come last. If a host
// has one address for all replicas, what is behind the address selects the replica.
func (r *Relay) elsewhere(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	within, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := r.up.Resolver.LookupHost(within, host)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	refused, _ := ctx.Value(refusedKey{}).([]string)
	for i := range found {
		found[i] = net.JoinHostPort(found[i], port)
	}
	var conn net.Conn
	for _, to := range lastOf(found, refused) {
		dialer := net.Dialer{Timeout: dialTimeout / 2, KeepAlive: 30 * time.Second}
		if conn, err = dialer.DialContext(within, network, to); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("dial %s: %w", address, err)
}

// lastOf returns the addresses with those that have refused a request at the end.
func lastOf(all, refused []string) []string {
	var first, last []string
	for _, address := range all {
		if slices.Contains(refused, address) {
			last = append(last, address)
		} else {
			first = append(first, address)
		}
	}
	return append(first, last...)
}
