package agent

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	// stallAfter is the time without data from a server after which the connection counts as lost.
	stallAfter = time.Minute
	dialWithin = 30 * time.Second
	// keptConnections is the number of idle connections kept for each host. It is the number of downloads of small
	// files that a work starts at a time; the default of net/http is two.
	keptConnections = 64
)

// newHTTP returns the client for downloads, logs and the join request. A download that stalls fails, so that it is tried
// again.
func newHTTP(stall time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: dialWithin}
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, fmt.Errorf("connect to %s: %w", address, err)
			}
			return &paced{Conn: conn, stall: stall}, nil
		},
		ForceAttemptHTTP2: true, MaxIdleConns: 100, MaxIdleConnsPerHost: keptConnections, IdleConnTimeout: stall,
		TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}}
}

// paced is a connection that limits each wait for bytes. Its deadlines use the real clock, because package net compares
// deadlines with that clock.
type paced struct {
	net.Conn

	stall time.Duration
}

// Read implements net.Conn.
func (p *paced) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(clock.Real().Now().Add(p.stall)); err != nil {
		return 0, fmt.Errorf("set a deadline: %w", err)
	}
	return p.Conn.Read(b)
}
