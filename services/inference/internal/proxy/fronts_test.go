package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/fronttest"
)

// handled counts the requests that package net/http serves.
type handled struct {
	*Proxy

	requests atomic.Int64
}

func (h *handled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.requests.Add(1)
	h.Proxy.ServeHTTP(w, r)
}

func TestRelay_takesPlainCalls(t *testing.T) {
	t.Parallel()
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, replies(whole))))
	h := &handled{Proxy: r.proxy}
	s := fronttest.Serve(t, h)
	t.Cleanup(s.Close)
	for range 3 {
		require.Equal(t, 200, r.post(t.Context(), s, tok.text, strings.NewReader("{}")).status)
	}
	want := int64(3)
	if fronttest.Fast() == "on" {
		want = 0
	}
	require.Equal(t, want, h.requests.Load())
	got := r.post(t.Context(), s, mint(t, secret.KindDeployment).text, strings.NewReader("{}"))
	require.Equal(t, 401, got.status, "package net/http refuses what must not be relayed")
	require.Equal(t, want+1, h.requests.Load())
}

// A caller that disconnects within its body gets no response, and its call is recorded as cut by the client.
func TestCallerLeavesWithinBody(t *testing.T) {
	t.Parallel()
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, replies(whole))))
	conn, err := net.Dial("tcp", r.serve().Listener.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /inference/"+dep("a")+"/v1/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "+tok.text+"\r\nContent-Length: 9\r\n\r\na")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	got := r.recorder.recorded(t, 1)[0]
	require.Equal(t, []any{int32(499), "client_closed"}, []any{got.Status, got.Outcome})
}

// An upload of known length over HTTP/2 does not end the connection.
func TestUploadOverHTTP2KeepsConnection(t *testing.T) {
	t.Parallel()
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, replies(whole))))
	s := httptest.NewUnstartedServer(r.proxy)
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	client := &http.Client{Transport: &http.Transport{Protocols: s.Config.Protocols}}
	t.Cleanup(client.CloseIdleConnections)
	var reused []bool
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) }})
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/inference/"+dep("a")+"/v1/x", bytes.NewReader(make([]byte, 3<<19)))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+tok.text)
		resp, err := client.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, 200, resp.StatusCode)
	}
	require.Equal(t, []bool{false, true, true}, reused)
}

// fronts is a proxy behind both fronts.
type fronts struct {
	token    string
	slow     *httptest.Server
	fast     *httptest.Server
	mu       sync.Mutex
	requests []string // what the engine got
	response string   // what the engine sends before it closes the connection, if it is not empty
}

func newFronts(t testing.TB) *fronts {
	t.Helper()
	both := &fronts{}
	tok := mint(t, secret.KindDeployment)
	both.token = tok.text
	r := newHarness(t, served("a", tok, engine(t, both.engine)))
	r.proxy.Idle = 200 * time.Millisecond
	both.slow, both.fast = fronttest.Serve(t, http.HandlerFunc(r.proxy.ServeHTTP)), fronttest.Serve(t, r.proxy)
	t.Cleanup(func() {
		for _, s := range []*httptest.Server{both.slow, both.fast} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	return both
}

// engine records the complete requests.
func (f *fronts) engine(c net.Conn, in *bufio.Reader) {
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // it depends on the time how much of a request arrives whose body is malformed
		}
		var lines []string
		for name, values := range req.Header {
			for _, value := range values {
				if name != "X-Request-Id" {
					lines = append(lines, name+": "+value)
				}
			}
		}
		slices.Sort(lines)
		f.mu.Lock()
		f.requests = append(f.requests, fmt.Sprintf("%s %s %q %q", req.Method, req.RequestURI, lines, body))
		response := f.response
		f.mu.Unlock()
		if response != "" {
			_, _ = io.WriteString(c, response)
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			return
		}
	}
}

// exchange sends bytes to a front, and returns the responses and what the engine got. The parameter method is that of the
// first request.
func (f *fronts) exchange(t *testing.T, s *httptest.Server, method, raw string) (responses, requests []string) {
	t.Helper()
	f.mu.Lock()
	f.requests = nil
	f.mu.Unlock()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, _ = io.WriteString(conn, raw) // the server may close the connection before it has read everything
	in := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		method = http.MethodGet
		if err != nil {
			break
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		for _, name := range []string{"Date", "X-Request-Id"} {
			resp.Header.Del(name)
		}
		var lines []string
		for name, values := range resp.Header {
			lines = append(lines, fmt.Sprint(name, values))
		}
		slices.Sort(lines)
		if err != nil {
			body = nil // it depends on the time how much arrives of a response that is cut
		}
		responses = append(responses, fmt.Sprintf("%d %q %q %v %v", resp.StatusCode, lines, body, resp.Trailer, err != nil))
		if err != nil {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return responses, f.requests
}

// FuzzResponses lets the engine send the same bytes to both fronts. The caller must get the same response.
func FuzzResponses(f *testing.F) {
	for _, response := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\nX-Own: 1\r\nSet-Cookie: a\r\n\r\n",
		"HTTP/1.1 404 No\r\nContent-Length: 2\r\nLocation: /v1/x\r\nConnection: x-own\r\nX-Own: 1\r\n\r\n{}", "HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 404 No\r\nContent-Length:002\nA:b\n\r\n{}",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nto the end", "HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "nonsense",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nmalformed\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 30\r\n\r\ndata: a\n\n", "HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add(response)
	}
	both := newFronts(f)
	f.Fuzz(func(t *testing.T, response string) {
		both.mu.Lock()
		both.response = response
		both.mu.Unlock()
		raw := "POST /inference/" + dep("a") + "/v1/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + both.token + "\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
		responses, _ := both.exchange(t, both.slow, "POST", raw)
		fast, _ := both.exchange(t, both.fast, "POST", raw)
		require.Equal(t, responses, fast, "%q", response)
	})
}

// FuzzFronts sends the same bytes to both fronts. The caller must get the same responses, and the engine the same requests.
func FuzzFronts(f *testing.F) {
	f.Add("POST", "chat/completions", "Content-Type: application/json\r\nContent-Length: 2\r\n", "{}")
	f.Add("GET", "models?a=%2F&b", "Accept: a/b\r\nX-Own: 1\r\nx-own: 2\r\nCookie: a\r\nConnection: x-own\r\n", "")
	f.Add("PUT", "a/../b", "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n")
	f.Add("HEAD", "%61", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nUser-Agent: me\r\n", "")
	f.Add("POST", "x", "Content-Length: 1\r\nContent-Length: 1\r\n", "a")
	f.Add("GET", "a(b)!c'*?d=(e)", "", "")
	f.Add("POST", "x", "Content-Length: 4\r\n", "0000\r")
	f.Add("POST", "x", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")
	f.Add("POST", "x", "Expect: 100-continue\r\nContent-Length: 1\r\n", "a")
	f.Add("DELETE", "x", "Content-Length: 9\r\n", "short")
	f.Add("TRACE", "x", "Keep-Alive: 1\r\nTE: trailers\r\n", "")
	f.Add("POST", "x", "Host: other\r\nContent-Length: 0\r\n", "GET / HTTP/1.1\r\n\r\n")
	both := newFronts(f)
	f.Fuzz(func(t *testing.T, method, target, headers, body string) {
		auth := "Host: h\r\nAuthorization: Bearer " + both.token + "\r\n"
		path := " /inference/" + dep("a") + "/v1/"
		raw := method + path + target + " HTTP/1.1\r\n" + auth + headers + "\r\n" + body +
			"GET" + path + "end HTTP/1.1\r\n" + auth + "Connection: close\r\n\r\n"
		responses, requests := both.exchange(t, both.slow, method, raw)
		fastResponses, fastRequests := both.exchange(t, both.fast, method, raw)
		require.Equal(t, responses, fastResponses, "%q", raw)
		require.Equal(t, requests, fastRequests, "%q", raw)
	})
}
