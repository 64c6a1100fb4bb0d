package httpguard_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httpguard"
)

// slowListener accepts nothing until open is closed.
type slowListener struct {
	*httpguard.Listener

	open <-chan struct{}
}

func (l slowListener) Accept() (net.Conn, error) {
	<-l.open
	return l.Listener.Accept()
}

// listen returns a listener at a free port.
func listen(t *testing.T) *httpguard.Listener {
	t.Helper()
	l, err := httpguard.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	return httpguard.JSONErrors(l, func() string { return "req_1" })
}

// settleAndShutdown stops the server as the gateway does.
func settleAndShutdown(ctx context.Context, server *http.Server, l *httpguard.Listener) error {
	l.Settle(ctx)
	return server.Shutdown(ctx)
}

func TestListener_Settle_waitingConnections(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"at once": 0, "on a busy machine": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireWaitingServed(t, pause)
		})
	}
}

// requireWaitingServed requires that a server which stops serves the connections that wait to be accepted, even if it
// accepts none for the duration pause after the stop has begun.
func requireWaitingServed(t *testing.T, pause time.Duration) {
	t.Helper()
	l, open := listen(t), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ConnState: httpguard.State, ReadHeaderTimeout: time.Minute}
	served, stopped := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(slowListener{l, open}) }()
	var waiting []net.Conn
	for range 20 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		waiting = append(waiting, conn)
	}
	go func() { stopped <- settleAndShutdown(t.Context(), server, l) }()
	require.Eventually(t, func() bool { return !reachable(t, l.Addr()) }, time.Minute, time.Millisecond, "new connections are ignored")
	select {
	case err := <-stopped:
		require.NoError(t, err)
		require.Fail(t, "the server must not stop while connections wait")
	case <-time.After(pause):
	}
	close(open)
	for _, conn := range waiting {
		text, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(text), "HTTP/1.1 200 OK")
	}
	require.NoError(t, <-stopped)
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

// reachable reports whether a connection opens at once.
func reachable(t *testing.T, addr net.Addr) bool {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: 200 * time.Millisecond}).DialContext(t.Context(), "tcp", addr.String())
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func TestListener_Settle_whileClientsConnect(t *testing.T) {
	t.Parallel()
	l := listen(t)
	var count atomic.Int64
	handler := func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		w.Header().Set("Connection", "close")
	}
	server := &http.Server{Handler: http.HandlerFunc(handler), ConnState: httpguard.State, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	const clients = 8
	ended := make(chan error, clients)
	for range clients {
		go func() {
			for {
				resp, err := client.Post("http://"+l.Addr().String(), "text/plain", nil)
				if err != nil {
					ended <- err
					return
				}
				_ = resp.Body.Close()
			}
		}()
	}
	require.Eventually(t, func() bool { return count.Load() > 100 }, time.Minute, time.Millisecond)
	require.NoError(t, settleAndShutdown(t.Context(), server, l))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	for range clients {
		op, ok := errors.AsType[*net.OpError](<-ended)
		require.True(t, ok && op.Op == "dial", "no connection may be reset: %v", op)
	}
}

func TestListener_Settle_connectionInUse(t *testing.T) {
	t.Parallel()
	l := listen(t)
	var stopping atomic.Bool
	handler := func(w http.ResponseWriter, _ *http.Request) {
		if stopping.Load() {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(handler), ConnState: httpguard.State, ReadHeaderTimeout: time.Minute}
	served, stopped := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	from := bufio.NewReader(conn)
	ask := func() int {
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusOK, ask())
	stopping.Store(true)
	go func() { stopped <- settleAndShutdown(t.Context(), server, l) }()
	require.Eventually(t, func() bool { return !reachable(t, l.Addr()) }, time.Minute, time.Millisecond, "new connections are ignored")
	require.Equal(t, http.StatusServiceUnavailable, ask(), "a connection that was just used stays open")
	_, err = from.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, <-stopped)
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

// A client opens a connection before the stop and sends its first request after the stop has begun.
func TestListener_Settle_newConnection(t *testing.T) {
	t.Parallel()
	l, accepted := listen(t), make(chan struct{}, 1)
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }),
		ReadHeaderTimeout: time.Minute,
		ConnState: func(c net.Conn, state http.ConnState) {
			httpguard.State(c, state)
			if state == http.StateNew {
				accepted <- struct{}{}
			}
		},
	}
	served, stopped := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	<-accepted
	go func() { stopped <- settleAndShutdown(t.Context(), server, l) }()
	require.Eventually(t, func() bool { return !reachable(t, l.Addr()) }, time.Minute, time.Millisecond, "new connections are ignored")
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	text, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(text), "HTTP/1.1 200 OK")
	require.NoError(t, <-stopped)
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

func TestListener_Settle_idleConnection(t *testing.T) {
	t.Parallel()
	l := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ConnState: httpguard.State, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	resp, err := http.Get("http://" + l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, settleAndShutdown(t.Context(), server, l), "an idle connection does not keep the server open")
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

func TestListener_Settle_repeatedOrClosed(t *testing.T) {
	t.Parallel()
	l := listen(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	l.Settle(over)        // No server accepts connections, so this ends with its context.
	l.Settle(t.Context()) // A second call returns at once.
	require.NoError(t, l.Close())
	closed := listen(t)
	require.NoError(t, closed.Close())
	closed.Settle(t.Context())
	httpguard.JSONErrors(other{}, nil).Settle(t.Context()) // The listener is not a TCP listener.
}

// other is a listener without a socket.
type other struct{ net.Listener }
