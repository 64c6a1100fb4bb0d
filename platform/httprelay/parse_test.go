package httprelay_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

func TestParseRequest(t *testing.T) {
	t.Parallel()
	r, ok := httprelay.ParseRequest([]byte("POST /a/b?c=%2F&d HTTP/1.1\r\nhost: h:80\r\nContent-Length: 7\r\nCONNECTION: Close, keep-alive\r\nx-a:  b \t\r\nX-A: \r\n\r\n"))
	require.True(t, ok)
	require.Equal(t, &httprelay.Request{
		Method: "POST", Target: "/a/b?c=%2F&d", Host: "h:80", Header: httprelay.Header{{Name: "X-A", Value: "b"}, {Name: "X-A", Value: ""}},
		Length: 7, HasLength: true, Close: true,
	}, r)
}

func TestParseRequest_notPlain(t *testing.T) {
	t.Parallel()
	for _, head := range []string{
		"", "GET", "GET /", "GET / HTTP/1.0", "GET / HTTP/2.0", "get  / HTTP/1.1", "GET  / HTTP/1.1", "GET / HTTP/1.1 ", "GET * HTTP/1.1", "G\tT / HTTP/1.1",
		"GET http://h/ HTTP/1.1", "GET /%61 HTTP/1.1", "GET /a;b HTTP/1.1", `GET /a\b HTTP/1.1`, "GET /a#b HTTP/1.1", "GET /\x80 HTTP/1.1", "GET /?a b HTTP/1.1",
		"GET /a[b] HTTP/1.1", "GET /a(b) HTTP/1.1", "GET /a!b HTTP/1.1", "GET /a*b HTTP/1.1", "GET /a'b HTTP/1.1", "GET /?\"x HTTP/1.1", "GET /?\x7f HTTP/1.1",
		"GET / HTTP/1.1\r\nHost: ", "GET / HTTP/1.1\r\nHost: a\r\nHost: a", "GET / HTTP/1.1\r\nHost: a b", "GET / HTTP/1.1\r\nHost: a/b", "GET / HTTP/1.1\r\nHost: a@b",
	} {
		if !strings.Contains(head, "Host") {
			head += "\r\nHost: h"
		}
		_, ok := httprelay.ParseRequest([]byte(head + "\r\n\r\n"))
		require.False(t, ok, "%q", head)
	}
	for _, line := range []string{
		"Transfer-Encoding: chunked", "Expect: 100-continue", "TE: trailers", "Trailer: a", "Upgrade: websocket", "Connection: upgrade", "Connection: x-a",
		"HTTP2-Settings: a", "Content-Length: +1", "Content-Length: -1", "Content-Length: 1, 1", "Content-Length: ", "Content-Length: 1\r\nContent-Length: 1",
		"Content-Length: 99999999999999999999", "no colon", ": empty", "a b: c", "a : b", " a: b", "a: b\x00", "a: b\x1f", "a: b\x7f", "a: b\rc", "ä: b", "",
		strings.Repeat("a: b\r\n", 128) + "a: b", "a: " + strings.Repeat("b", 16<<10),
	} {
		_, ok := httprelay.ParseRequest([]byte("GET / HTTP/1.1\r\nHost: h\r\n" + line + "\r\n\r\n"))
		require.False(t, ok, "%q", line)
	}
	_, ok := httprelay.ParseRequest([]byte("GET / HTTP/1.1\r\nHost: h\r\n"))
	require.False(t, ok, "without its empty line, a head is not complete")
}

func TestParseResponse(t *testing.T) {
	t.Parallel()
	r, ok := httprelay.ParseResponse([]byte("HTTP/1.1 200 OK\r\ncontent-type: a/b\r\nContent-Length: 0\r\n\r\n"))
	require.True(t, ok)
	require.Equal(t, httprelay.Response{Status: 200, Header: httprelay.Header{{Name: "Content-Type", Value: "a/b"}}}, r)
	r, ok = httprelay.ParseResponse([]byte("HTTP/1.1 599\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"))
	require.True(t, ok)
	require.Equal(t, httprelay.Response{Status: 599, Header: httprelay.Header{}, Length: -1, Close: true}, r)
	for _, head := range []string{
		"HTTP/1.0 200 OK\r\nContent-Length: 0", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
		"HTTP/1.1 204 No\r\nContent-Length: 0", "HTTP/1.1 304 No\r\nContent-Length: 0", "HTTP/1.1 103 Early\r\nContent-Length: 0",
		"HTTP/1.1 101 Switching\r\nContent-Length: 0", "HTTP/1.1 600 X\r\nContent-Length: 0", "HTTP/1.1 2000 X\r\nContent-Length: 0",
		"HTTP/1.1 20 X\r\nContent-Length: 0", "HTTP/1.1 +20 X\r\nContent-Length: 0", "HTTP/1.1  200 X\r\nContent-Length: 0", "HTTP/1.1 200OK\r\nContent-Length: 0",
		"HTTP/1.1 200 OK\nContent-Length: 0\n\nHTTP/1.1 200 OK\r\nContent-Length: 0",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTrailer: x", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nUpgrade: x",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x-own",
	} {
		_, ok := httprelay.ParseResponse([]byte(head + "\r\n\r\n"))
		require.False(t, ok, "%q", head)
	}
}

// FuzzParseRequest checks that package net/http reads a plain head in the same way.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("POST /a/b?c=%2F HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\nConnection: close\r\nx-a:  b \r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: [::1]:80\r\nAccept: */*\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		got, ok := httprelay.ParseRequest(head)
		if !ok {
			return
		}
		want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", head, err)
		}
		h := want.Header
		for _, name := range []string{"Content-Length", "Connection"} {
			h.Del(name)
		}
		require.Equal(t, h, got.Header.Map(), "%q", head)
		require.Equal(t, []any{want.Method, want.RequestURI, want.URL.RequestURI(), want.Host, want.ContentLength, want.Close, want.URL.RawPath, 0},
			[]any{got.Method, got.Target, got.Target, got.Host, got.Length, got.Close, "", len(want.TransferEncoding)}, "%q", head)
	})
}

// FuzzParseResponse checks that package net/http reads a plain head in the same way.
func FuzzParseResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\nx-a:  b \r\n\r\n"))
	f.Add([]byte("HTTP/1.1 500 \r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		got, ok := httprelay.ParseResponse(head)
		if !ok {
			return
		}
		want, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil) //nolint:bodyclose // it has no body
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", head, err)
		}
		h := want.Header
		for _, name := range []string{"Content-Length", "Connection"} {
			h.Del(name)
		}
		require.Equal(t, h, got.Header.Map(), "%q", head)
		require.Equal(t, []any{want.StatusCode, want.ContentLength, want.Close}, []any{got.Status, got.Length, got.Close}, "%q", head)
	})
}

// body reads a body that is sent in chunks, in parts of the given size. It returns what follows the body.
func body(raw []byte, size int) (data, rest []byte, trailer httprelay.Header, ok bool) {
	var c httprelay.Chunks
	for len(raw) > 0 {
		part := raw[:min(size, len(raw))]
		for len(part) > 0 {
			piece, n, done, ok := c.Next(part)
			data = append(data, piece...)
			part, raw = part[n:], raw[n:]
			if !ok {
				return nil, nil, nil, false
			}
			if done {
				trailer, ok = c.Trailer()
				return data, raw, trailer, ok
			}
		}
	}
	return data, nil, nil, false
}

func TestChunks(t *testing.T) {
	t.Parallel()
	const raw = "4\r\nsome\r\n005;a=b;c\r\n text\r\nA \r\n0123456789\r\n0;x\r\nx-a: b\r\n\r\nnext"
	for size := range len(raw) {
		data, rest, trailer, ok := body([]byte(raw), size+1)
		require.True(t, ok, size)
		require.Equal(t, "some text0123456789", string(data))
		require.Equal(t, "next", string(rest))
		require.Equal(t, httprelay.Header{{Name: "X-A", Value: "b"}}, trailer)
	}
	for _, bad := range []string{
		"", "4\r\nsome", "4\nsome\r\n0\r\n\r\n", "4\r\nsome\n0\r\n\r\n", "4\r\nsomex\r\n0\r\n\r\n", "4\r\nsome0\r\n\r\n", "x\r\n", "-1\r\n", "+1\r\na\r\n0\r\n\r\n", "\r\n",
		"0x1\r\na\r\n0\r\n\r\n", "4 4\r\nsome\r\n0\r\n\r\n", "ffffffffffffffffff\r\n", "0\r\n a: b\r\n\r\n", "0\r\na b: c\r\n\r\n", "0\r\nContent-Length: 1\r\n\r\n",
		"0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\nHost: a\r\n\r\n", "0\r\na\r\n\r\n", "1;" + strings.Repeat("x", 5000) + "\r\na\r\n0\r\n\r\n",
		"0\r\n" + strings.Repeat("a: "+strings.Repeat("b", 1000)+"\r\n", 9) + "\r\n",
	} {
		for _, size := range []int{1, 3, 10000} {
			_, _, _, ok := body([]byte(bad), size)
			require.False(t, ok, "%.80q", bad)
		}
	}
}

// FuzzChunks checks that package net/http reads a body in the same way, and that the sizes of the parts do not matter.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("4\r\nsome\r\n005;a=b\r\n text\r\n0\r\nx-a: b\r\n\r\nnext"), 3)
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		data, rest, trailer, ok := body(raw, len(raw)+1)
		data2, rest2, trailer2, ok2 := body(raw, max(1, size))
		require.Equal(t, []any{data, rest, trailer, ok}, []any{data2, rest2, trailer2, ok2})
		if !ok {
			return
		}
		in := bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(raw)))
		resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // it is in memory
		require.NoError(t, err)
		want, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Skip("net/http has lower limits of extensions") // it refuses what this package passes on without them
		}
		left, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, string(want), string(data))
		require.Equal(t, string(left), string(rest))
	})
}

func TestAppend(t *testing.T) {
	t.Parallel()
	h := httprelay.Header{{Name: "X-A", Value: "b"}, {Name: "X-B", Value: "c\r\nX-Smuggled: d"}, {Name: "X C", Value: "d"}}
	require.Equal(t, "POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nX-A: b\r\n\r\n",
		string(httprelay.AppendRequest(nil, "POST", "/a?b", "h", h, 0, false)), "a line must not be able to add another one")
	require.Equal(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", string(httprelay.AppendRequest(nil, "GET", "/", "h", nil, 0, false)))
	require.Equal(t, "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", string(httprelay.AppendRequest(nil, "GET", "/", "h", nil, -1, true)))
	require.Equal(t, "HTTP/1.1 200 OK\r\nHTTP/1.1 599 status code 599\r\n", string(httprelay.AppendStatus(httprelay.AppendStatus(nil, 200), 599)))
	require.Equal(t, "a\r\n0123456789\r\n0\r\nX-A: b\r\n\r\n",
		string(httprelay.AppendLastChunk(httprelay.AppendChunk(httprelay.AppendChunk(nil, []byte("0123456789")), nil), h[:1])))
}
