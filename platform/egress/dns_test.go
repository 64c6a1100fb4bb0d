package egress_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// nameserver responds to queries for IPv4 addresses with each of its addresses in turn, like the server of a DNS
// rebinding attack.
type nameserver struct {
	*net.Resolver

	queries atomic.Int64
}

func newNameserver(t *testing.T, answers ...string) *nameserver {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &nameserver{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.serve(conn, answers)
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	n.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	return n
}

func (n *nameserver) serve(conn net.PacketConn, answers []string) {
	buf := make([]byte, 1500)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = conn.WriteTo(n.respond(buf[:size], answers), from)
	}
}

// respond returns a response with one A record with TTL 0. Queries of other types get a response without records.
func (n *nameserver) respond(query []byte, answers []string) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5
	out := append([]byte(nil), query[:end]...)
	binary.BigEndian.PutUint16(out[2:], 0x8180)
	binary.BigEndian.PutUint16(out[6:], 0)
	clear(out[8:12])
	if binary.BigEndian.Uint16(query[end-4:]) != 1 {
		return out
	}
	at := netip.MustParseAddr(answers[int(n.queries.Add(1)-1)%len(answers)]).As4()
	binary.BigEndian.PutUint16(out[6:], 1)
	out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(out, at[:]...)
}
