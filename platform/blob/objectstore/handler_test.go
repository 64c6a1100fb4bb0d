package objectstore_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

type reply struct {
	status int
	header http.Header
	body   string
	code   string
}

func call(t *testing.T, method, target string, body io.Reader, length int64) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, body)
	require.NoError(t, err)
	req.ContentLength = length
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	r := reply{status: resp.StatusCode, header: resp.Header, body: string(raw)}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && resp.StatusCode != http.StatusOK && method != http.MethodHead {
		var doc struct {
			Detail any
			Code   string
		}
		require.NoError(t, json.Unmarshal(raw, &doc), string(raw))
		require.NotEmpty(t, doc.Detail)
		r.code = doc.Code
	}
	return r
}

func (r *harness) signPut(t *testing.T, key, body string) string {
	t.Helper()
	signed, err := r.SignPut(t.Context(), key, blob.SignOptions{Size: int64(len(body)), SHA256: sum(body)})
	require.NoError(t, err)
	return signed.URL
}

func TestHandler_upload(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	const text = "ten bytes!"
	good := r.signPut(t, "up/a", text)
	for name, c := range map[string]struct {
		target, body string
		length       int64
		status       int
		code         string
	}{
		"chunked":         {good, text, -1, 411, ""},
		"over the limit":  {good, strings.Repeat("x", limit+1), limit + 1, 413, blob.CodeTooLarge},
		"longer":          {good, text + "x", 11, 422, blob.CodeLength},
		"shorter":         {good, "x", 1, 422, blob.CodeLength},
		"other bytes":     {good, "TEN BYTES!", 10, 422, blob.CodeDigest},
		"no signature":    {r.server.URL + "/api/blobs/up/a", text, 10, 401, objectstore.CodeUnsigned},
		"bad signature":   {good + "0", text, 10, 403, objectstore.CodeSignature},
		"escaped key":     {strings.Replace(good, "/up/a", "/up%2Fa", 1), text, 10, 403, objectstore.CodeSignature},
		"dot segments":    {strings.Replace(good, "/up/a", "/x/../up/a", 1), text, 10, 403, objectstore.CodeSignature},
		"broken escaping": {good + "&%zz", text, 10, 403, objectstore.CodeSignature},
		"semicolon":       {good + ";x=1", text, 10, 403, objectstore.CodeSignature},
	} {
		got := call(t, http.MethodPut, c.target, strings.NewReader(c.body), c.length)
		require.Equal(t, c.status, got.status, "%s: %s", name, got.body)
		require.Equal(t, c.code, got.code, name)
		require.Regexp(t, `^req_[0-9a-z]{26}$`, got.header.Get("X-Request-Id"), name)
		_, err := r.Stat(t.Context(), "up/a")
		require.True(t, fault.HasCode(err, blob.CodeAbsent), name)
	}
	got := call(t, http.MethodPut, good, strings.NewReader(text), 10)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.JSONEq(t, fmt.Sprintf(`{"key":"up/a","size":10,"sha256":%q}`, sum(text)), got.body)
	again := call(t, http.MethodPut, good, strings.NewReader(text), 10)
	require.Equal(t, got.body, again.body)
	wrong := call(t, http.MethodPut, good, strings.NewReader("TEN BYTES!"), 10)
	require.Equal(t, http.StatusUnprocessableEntity, wrong.status)
	require.Empty(t, r.log.String(), "client errors are not logged")
}

func TestHandler_unsatisfiableRange(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	const text = "ten bytes!"
	require.NoError(t, r.Put(t.Context(), "down/a", strings.NewReader(text), int64(len(text)), sum(text)))
	signed, err := r.SignGet(t.Context(), "down/a", time.Minute)
	require.NoError(t, err)
	for _, byteRange := range []string{"bytes=10-", "bytes=7-3", "bytes=x"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, signed.URL, nil)
		require.NoError(t, err)
		req.Header.Set("Range", byteRange)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusRequestedRangeNotSatisfiable, resp.StatusCode, byteRange)
		require.JSONEq(t, `{"detail":"the range is invalid or outside the object's 10 bytes","code":"range"}`, string(raw), byteRange)
		require.Equal(t, []string{"application/json"}, resp.Header.Values("Content-Type"))
		require.Equal(t, []string{"private, no-store"}, resp.Header.Values("Cache-Control"))
		require.Empty(t, resp.Header.Values("Content-Disposition"))
	}
}

func TestHandler_digestMismatch(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	got := call(t, http.MethodPut, r.signPut(t, "a", "right"), strings.NewReader("wrong"), 5)
	require.JSONEq(t, `{"detail":[{"type":"digest_mismatch","loc":["body"],"msg":"the bytes do not match the announced SHA-256"}],
		"code":"digest_mismatch"}`, got.body)
}

func TestHandler_uploadConflict(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	late := r.signPut(t, "a", "second")
	r.put(t, "a", "first!")
	got := call(t, http.MethodPut, late, strings.NewReader("second"), 6)
	require.Equal(t, http.StatusConflict, got.status)
	require.Equal(t, blob.CodeDiffers, got.code)
}

func TestHandler_download(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "a/page.html", "<script>alert(1)</script>")
	signed, err := r.SignGet(t.Context(), "a/page.html", 0)
	require.NoError(t, err)
	got := call(t, http.MethodGet, signed.URL, nil, 0)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/octet-stream", got.header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="page.html"`, got.header.Get("Content-Disposition"))
	require.Equal(t, "sandbox; default-src 'none'", got.header.Get("Content-Security-Policy"))
	require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	require.Equal(t, `"`+sum("<script>alert(1)</script>")+`"`, got.header.Get("Etag"))

	require.NoError(t, r.Delete(t.Context(), "a/page.html"))
	r.put(t, "a/page.html", "another object under that key")
	require.Equal(t, http.StatusNotFound, call(t, http.MethodGet, signed.URL, nil, 0).status, "the signature covers the bytes, not only the key")

	head := call(t, http.MethodHead, signed.URL, nil, 0)
	require.Equal(t, http.StatusMethodNotAllowed, head.status)
	require.Equal(t, "GET, PUT", head.header.Get("Allow"))
}

// A client that downloads an object in parts can continue only if the object is the same, and can verify the whole
// object.
func TestHandler_download_parts(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	const text = "ten bytes!"
	r.put(t, "a", text)
	signed, err := r.SignGet(t.Context(), "a", 0)
	require.NoError(t, err)
	etag, other := `"`+sum(text)+`"`, `"`+sum("other")+`"`
	raw := sha256.Sum256([]byte(text))
	for name, c := range map[string]struct {
		ranges, ifRange string
		status          int
		body            string
	}{
		"whole":         {"", "", http.StatusOK, text},
		"part":          {"bytes=4-", "", http.StatusPartialContent, "bytes!"},
		"from start":    {"bytes=0-", "", http.StatusPartialContent, text},
		"same object":   {"bytes=4-", etag, http.StatusPartialContent, "bytes!"},
		"other object":  {"bytes=4-", other, http.StatusOK, text},
		"date":          {"bytes=4-", "Sat, 21 Nov 2026 09:00:00 GMT", http.StatusOK, text},
		"without range": {"", other, http.StatusOK, text},
	} {
		resp := getPart(t, signed.URL, c.ranges, c.ifRange)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err, name)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, name)
		require.Equal(t, c.body, string(body), name)
		require.Equal(t, etag, resp.Header.Get("Etag"), name)
		require.Equal(t, "sha-256=:"+base64.StdEncoding.EncodeToString(raw[:])+":", resp.Header.Get("Repr-Digest"), name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.root, "a@", sum(text)), []byte("Ten bytes!"), 0o600))
	for name, known := range map[string]string{"from start": "", "another object": other} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, signed.URL, nil)
		require.NoError(t, err)
		req.Header.Set("Range", "bytes=0-")
		req.Header.Set("If-Range", known)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // the connection ended before the head was sent
		}
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		require.Error(t, err, "%s: a response with the whole object is verified", name)
	}
}

func getPart(t *testing.T, url, ranges, ifRange string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for name, value := range map[string]string{"Range": ranges, "If-Range": ifRange} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return resp
}

// Bytes that changed on disk never arrive as a complete response.
func TestHandler_download_changedBytes(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 10, "large": 4 << 20} {
		r := open(t, nil)
		text := strings.Repeat("x", size)
		r.put(t, "a", text)
		signed, err := r.SignGet(t.Context(), "a", 0)
		require.NoError(t, err)
		require.Equal(t, text, call(t, http.MethodGet, signed.URL, nil, 0).body, name)
		require.NoError(t, os.WriteFile(filepath.Join(r.root, "a@", sum(text)), []byte("y"+text[1:]), 0o600))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, signed.URL, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // the connection ended before the head was sent
		}
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		require.Error(t, err, name)
		require.Less(t, len(got), size, name)
	}
}

func TestHandler_signatureExpiry(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 999_000_000, time.UTC))
	r := open(t, func(c *objectstore.FileConfig) { c.Clock = clk })
	r.put(t, "a", "text")
	signed, err := r.SignGet(t.Context(), "a", time.Hour)
	require.NoError(t, err)
	require.Equal(t, "2026-11-21T03:15:00Z", signed.ExpiresAt.Format(time.RFC3339Nano))
	clk.Advance(15*time.Minute - time.Second)
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, signed.URL, nil, 0).status)
	clk.Advance(time.Second)
	got := call(t, http.MethodGet, signed.URL, nil, 0)
	require.Equal(t, http.StatusForbidden, got.status)
	require.Equal(t, objectstore.CodeExpired, got.code)
	got = call(t, http.MethodGet, signed.URL+"0", nil, 0)
	require.Equal(t, objectstore.CodeSignature, got.code, "expiry is not reported for a forged signature")
}

func TestSigningKeys(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "a", "text")
	signed, err := r.SignGet(t.Context(), "a", 0)
	require.NoError(t, err)
	path := func(base string) string {
		u, err := url.Parse(signed.URL)
		require.NoError(t, err)
		return base + u.RequestURI()
	}
	peer := open(t, func(c *objectstore.FileConfig) { c.Root = r.root })
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, path(peer.server.URL), nil, 0).status, "processes with the same folder share the key")
	other := open(t, func(c *objectstore.FileConfig) { c.Root, c.SigningKey = r.root, secret.New(strings.Repeat("k", 32)) })
	require.Equal(t, http.StatusForbidden, call(t, http.MethodGet, path(other.server.URL), nil, 0).status)

	info, err := os.Stat(filepath.Join(r.root, ".signing-key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = objectstore.OpenFiles(objectstore.FileConfig{Root: t.TempDir(), SigningKey: secret.New("short"), Clock: clock.Real()})
	require.ErrorContains(t, err, "at least 32 characters")
	damaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(damaged, ".signing-key"), nil, 0o600))
	_, err = objectstore.OpenFiles(objectstore.FileConfig{Root: damaged, Clock: clock.Real()})
	require.ErrorContains(t, err, "is damaged")
}

func TestHandler_keepsRequestID(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	handler := r.Handler()
	r.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		handler.ServeHTTP(w, q.WithContext(obs.WithRequestID(q.Context(), "req_from_gateway")))
	})
	got := call(t, http.MethodGet, r.server.URL+"/api/blobs/a", nil, 0)
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Equal(t, "req_from_gateway", got.header.Get("X-Request-Id"))
}

func TestHandler_storeFailure(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	target := r.signPut(t, "a", "text")
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, ".aside")))
	got := call(t, http.MethodPut, target, strings.NewReader("text"), 4)
	require.Equal(t, http.StatusBadGateway, got.status)
	require.Equal(t, blob.CodeStore, got.code)
	require.NotContains(t, got.body, r.root)
	require.Contains(t, r.log.String(), "request to a signed URL failed")
}

// No client library would send these requests, so the test writes them to a TCP connection itself.
func TestHandler_framing(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	u, err := url.Parse(r.signPut(t, "raw", "text"))
	require.NoError(t, err)
	const second = "GET /second HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, c := range map[string]struct {
		framing, body string
		status        int
		closes        bool
	}{
		"no length":          {"", second, 411, true},
		"length and chunked": {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "4\r\ntext\r\n0\r\n\r\n" + second, 411, true},
		"chunked and length": {"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "4\r\ntext\r\n0\r\n\r\n" + second, 411, true},
		"chunked":            {"Transfer-Encoding: chunked\r\n", "4\r\ntext\r\n0\r\n\r\n", 411, true},
		"two lengths":        {"Content-Length: 4\r\nContent-Length: 5\r\n", "text" + second, 400, true},
		"negative":           {"Content-Length: -4\r\n", "text", 400, true},
		"not a number":       {"Content-Length: 0x4\r\n", "text", 400, true},
		"other encoding":     {"Transfer-Encoding: gzip\r\n", "text", 501, true},
		"truncated body":     {"Content-Length: 4\r\n", "te", 400, false},
		"valid":              {"Content-Length: 4\r\n", "text", 200, false},
	} {
		request := "PUT " + u.RequestURI() + " HTTP/1.1\r\nHost: h\r\n" + c.framing + "\r\n" + c.body
		statuses := raw(t, u.Host, request, c.closes)
		require.Len(t, statuses, 1, "%s: one request, one response", name)
		require.Equal(t, c.status, statuses[0], name)
		_, err := r.Stat(t.Context(), "raw")
		require.Equal(t, c.status == http.StatusOK, err == nil, name)
		require.NoError(t, r.Delete(t.Context(), "raw"))
	}
}

// raw sends the bytes and returns the status of every response on the connection. If serverCloses is false, raw
// closes its side of the connection first.
func raw(t *testing.T, addr, request string, serverCloses bool) []int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the server may already have closed it
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = conn.Write([]byte(request))
	require.NoError(t, err)
	if !serverCloses {
		tcp, ok := conn.(*net.TCPConn)
		require.True(t, ok)
		require.NoError(t, tcp.CloseWrite())
	}
	var statuses []int
	for in := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			return statuses
		}
		statuses = append(statuses, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
}

func TestHandler_clientDisconnect(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	u, err := url.Parse(r.signPut(t, "raw", strings.Repeat("x", 1<<20)))
	require.NoError(t, err)
	head := "PUT " + u.RequestURI() + " HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n"
	require.Equal(t, []int{http.StatusBadRequest}, raw(t, u.Host, head+strings.Repeat("x", 1000), false))
	left, err := os.ReadDir(filepath.Join(r.root, ".aside"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NotContains(t, r.log.String(), "request to a signed URL failed")
}
