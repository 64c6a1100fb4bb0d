package httpguard_test

import (
	"bufio"
	"encoding/json"
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
)

// echoBody responds with the method, the path and the body.
func echoBody(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the body is malformed", http.StatusTeapot)
		return
	}
	_, _ = fmt.Fprintf(w, "%s %s %q", r.Method, r.URL.Path, body)
}

// exchange sends raw bytes, in pieces of the given size, and returns the statuses and bodies of all responses until the
// server closes the connection.
func exchange(t *testing.T, addr, raw string, piece int) (statuses []int, bodies []string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for at := 0; at < len(raw); at += piece {
			if _, err := io.WriteString(conn, raw[at:min(at+piece, len(raw))]); err != nil {
				return // the server has closed the connection
			}
		}
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	in := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			_ = conn.Close()
			<-sent
			return statuses, bodies
		}
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		statuses, bodies = append(statuses, resp.StatusCode), append(bodies, string(body))
	}
}

const (
	get     = "GET /ok HTTP/1.1\r\nHost: x\r\n\r\n"
	post    = "POST /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nG\n\n\r\n"
	chunked = "POST /ok HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nG\n\n\r\n\r\n1\r\nx\r\n0\r\nTrailer: a\r\n\r\n"
)

func TestJSONErrors_rejectsAmbiguousRequests(t *testing.T) {
	t.Parallel()
	addr := serve(t, echoBody)
	for name, tc := range map[string]struct{ raw, detail string }{
		"length and chunked":         {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "both Content-Length and Transfer-Encoding"},
		"chunked and length":         {"POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n0\r\n\r\n", "both Content-Length and Transfer-Encoding"},
		"length and another coding":  {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: xchunked\r\n\r\n", "both Content-Length and Transfer-Encoding"},
		"name with a space":          {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "both Content-Length and Transfer-Encoding"},
		"coding of HTTP/1.0":         {"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.0"},
		"bare LF in a header":        {"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", "LF without CR"},
		"bare LF after the request":  {"GET / HTTP/1.1\nHost: x\r\n\r\n", "LF without CR"},
		"bare LF as the empty line":  {"GET / HTTP/1.1\r\nHost: x\r\n\n", "LF without CR"},
		"only bare LF":               {"GET / HTTP/1.1\nHost: x\n\n", "LF without CR"},
		"folded with a space":        {"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", "begins with a space or a tab"},
		"folded with a tab":          {"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n\tContent-Length: 5\r\n\r\n", "begins with a space or a tab"},
		"folded first header":        {"GET / HTTP/1.1\r\n Host: x\r\n\r\n", "begins with a space or a tab"},
		"empty line in front":        {"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "empty line"},
		"repeated length":            {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "Content-Length"},
		"length with a sign":         {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx", "Content-Length"},
		"list of lengths":            {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\nx", "Content-Length"},
		"empty length":               {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", "Content-Length"},
		"head without an end":        {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 200<<10), "too large"},
		"many lines without an end":  {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", 40<<10), "too large"},
		"preface with headers":       {"PRI * HTTP/2.0\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1"},
		"preface of HTTP/2 too late": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1"},
	} {
		before, piece := []string{"", get, post, chunked, get + post + chunked}, []int{1 << 20, 3, 1}
		if strings.Contains(name, "too late") {
			before = before[1:]
		}
		for _, first := range before {
			for _, n := range piece {
				if n < 1<<20 && len(tc.raw) > 4<<10 {
					continue
				}
				statuses, bodies := exchange(t, addr, first+tc.raw+get, n)
				require.NotEmpty(t, statuses, "%s after %q in pieces of %d", name, first, n)
				last := len(statuses) - 1
				require.Equal(t, strings.Count(first, "/ok"), last, "%s after %q in pieces of %d: %v", name, first, n, bodies)
				require.Equal(t, http.StatusBadRequest, statuses[last], name)
				var problem struct{ Detail, Code string }
				require.NoError(t, json.Unmarshal([]byte(bodies[last]), &problem), "%s: %s", name, bodies[last])
				require.Contains(t, problem.Detail, tc.detail, name)
				require.NotEmpty(t, problem.Code, name)
			}
		}
	}
}

func TestJSONErrors_passesRequestsUnchanged(t *testing.T) {
	t.Parallel()
	addr := serve(t, echoBody)
	big := "POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: 80000\r\n\r\n" + strings.Repeat("\r\n \n", 20000)
	all := get + post + chunked + big + chunked + get
	want := []string{`GET /ok ""`, `POST /ok "G\n\n\r\n"`, `POST /ok "G\n\n\r\nx"`, fmt.Sprintf("POST /big %q", strings.Repeat("\r\n \n", 20000)), `POST /ok "G\n\n\r\nx"`, `GET /ok ""`}
	for _, n := range []int{1 << 20, 4093, 7} {
		statuses, bodies := exchange(t, addr, all, n)
		require.Equal(t, []int{200, 200, 200, 200, 200, 200}, statuses, "in pieces of %d", n)
		require.Equal(t, want, bodies, "in pieces of %d", n)
	}
}

// The end of a malformed chunked body is unknown, so nothing after it may be read as a request.
func TestJSONErrors_malformedChunksEndConnection(t *testing.T) {
	t.Parallel()
	addr := serve(t, echoBody)
	const head = "POST /ok HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, body := range map[string]string{
		"size not hexadecimal": "g\r\nx\r\n0\r\n\r\n", "size with a sign": "+1\r\nx\r\n0\r\n\r\n", "empty size": "\r\nx\r\n0\r\n\r\n", "bare LF": "1\nx\r\n0\r\n\r\n",
		"bare LF in the trailer": "0\r\nA: b\n\r\n", "huge size": "ffffffffffffffffff\r\n", "long extension": "1;" + strings.Repeat("a", 5000) + "\r\nx\r\n0\r\n\r\n",
		"long trailer": "0\r\n" + strings.Repeat("A: b\r\n", 4000) + "\r\n", "folded trailer": "0\r\nA: b\r\n c\r\n\r\n",
	} {
		statuses, bodies := exchange(t, addr, head+body+get, 1<<20)
		require.LessOrEqual(t, len(statuses), 1, "%s: %v", name, bodies)
		for _, status := range statuses {
			require.Equal(t, http.StatusTeapot, status, "%s: %v", name, bodies)
		}
	}
}

// After the 101 response, the bytes on an upgraded connection are not HTTP.
func TestJSONErrors_upgradedBytesUnchanged(t *testing.T) {
	t.Parallel()
	const frames = "\x81\x05\nhello\r\n GET / HTTP/1.1\n\n"
	done := make(chan error, 1)
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = conn.Close() }()
		if buffered.Reader.Buffered() > 0 {
			done <- errors.New("bytes are buffered although the client has sent nothing after the request")
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n"); err != nil {
			done <- err
			return
		}
		var b strings.Builder
		if _, err = io.Copy(&b, conn); err == nil && b.String() != frames {
			err = fmt.Errorf("got %q", b.String())
		}
		done <- err
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, err = io.WriteString(conn, frames)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	require.NoError(t, <-done)
}

func TestJSONErrors_servesHTTP2(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: http.HandlerFunc(echoBody), Protocols: &protocols, ReadHeaderTimeout: time.Minute, ConnState: httpguard.State}
	done := make(chan error, 1)
	go func() { done <- server.Serve(httpguard.JSONErrors(l, func() string { return "req_1" })) }()
	t.Cleanup(func() { _ = server.Close(); require.ErrorIs(t, <-done, http.ErrServerClosed) })
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	for range 3 {
		resp, err := (&http.Client{Transport: transport}).Post("http://"+l.Addr().String()+"/two", "text/plain", strings.NewReader("a\n\nb"))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 2, resp.ProtoMajor)
		require.Equal(t, `POST /two "a\n\nb"`, string(body))
	}
}
