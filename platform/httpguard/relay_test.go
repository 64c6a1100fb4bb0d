package httpguard_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

const (
	patience = 30 * time.Second
	// late is how long the handler of /late waits.
	late = 40 * time.Millisecond
)

// relayFunc is a relay. Requests whose path does not begin with /fast are declined.
type relayFunc func(c httprelay.Conn, r *httprelay.Request) httprelay.Result

func (f relayFunc) Relay(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
	if !strings.HasPrefix(r.Target, "/fast") {
		return httprelay.Declined
	}
	return f(c, r)
}

// relay starts a server with the relay. Its handler responds with the path and the body of the request; for the path /late
// it waits before.
func relay(t *testing.T, f relayFunc) (addr string, server *http.Server) {
	t.Helper()
	return relayWithin(t, f, patience)
}

// relayWithin is like relay, with a limit for heads.
func relayWithin(t *testing.T, f relayFunc, head time.Duration) (addr string, server *http.Server) {
	t.Helper()
	l, err := httpguard.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	guarded := httpguard.JSONErrors(l, func() string { return "req_1" })
	guarded.Relay(httpguard.Relaying{Relay: f, Idle: patience, Head: head})
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server = &http.Server{
		ReadHeaderTimeout: patience, IdleTimeout: patience, ConnState: httpguard.State, Protocols: &protocols,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if r.URL.Path == "/late" {
				<-time.After(late)
			}
			_, _ = fmt.Fprintf(w, "net/http %s %s", r.RequestURI, body)
		}),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(guarded) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return l.Addr().String(), server
}

// echo responds with the target and the body of the request.
func echo(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
	body := make([]byte, r.Length)
	if err := c.ReadBody(body, time.Now().Add(patience)); err != nil {
		return httprelay.Ended
	}
	text := fmt.Sprintf("relay %s %s", r.Target, body)
	if err := c.WriteUntil(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text), time.Now().Add(patience)); err != nil {
		return httprelay.Ended
	}
	if r.Close {
		return httprelay.Ended
	}
	return httprelay.Served
}

func connect(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn, bufio.NewReader(conn)
}

// next reads the body of the next response.
func next(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(body)
}

// bothKinds returns requests that are relayed, and others that are not, with their responses.
func bothKinds() (requests, responses []string) {
	for range 3 {
		for _, one := range [][2]string{
			{"POST /fast/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody", "relay /fast/a body"},
			{"GET /fast/b?q=%2F HTTP/1.1\r\nHost: h\r\n\r\n", "relay /fast/b?q=%2F "},
			{"POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody", "net/http /slow body"},
			{"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n", "net/http /slow "},
			{"POST /fast/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "net/http /fast/a body"},
			{"GET /fast/%61 HTTP/1.1\r\nHost: h\r\n\r\n", "net/http /fast/%61 "},
			{"GET /fast/c HTTP/1.1\r\nHost: h\r\nConnection: x\r\n\r\n", "net/http /fast/c "},
		} {
			requests, responses = append(requests, one[0]), append(responses, one[1])
		}
	}
	return requests, responses
}

// A connection carries requests of both kinds in any order.
func TestRelay_bothKindsOnOneConnection(t *testing.T) {
	t.Parallel()
	addr, _ := relay(t, echo)
	requests, responses := bothKinds()
	conn, in := connect(t, addr)
	handed := false
	for i, request := range requests {
		_, err := io.WriteString(conn, request)
		require.NoError(t, err)
		got := next(t, in)
		if handed { // net/http may have read the request before it noticed that its response had been sent
			got = strings.Replace(got, "net/http", "relay", 1)
		}
		want := responses[i]
		if handed {
			want = strings.Replace(want, "net/http", "relay", 1)
		}
		require.Equal(t, want, got, "response %d", i)
		handed = strings.HasPrefix(responses[i], "net/http")
	}
}

// A client may send requests without waiting for the responses, which come in the same order, however the bytes are split.
// What has arrived while net/http serves a request may be served by net/http, too.
func TestRelay_pipelining(t *testing.T) {
	t.Parallel()
	addr, _ := relay(t, echo)
	requests, responses := bothKinds()
	raw := []byte(strings.Join(requests, ""))
	for _, size := range []int{1, 7, 50, 1000, len(raw)} {
		conn, in := connect(t, addr)
		sent := make(chan error, 1)
		go func() {
			var err error
			for rest := raw; len(rest) > 0 && err == nil; {
				var n int
				n, err = conn.Write(rest[:min(size, len(rest))])
				rest = rest[n:]
			}
			sent <- err
		}()
		for i, want := range responses {
			_, want, _ = strings.Cut(want, " ")
			_, got, _ := strings.Cut(next(t, in), " ")
			require.Equal(t, want, got, "response %d, parts of %d bytes", i, size)
		}
		require.NoError(t, <-sent)
	}
}

// The deadline of a relay's write must not end a response of net/http on the same connection.
func TestRelay_deadlineOfWriteEnds(t *testing.T) {
	t.Parallel()
	addr, _ := relay(t, func(c httprelay.Conn, _ *httprelay.Request) httprelay.Result {
		if c.WriteUntil([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), time.Now().Add(late/2)) != nil {
			return httprelay.Ended
		}
		return httprelay.Served
	})
	conn, in := connect(t, addr)
	for _, c := range [][2]string{{"/fast", ""}, {"/late", "net/http /late "}} {
		_, err := io.WriteString(conn, "GET "+c[0]+" HTTP/1.1\r\nHost: h\r\n\r\n")
		require.NoError(t, err)
		require.Equal(t, c[1], next(t, in))
	}
}

func TestRelay_closes(t *testing.T) {
	t.Parallel()
	addr, _ := relay(t, echo)
	conn, in := connect(t, addr)
	_, err := io.WriteString(conn, "GET /fast HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /fast HTTP/1.1\r\nHost: h\r\n\r\n")
	require.NoError(t, err)
	require.Equal(t, "relay /fast ", next(t, in))
	_, err = in.ReadByte()
	require.Error(t, err, "the second request must not be served")
}

// A malformed request after one that was relayed is refused as ever.
func TestRelay_malformedAfterRelayed(t *testing.T) {
	t.Parallel()
	addr, _ := relay(t, echo)
	for _, second := range []string{
		"GET /fast HTTP/1.1\nHost: h\r\n\r\n", "POST /fast HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET /fast HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "\r\nGET /fast HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		conn, in := connect(t, addr)
		_, err := io.WriteString(conn, "GET /fast HTTP/1.1\r\nHost: h\r\n\r\n"+second)
		require.NoError(t, err)
		require.Equal(t, "relay /fast ", next(t, in))
		require.Contains(t, next(t, in), `"code":"malformed_request"`, second)
	}
}

// What a client sends while its request is served is the beginning of its next request.
func TestRelay_watch(t *testing.T) {
	t.Parallel()
	gone, respond := make(chan struct{}), make(chan struct{})
	addr, _ := relay(t, func(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
		if r.Target == "/fast/last" {
			return echo(c, r)
		}
		left := make(chan struct{})
		c.Watch(func() { close(left) })
		select {
		case <-respond:
		case <-left:
			close(gone)
		}
		c.Unwatch()
		return echo(c, r)
	})
	conn, in := connect(t, addr)
	const request = "GET /fast HTTP/1.1\r\nHost: h\r\n\r\n"
	_, err := io.WriteString(conn, request)
	require.NoError(t, err)
	for _, part := range []string{"GET /fast/last HT", "TP/1.1\r\nHo", "st: h\r\n\r\n"} {
		_, err := io.WriteString(conn, part)
		require.NoError(t, err)
	}
	respond <- struct{}{}
	require.Equal(t, "relay /fast ", next(t, in))
	require.Equal(t, "relay /fast/last ", next(t, in))

	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	select {
	case <-gone:
	case <-time.After(patience):
		require.Fail(t, "the relay does not see that the client has disconnected")
	}
}

func TestRelay_interrupt(t *testing.T) {
	t.Parallel()
	addr, _ := relay(t, func(c httprelay.Conn, _ *httprelay.Request) httprelay.Result {
		timer := time.AfterFunc(20*time.Millisecond, c.Interrupt)
		defer timer.Stop()
		for {
			if err := c.WriteUntil(make([]byte, 64<<10), time.Now().Add(patience)); err != nil {
				break // the client does not read
			}
		}
		err := c.ReadBody(make([]byte, 1), time.Now().Add(patience))
		if err == nil || errors.Is(err, io.EOF) {
			panic("a read succeeded after Interrupt")
		}
		c.Farewell([]byte("farewell"), time.Now().Add(patience))
		return httprelay.Served
	})
	conn, in := connect(t, addr)
	_, err := io.WriteString(conn, "POST /fast HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n")
	require.NoError(t, err)
	all, err := io.ReadAll(in)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(all), "farewell"), "the connection must end after the last bytes")
}

// A server that is closed cuts the requests of its relay.
func TestRelay_serverCloses(t *testing.T) {
	t.Parallel()
	began, gone := make(chan struct{}), make(chan struct{})
	addr, server := relay(t, func(c httprelay.Conn, _ *httprelay.Request) httprelay.Result {
		c.Watch(func() { c.Interrupt(); close(gone) })
		defer c.Unwatch()
		close(began)
		<-gone
		return httprelay.Ended
	})
	conn, _ := connect(t, addr)
	_, err := io.WriteString(conn, "GET /fast HTTP/1.1\r\nHost: h\r\n\r\n")
	require.NoError(t, err)
	<-began
	require.NoError(t, server.Close())
	select {
	case <-gone:
	case <-time.After(patience):
		require.Fail(t, "the request of the relay was not cut")
	}
}
