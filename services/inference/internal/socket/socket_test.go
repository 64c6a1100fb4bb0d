package socket

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

func TestFramesUnchanged(t *testing.T) {
	t.Parallel()
	r := open(t, func(s *Session) { s.MaxMessage = 1 << 20 })
	var up, down int64
	for _, payload := range []int{0, 1, 125, 126, 1 << 10, 1<<16 - 1, 1 << 16, 300 << 10} {
		data := bytes.Repeat([]byte{0xAB}, payload)
		for _, op := range []byte{opText, opBinary} {
			for _, f := range [][]byte{frame(op, true, true, data), frame(opPing, true, true, []byte("p"))} {
				go func() { _, _ = r.caller.Write(f) }()
				r.requireBytes(r.listen, f)
				up += int64(len(f))
			}
			f := frame(op, true, false, data)
			go func() { _, _ = r.engine.Write(f) }()
			r.requireBytes(r.hear, f)
			down += int64(len(f))
		}
	}
	for _, f := range [][]byte{
		frame(opText, false, true, []byte("a")), frame(opPong, true, true, nil), frame(opContinuation, false, true, nil), frame(opContinuation, true, true, []byte("b")),
	} {
		r.send(r.caller, f)
		r.requireBytes(r.listen, f)
		up += int64(len(f))
	}
	r.send(r.caller, closing(1000, true))
	r.requireBytes(r.listen, closing(1000, true))
	r.send(r.engine, closing(1000, false))
	r.requireBytes(r.hear, closing(1000, false))
	r.requireEnd(r.hear)
	r.requireEnd(r.listen)
	require.Equal(t, Result{
		End: Closed, FromCaller: Count{Frames: 37, Bytes: up + 8}, FromEngine: Count{Frames: 17, Bytes: down + 4},
	}, r.result())
}

func TestPartialFrameForwarded(t *testing.T) {
	t.Parallel()
	r := open(t)
	f := text("0123456789", false)
	for i := range f {
		r.send(r.engine, f[i:i+1])
		if i >= 2 { // the header is sent with the first byte of the payload
			r.requireBytes(r.hear, map[bool][]byte{true: f[:3], false: f[i : i+1]}[i == 2])
		}
	}
}

func TestCallerProtocolViolation(t *testing.T) {
	t.Parallel()
	long := func(first byte, n uint64) []byte {
		return append(binary.BigEndian.AppendUint64([]byte{first, 0x80 | 127}, n), 1, 2, 3, 4)
	}
	for name, c := range map[string]struct {
		sent  []byte
		code  uint16
		words string
	}{
		"not masked":               {text("x", false), codeProtocol, "mask"},
		"reserved bits":            {append([]byte{0xC1, 0x80}, 1, 2, 3, 4), codeProtocol, "reserved bits"},
		"reserved opcode":          {frame(0x3, true, true, nil), codeProtocol, "opcode 3"},
		"reserved control opcode":  {frame(0xB, true, true, nil), codeProtocol, "opcode 11"},
		"unexpected continuation":  {frame(opContinuation, true, true, nil), codeProtocol, "continuation"},
		"message within a message": {append(frame(opText, false, true, nil), frame(opText, true, true, nil)...), codeProtocol, "continuation"},
		"fragmented control frame": {frame(opPing, false, true, nil), codeProtocol, "control frame"},
		"large control frame":      {frame(opPing, true, true, make([]byte, 126)), codeProtocol, "control frame"},
		"close frame of one byte":  {frame(opClose, true, true, []byte{3}), codeProtocol, "close frame"},
		"reserved close code":      {closing(1005, true), codeProtocol, "1005"},
		"unassigned close code":    {closing(999, true), codeProtocol, "999"},
		"close reason not UTF-8":   {frame(opClose, true, true, []byte{3, 0xE8, 0xff}), codeProtocol, "UTF-8"},
		"length not shortest form": {append([]byte{0x81, 0x80 | 126, 0, 5}, 1, 2, 3, 4), codeProtocol, "malformed"},
		"length with the high bit": {long(0x82, 1<<63), codeProtocol, "malformed"},
		"length beyond any memory": {long(0x82, 1<<62), codeTooBig, "larger than 1024"},
		"large message":            {frame(opText, true, true, make([]byte, 1025)), codeTooBig, "larger than 1024"},
		"large fragmented message": {append(frame(opText, false, true, make([]byte, 1000)), frame(opContinuation, true, true, make([]byte, 25))...), codeTooBig, "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			r.send(r.caller, text("first", true))
			r.requireBytes(r.listen, text("first", true))
			r.send(r.caller, c.sent)
			r.requireClose(r.hear, false, c.code, c.words)
			for { // valid frames before the violation may have been relayed, but no part of the violation
				h, err := readHead(r.listen)
				require.NoError(t, err)
				_, err = io.CopyN(io.Discard, r.listen, h.length)
				require.NoError(t, err)
				if h.op == opClose {
					break
				}
			}
			r.requireEnd(r.listen)
			require.Equal(t, CallerFault, r.result().End)
		})
	}
}

func TestEngineProtocolViolation(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{
		"masked": text("x", true), "too large": frame(opBinary, true, false, make([]byte, 1025)), "HTTP": []byte("HTTP/1.1 200 OK\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			r.send(r.engine, sent)
			r.requireClose(r.hear, false, codeGateway, "the engine violated the protocol")
			require.Equal(t, EngineFault, r.result().End)
		})
	}
}

func TestReservedBitsWithExtension(t *testing.T) {
	t.Parallel()
	r := open(t, func(s *Session) { s.HasExtensions = true })
	f := frame(opText, true, true, []byte("deflated"))
	f[0] |= 0x40
	r.send(r.caller, f)
	r.requireBytes(r.listen, f)
}

func TestSideDisconnects(t *testing.T) {
	t.Parallel()
	t.Run("engine", func(t *testing.T) {
		t.Parallel()
		r := open(t)
		require.NoError(t, r.engine.Close())
		r.requireClose(r.hear, false, codeGateway, "lost")
		require.Equal(t, EngineGone, r.result().End)
	})
	t.Run("engine within a frame", func(t *testing.T) {
		t.Parallel()
		r := open(t)
		f := text("0123456789", false)
		r.send(r.engine, f[:5])
		r.requireBytes(r.hear, f[:5])
		require.NoError(t, r.engine.Close())
		r.requireEnd(r.hear)
		require.Equal(t, EngineGone, r.result().End, "no close frame may be written in the middle of a frame")
	})
	t.Run("caller", func(t *testing.T) {
		t.Parallel()
		r := open(t)
		require.NoError(t, r.caller.Close())
		r.requireClose(r.listen, true, codeGoing, "disconnected")
		require.Equal(t, CallerGone, r.result().End)
	})
	t.Run("engine instead of replying to a close", func(t *testing.T) {
		t.Parallel()
		r := open(t)
		r.send(r.caller, closing(1000, true))
		r.requireBytes(r.listen, closing(1000, true))
		require.NoError(t, r.engine.Close())
		r.requireEnd(r.hear)
		require.Equal(t, Closed, r.result().End)
	})
	t.Run("caller that sends after its close", func(t *testing.T) {
		t.Parallel()
		r := open(t)
		r.send(r.caller, append(closing(1000, true), text("more", true)...))
		r.requireBytes(r.listen, closing(1000, true))
		r.send(r.engine, closing(1000, false))
		r.requireBytes(r.hear, closing(1000, false))
		r.requireEnd(r.listen)
		require.Equal(t, Closed, r.result().End)
	})
}

func TestContextEndSendsCloseFrames(t *testing.T) {
	t.Parallel()
	why := errors.New("revoked")
	r := open(t, func(s *Session) {
		s.CloseReason = func(cause error) (uint16, string) { return 1008, "because " + cause.Error() }
	})
	r.send(r.engine, text("hello", false))
	r.requireBytes(r.hear, text("hello", false))
	r.cut(why)
	r.requireClose(r.hear, false, 1008, "because revoked")
	r.requireClose(r.listen, true, 1008, "because revoked")
	require.Equal(t, Cut, r.result().End)
}

func TestContextEndCutsStalledReader(t *testing.T) {
	t.Parallel()
	r := open(t, func(s *Session) { s.MaxMessage = 1 << 30 })
	go func() { _, _ = r.engine.Write(frame(opBinary, true, false, make([]byte, 64<<20))) }()
	require.Eventually(t, func() bool { return r.session.silent() > 100*time.Millisecond }, patience, time.Millisecond)
	r.cut(errors.New("revoked"))
	require.Equal(t, Cut, r.result().End)
}

func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	r := open(t, func(s *Session) { s.Clock, s.Idle = clk, time.Minute })
	pass := func(d time.Duration) {
		require.NoError(t, clk.Await(t.Context(), 1))
		clk.Advance(d)
	}
	for range 3 {
		pass(40 * time.Second)
		r.send(r.engine, frame(opPing, true, false, nil))
		r.requireBytes(r.hear, frame(opPing, true, false, nil))
	}
	pass(59 * time.Second)
	pass(2 * time.Second)
	r.requireClose(r.hear, false, codeGoing, "idle")
	r.requireClose(r.listen, true, codeGoing, "idle")
	require.Equal(t, Idle, r.result().End)
}

func TestDrainingEndsQuietSession(t *testing.T) {
	t.Parallel()
	clk, draining := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), make(chan struct{})
	r := open(t, func(s *Session) { s.Clock, s.Draining = clk, draining })
	r.send(r.engine, text("busy", false))
	r.requireBytes(r.hear, text("busy", false))
	close(draining)
	require.NoError(t, clk.Await(t.Context(), 1))
	clk.Advance(quiet - time.Millisecond)
	r.send(r.engine, text("still busy", false))
	r.requireBytes(r.hear, text("still busy", false))
	require.Never(t, func() bool { clk.Advance(0); return len(r.done) > 0 }, 20*time.Millisecond, time.Millisecond)
	require.Eventually(t, func() bool { clk.Advance(quiet); return len(r.done) > 0 }, patience, time.Millisecond)
	r.requireClose(r.hear, false, codeGoing, "stopping")
	require.Equal(t, Drained, r.result().End)
}

func FuzzFrames(f *testing.F) {
	f.Add(text("x", true), true)
	f.Add(closing(1000, false), false)
	f.Add([]byte(strings.Repeat("\x81\xfe\x00\x7e", 4)), true)
	f.Fuzz(func(t *testing.T, raw []byte, masked bool) {
		in, r := bufio.NewReader(bytes.NewReader(raw)), rule{masked: masked, most: 1 << 10}
		for range 1 << 12 {
			h, err := readHead(in)
			if err != nil || r.head(h) != nil {
				return
			}
			if h.length < 0 || (!h.control() && r.size > r.most) || (h.control() && h.length > maxControl) {
				t.Fatalf("a frame of %d bytes was accepted", h.length)
			}
			payload := make([]byte, h.length)
			if _, err := io.ReadFull(in, payload); err != nil {
				return
			}
			if h.op == opClose {
				if r.closing(h.unmask(payload)) == nil && len(payload) == 1 {
					t.Fatal("an incomplete close code was accepted")
				}
				return
			}
		}
	})
}
