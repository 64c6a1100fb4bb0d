package engineclient_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer starts a TCP server that calls the function play for each connection, with the connection's number as n.
func peer(t *testing.T, play func(n int, c net.Conn, in *bufio.Reader)) (addr string, conns *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conns = &atomic.Int32{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(conns.Add(1))
			wg.Go(func() { defer func() { _ = c.Close() }(); play(n, c, bufio.NewReader(c)) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String(), conns
}

func take(in *bufio.Reader) (*http.Request, []byte, bool) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return nil, nil, false
	}
	body, err := io.ReadAll(r.Body)
	return r, body, err == nil
}

func echo(_ int, c net.Conn, in *bufio.Reader) {
	for {
		r, body, ok := take(in)
		if !ok {
			return
		}
		resp := http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: r}
		if resp.Write(c) != nil {
			return
		}
	}
}

func client(t *testing.T) *engineclient.Client {
	t.Helper()
	c := &engineclient.Client{Timeouts: engineclient.Timeouts{Connect: time.Minute, Send: time.Minute, FirstByte: time.Minute, Idle: time.Minute}, Clock: clock.Real()}
	t.Cleanup(c.CloseIdle)
	return c
}

func post(body string) engineclient.Request {
	return engineclient.Request{
		Method: http.MethodPost, Target: "/v1/x?a=b", Header: httprelay.Header{{Name: "X-A", Value: "b"}},
		Body: strings.NewReader(body), Replay: func() io.Reader { return strings.NewReader(body) }, Length: int64(len(body)),
	}
}

func whole(t *testing.T, a *engineclient.Response) string {
	t.Helper()
	body, err := io.ReadAll(a)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	return string(body)
}

func TestConnectionReuse(t *testing.T) {
	t.Parallel()
	addr, conns := peer(t, echo)
	c := client(t)
	for range 50 {
		a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, post("hello"))
		require.NoError(t, err)
		require.Equal(t, "hello", whole(t, a))
	}
	require.Equal(t, int32(1), conns.Load())
	// A connection whose response was not read to its end is not reused.
	a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, post("hello"))
	require.NoError(t, err)
	_ = a.Close()
	a, err = c.Do(t.Context(), engineclient.Engine{Addr: addr}, post("again"))
	require.NoError(t, err)
	require.Equal(t, "again", whole(t, a))
	require.Equal(t, int32(2), conns.Load())
}

func TestClient_CloseStale(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	addr, _ := peer(t, func(n int, c net.Conn, in *bufio.Reader) { echo(n, c, in); left <- struct{}{} })
	clk := clock.NewFake(time.Now().Add(time.Hour)) // ahead of real time, so that no deadline expires
	c := client(t)
	c.Clock = clk
	a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, post("x"))
	require.NoError(t, err)
	require.Equal(t, "x", whole(t, a))
	clk.Advance(80 * time.Second)
	require.NoError(t, c.CloseStale(t.Context()))
	select {
	case <-left:
		require.Fail(t, "the idle connection was closed too early")
	default:
	}
	clk.Advance(20 * time.Second)
	require.NoError(t, c.CloseStale(t.Context()))
	<-left
}

func TestStaleConnectionReplacedOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	addr, conns := peer(t, func(n int, c net.Conn, in *bufio.Reader) {
		for i := 0; ; i++ {
			if _, _, ok := take(in); !ok {
				return
			}
			calls.Add(1)
			if i == 1 || n > 1 {
				return // closes the connection without a response
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	c := client(t)
	a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, post("1"))
	require.NoError(t, err)
	require.Equal(t, "ok", whole(t, a))
	_, err = c.Do(t.Context(), engineclient.Engine{Addr: addr}, post("2"))
	require.ErrorIs(t, err, engineclient.ErrConnectionLost)
	require.Equal(t, int32(2), conns.Load())
	require.Equal(t, int32(3), calls.Load(), "the request must be sent once on the old and once on a new connection")
}

func TestFailedRetryIsNotUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = l.Close()
		in := bufio.NewReader(c)
		_, _, _ = take(in)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_, _, _ = take(in)
		_ = c.Close()
	}()
	c := client(t)
	a, err := c.Do(t.Context(), engineclient.Engine{Addr: l.Addr().String()}, post("1"))
	require.NoError(t, err)
	require.Equal(t, "ok", whole(t, a))
	_, err = c.Do(t.Context(), engineclient.Engine{Addr: l.Addr().String()}, post("2"))
	require.ErrorIs(t, err, engineclient.ErrConnectionLost)
	require.NotErrorIs(t, err, engineclient.ErrUnreachable, "after ErrUnreachable, the proxy would send the call to another engine")
	<-done
	_, err = c.Do(t.Context(), engineclient.Engine{Addr: l.Addr().String()}, post("3"))
	require.ErrorIs(t, err, engineclient.ErrUnreachable)
}

// blocked is a body whose Read blocks until interrupt is called.
type blocked struct {
	begun, stop chan struct{}
	once        sync.Once
}

func newBlocked() *blocked { return &blocked{begun: make(chan struct{}), stop: make(chan struct{})} }

func (b *blocked) Read([]byte) (int, error) {
	close(b.begun)
	<-b.stop
	return 0, errors.New("interrupted")
}

func (b *blocked) interrupt() { b.once.Do(func() { close(b.stop) }) }

func TestBlockedBodyInterrupted(t *testing.T) {
	t.Parallel()
	addr, _ := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_, _ = io.Copy(io.Discard, in)
	})
	b := newBlocked()
	a, err := client(t).Do(t.Context(), engineclient.Engine{Addr: addr}, engineclient.Request{
		Method: "POST", Target: "/", Body: io.MultiReader(strings.NewReader("some"), b), Interrupt: b.interrupt, Length: -1,
	})
	require.NoError(t, err)
	body, err := io.ReadAll(a)
	require.NoError(t, err)
	require.Equal(t, "ok", string(body))
	<-b.begun
	require.ErrorIs(t, a.Close(), engineclient.ErrRequestBody, "Close must return after the sender has ended")
}

func TestContextCutsExchange(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	t.Run("before the head", func(t *testing.T) {
		t.Parallel()
		ctx, cut := context.WithCancelCause(t.Context())
		addr, _ := peer(t, func(_ int, _ net.Conn, in *bufio.Reader) {
			_, _, _ = take(in)
			cut(why)
			_, _ = in.ReadByte()
		})
		_, err := client(t).Do(ctx, engineclient.Engine{Addr: addr}, post("x"))
		require.ErrorIs(t, err, why)
	})
	t.Run("within the body", func(t *testing.T) {
		t.Parallel()
		ctx, cut := context.WithCancelCause(t.Context())
		addr, _ := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
			_, _, _ = take(in)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
			_, _ = in.ReadByte()
		})
		a, err := client(t).Do(ctx, engineclient.Engine{Addr: addr}, post("x"))
		require.NoError(t, err)
		got := make([]byte, 2)
		_, err = io.ReadFull(a, got)
		require.NoError(t, err)
		cut(why)
		_, err = a.Read(got)
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF)
		_ = a.Close()
	})
	t.Run("before the dial", func(t *testing.T) {
		t.Parallel()
		ctx, cut := context.WithCancelCause(t.Context())
		cut(why)
		_, err := client(t).Do(ctx, engineclient.Engine{Addr: "127.0.0.1:1"}, post("x"))
		require.ErrorIs(t, err, why)
	})
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	addr, _ := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		r, _, _ := take(in)
		if r != nil && r.URL.Path == "/pause" {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
		}
		_, _ = in.ReadByte()
	})
	c := client(t)
	c.Timeouts.FirstByte = 100 * time.Millisecond
	_, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, post("x"))
	require.ErrorIs(t, err, engineclient.ErrTimeout)
	c = client(t)
	c.Timeouts.Idle = time.Second
	in := post("x")
	in.Target = "/pause"
	a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, in)
	require.NoError(t, err)
	_, err = io.ReadAll(a)
	require.ErrorContains(t, err, "timeout")
	_ = a.Close()
}

func TestRequestBytes(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	addr, _ := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		var b strings.Builder
		for !strings.HasSuffix(b.String(), "\r\n\r\nbody") {
			one, err := in.ReadByte()
			if err != nil {
				return
			}
			b.WriteByte(one)
		}
		got <- b.String()
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	a, err := client(t).Do(t.Context(), engineclient.Engine{Addr: addr}, post("body"))
	require.NoError(t, err)
	require.Empty(t, whole(t, a))
	require.Equal(t, "POST /v1/x?a=b HTTP/1.1\r\nHost: "+addr+"\r\nContent-Length: 4\r\nX-A: b\r\n\r\nbody", <-got)
}
