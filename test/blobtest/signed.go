package blobtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func signPut(t *testing.T, f Harness, key string, body []byte, expires time.Duration) blob.Signed {
	t.Helper()
	signed, err := f.Store.SignPut(t.Context(), key, blob.SignOptions{Size: int64(len(body)), SHA256: digest(body), Expires: expires})
	require.NoError(t, err)
	return signed
}

func signedPut(t *testing.T, f Harness) {
	t.Helper()
	for _, size := range []int{0, 1, 2<<20 + 3} {
		key, body := fmt.Sprintf("up/%d", size), pattern(size)
		signed := signPut(t, f, key, body, time.Minute)
		require.Equal(t, http.MethodPut, signed.Method)
		require.WithinDuration(t, time.Now().Add(time.Minute), signed.ExpiresAt, 30*time.Second)
		for range 2 { // the second upload is the retry of a client that lost the first response
			status, _, resp := send(t, signed, body)
			require.Equal(t, http.StatusOK, status, "%d bytes: %s", size, resp)
		}
		requireContent(t, f, key, body)
		status, _, got := send(t, signed, nil, method(http.MethodGet))
		require.GreaterOrEqual(t, status, 400, "the upload URL must not allow downloads: %s", got)
	}
}

func signedPutIsBound(t *testing.T, f Harness) {
	t.Helper()
	body := pattern(64)
	signed := signPut(t, f, "up/bound", body, time.Minute)
	refuse := func(what string, body []byte, edits ...edit) {
		status, _, resp := send(t, signed, body, edits...)
		require.False(t, status >= 200 && status < 300, "%s was accepted: %d %s", what, status, resp)
		for _, key := range []string{"up/bound", "up/bounds", "up/other"} {
			requireAbsent(t, f, key)
		}
	}
	other := append([]byte{body[0] ^ 1}, body[1:]...)
	refuse("a different body", other)
	refuse("a shorter body", body[:63], header("Content-Length", "63"))
	refuse("a longer body", append(pattern(64), 'x'), header("Content-Length", "65"))
	refuse("an empty body", []byte{}, header("Content-Length", "0"))
	refuse("a body without a Content-Length", nil, chunked(body))
	for name := range signed.Headers {
		if name != "Content-Length" {
			refuse("a request without "+name, body, header(name, ""))
			refuse("a different body without "+name, other, header(name, ""))
			refuse("a different "+name, body, header(name, "x"))
		}
	}
	for what, e := range edits(signed.URL) {
		if !f.FirstCounts || !strings.HasPrefix(what, repeated) {
			refuse(what, body, e)
		}
	}
	for _, m := range []string{http.MethodPost, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch} {
		refuse(m, body, method(m))
	}
	status, _, resp := send(t, signed, body)
	require.Equal(t, http.StatusOK, status, "the unmodified request must succeed: %s", resp)
}

func signedGet(t *testing.T, f Harness) {
	t.Helper()
	body := pattern(100_000)
	put(t, f, "down/model.gguf", body)
	signed, err := f.Store.SignGet(t.Context(), "down/model.gguf", time.Minute)
	require.NoError(t, err)
	require.Equal(t, http.MethodGet, signed.Method)
	status, h, got := send(t, signed, nil)
	require.Equal(t, http.StatusOK, status, string(got))
	require.True(t, bytes.Equal(body, got))
	require.Equal(t, `attachment; filename="model.gguf"`, h.Get("Content-Disposition"))
	require.Equal(t, "application/octet-stream", h.Get("Content-Type"))
	require.Contains(t, h.Get("Cache-Control"), "no-store")
	status, h, got = send(t, signed, nil, header("Range", "bytes=10-19"))
	require.Equal(t, http.StatusPartialContent, status)
	require.Equal(t, body[10:20], got)
	require.Equal(t, "bytes 10-19/100000", h.Get("Content-Range"))
	status, _, got = send(t, signed, nil, header("Range", "bytes=99990-"))
	require.Equal(t, http.StatusPartialContent, status)
	require.Equal(t, body[99990:], got)
	status, _, _ = send(t, signed, nil, header("Range", "bytes=100000-"))
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, status)
	require.NoError(t, f.Store.Delete(t.Context(), "down/model.gguf"))
	status, _, _ = send(t, signed, nil)
	require.Equal(t, http.StatusNotFound, status)
}

func signedGetOfKnownObject(t *testing.T, f Harness) {
	t.Helper()
	body := pattern(1000)
	put(t, f, "down/known", body)
	info, err := f.Store.Stat(t.Context(), "down/known")
	require.NoError(t, err)
	signed, err := f.Store.SignKnown(t.Context(), info, time.Minute)
	require.NoError(t, err)
	status, h, got := send(t, signed, nil)
	require.Equal(t, http.StatusOK, status)
	require.True(t, bytes.Equal(body, got))
	require.Equal(t, `attachment; filename="known"`, h.Get("Content-Disposition"))
	info.Name = "重み \"5\".bin"
	signed, err = f.Store.SignKnown(t.Context(), info, time.Minute)
	require.NoError(t, err)
	status, h, _ = send(t, signed, nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, `attachment; filename="__ _5_.bin"; filename*=UTF-8''%E9%87%8D%E3%81%BF%20%225%22.bin`, h.Get("Content-Disposition"))
	info.Key = "down/missing"
	signed, err = f.Store.SignKnown(t.Context(), info, time.Minute)
	require.NoError(t, err, "the store must sign the URL without looking for the object")
	status, _, _ = send(t, signed, nil)
	require.Equal(t, http.StatusNotFound, status)
	info.Key = "down/../other"
	_, err = f.Store.SignKnown(t.Context(), info, time.Minute)
	require.True(t, fault.HasCode(err, blob.CodeKey), "%v", err)
}

func signedGetIsBound(t *testing.T, f Harness) {
	t.Helper()
	body := pattern(64)
	put(t, f, "down/bound", body)
	put(t, f, "down/bounds", body)
	put(t, f, "down/other", body)
	signed, err := f.Store.SignGet(t.Context(), "down/bound", time.Minute)
	require.NoError(t, err)
	for what, e := range edits(signed.URL) {
		status, _, got := send(t, signed, nil, e)
		if f.FirstCounts && strings.HasPrefix(what, repeated) {
			continue
		}
		require.GreaterOrEqual(t, status, 400, "%s was accepted: %s", what, got)
		require.NotContains(t, string(got), string(body))
	}
	for _, m := range []string{http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch} {
		status, _, _ := send(t, signed, body, method(m))
		require.False(t, status >= 200 && status < 300, m)
	}
	requireContent(t, f, "down/bound", body)
}

func signingRefuses(t *testing.T, f Harness) {
	t.Helper()
	sum := digest(nil)
	_, err := f.Store.SignPut(t.Context(), "a", blob.SignOptions{Size: f.Limit + 1, SHA256: sum})
	require.True(t, fault.Is(err, fault.TooLarge), "%v", err)
	_, err = f.Store.SignPut(t.Context(), "a", blob.SignOptions{Size: f.Limit, SHA256: sum})
	require.NoError(t, err)
	_, err = f.Store.SignPut(t.Context(), "a", blob.SignOptions{Size: -1, SHA256: sum})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	for _, bad := range []string{"", "abc", sum[:63], sum + "0", strings.ToUpper(sum), sum[:63] + "\n"} {
		_, err = f.Store.SignPut(t.Context(), "a", blob.SignOptions{Size: 1, SHA256: bad})
		require.True(t, fault.Is(err, fault.Invalid), "%q: %v", bad, err)
	}
	_, err = f.Store.SignGet(t.Context(), "a", 0)
	require.True(t, fault.HasCode(err, blob.CodeAbsent), "%v", err)
	for _, d := range []time.Duration{0, -time.Hour, time.Hour, 365 * 24 * time.Hour} {
		signed := signPut(t, f, "a", nil, d)
		require.WithinDuration(t, time.Now().Add(blob.MaxExpires), signed.ExpiresAt, 30*time.Second, "the lifetime must be capped at MaxExpires")
	}
}

func signaturesExpire(t *testing.T, f Harness) {
	t.Helper()
	body := []byte("late")
	put(t, f, "down/late", body)
	down, err := f.Store.SignGet(t.Context(), "down/late", time.Second)
	require.NoError(t, err)
	up := signPut(t, f, "up/late", body, time.Second)
	for _, signed := range []blob.Signed{down, up} {
		require.Eventually(t, func() bool {
			status, _, _ := send(t, signed, nil) // an upload without a body has the wrong length and is never accepted
			return status == http.StatusForbidden
		}, time.Minute, 100*time.Millisecond)
		for what, e := range edits(signed.URL) {
			status, _, _ := send(t, signed, nil, e)
			require.False(t, status >= 200 && status < 300, "%s made the expired URL valid", what)
		}
	}
	status, _, resp := send(t, up, body)
	require.Equal(t, http.StatusForbidden, status, string(resp))
	requireAbsent(t, f, "up/late")
}

// repeated is the first part of the name of each edit that adds a query parameter a second time, after the first.
const repeated = "duplicate after "

// edits returns changes to a signed URL. Each of them must make the URL invalid.
func edits(signed string) map[string]edit {
	all := map[string]edit{
		"a different key": path(func(p string) string { return p[:strings.LastIndexByte(p, '/')] + "/other" }),
		"a longer key":    path(func(p string) string { return p + "s" }),
		"the parent":      path(func(p string) string { return p[:strings.LastIndexByte(p, '/')] }),
		"an extra query":  query(func(pairs []string) []string { return append(pairs, "x=1") }),
		"no query":        query(func([]string) []string { return nil }),
	}
	_, text, _ := strings.Cut(signed, "?")
	for i, pair := range strings.Split(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		last := byte('0')
		if value != "" && value[len(value)-1] == last {
			last = '1'
		}
		changed := name + "=" + value[:max(len(value)-1, 0)] + string(last)
		if strings.HasSuffix(strings.ToLower(name), "expires") {
			changed = name + "=9" + value
		}
		all["without "+name] = query(func(pairs []string) []string { return append(pairs[:i:i], pairs[i+1:]...) })
		all["a different "+name] = query(func(pairs []string) []string { pairs[i] = changed; return pairs })
		all["empty "+name] = query(func(pairs []string) []string { pairs[i] = name + "="; return pairs })
		all[repeated+name] = query(func(pairs []string) []string { return append(pairs, changed) })
		all["duplicate before "+name] = query(func(pairs []string) []string { return append([]string{changed}, pairs...) })
	}
	return all
}

func path(change func(string) string) edit {
	return func(r *http.Request) { r.URL.Path, r.URL.RawPath = change(r.URL.Path), "" }
}

func query(change func([]string) []string) edit {
	return func(r *http.Request) { r.URL.RawQuery = strings.Join(change(strings.Split(r.URL.RawQuery, "&")), "&") }
}

func method(m string) edit { return func(r *http.Request) { r.Method = m } }

func header(name, value string) edit {
	return func(r *http.Request) {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
}

func chunked(body []byte) edit {
	return func(r *http.Request) {
		r.Header.Del("Content-Length")
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
	}
}
