package socket

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// TestMain lets all tests run at once, because each spends about two seconds waiting for a session to close its
// connections.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience is the maximum time of every wait in these tests. A test that passes takes less.
const patience = time.Minute

// connPair returns both ends of a TCP connection.
func connPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	far, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	near, err = l.Accept()
	require.NoError(t, err)
	for _, c := range []net.Conn{near, far} {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		t.Cleanup(func() { _ = c.Close() })
	}
	return near, far
}

// harness is a session with the far ends of its connections.
type harness struct {
	t              *testing.T
	session        *Session
	caller, engine net.Conn
	hear, listen   *bufio.Reader // read what the caller and the engine receive
	cut            context.CancelCauseFunc
	done           chan Result
}

func open(t *testing.T, change ...func(*Session)) *harness {
	t.Helper()
	near, caller := connPair(t)
	back, engine := connPair(t)
	r := &harness{
		t: t, caller: caller, engine: engine, hear: bufio.NewReader(caller), listen: bufio.NewReader(engine), done: make(chan Result, 1),
		session: &Session{
			Caller: Side{near, bufio.NewReader(near)}, Engine: Side{back, bufio.NewReader(back)}, MaxMessage: 1 << 10, Idle: patience,
			Clock: clock.Real(),
		},
	}
	for _, c := range change {
		c(r.session)
	}
	ctx, cut := context.WithCancelCause(t.Context())
	r.cut = cut
	go func() { r.done <- r.session.Run(ctx) }()
	t.Cleanup(func() { cut(nil) })
	return r
}

// frame returns the bytes of a frame.
func frame(op byte, fin, masked bool, payload []byte) []byte {
	out := []byte{op}
	if fin {
		out[0] |= 0x80
	}
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		out = append(out, mask|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, mask|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, mask|127), uint64(n))
	}
	if !masked {
		return append(out, payload...)
	}
	key := []byte{1, 2, 3, 4}
	out = append(out, key...)
	for i, b := range payload {
		out = append(out, b^key[i%4])
	}
	return out
}

func text(s string, masked bool) []byte { return frame(opText, true, masked, []byte(s)) }

func closing(code uint16, masked bool) []byte {
	return frame(opClose, true, masked, binary.BigEndian.AppendUint16(nil, code))
}

func (r *harness) send(to io.Writer, b []byte) {
	r.t.Helper()
	_, err := to.Write(b)
	require.NoError(r.t, err)
}

// requireBytes requires that the next bytes are the wanted ones.
func (r *harness) requireBytes(from io.Reader, want []byte) {
	r.t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(from, got)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got)
}

// requireClose requires a close frame with the given code and a reason that contains the given words, and then the end
// of the connection.
func (r *harness) requireClose(from *bufio.Reader, masked bool, code uint16, words string) {
	r.t.Helper()
	h, err := readHead(from)
	require.NoError(r.t, err)
	require.Equal(r.t, []any{byte(opClose), masked}, []any{h.op, h.masked})
	payload := make([]byte, h.length)
	_, err = io.ReadFull(from, payload)
	require.NoError(r.t, err)
	payload = h.unmask(payload)
	require.Equal(r.t, code, binary.BigEndian.Uint16(payload))
	require.Contains(r.t, string(payload[2:]), words)
	r.requireEnd(from)
}

// requireEnd requires that the connection ends, cleanly or not, without further bytes.
func (r *harness) requireEnd(from io.Reader) {
	r.t.Helper()
	rest, err := io.ReadAll(from)
	require.Empty(r.t, rest)
	var timeout net.Error
	require.False(r.t, errors.As(err, &timeout) && timeout.Timeout(), "the connection must be closed")
}

func (r *harness) result() Result {
	r.t.Helper()
	select {
	case got := <-r.done:
		return got
	case <-time.After(patience):
		require.FailNow(r.t, "the session did not end")
		return Result{}
	}
}
