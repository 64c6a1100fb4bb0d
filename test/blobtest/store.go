package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func putAndGet(t *testing.T, f Harness) {
	t.Helper()
	for _, size := range []int{0, 1, 4096, 3<<20 + 17} {
		key, body := fmt.Sprintf("run/r1/file-%d.bin", size), pattern(size)
		require.NoError(t, f.Store.Put(t.Context(), key, iotest.HalfReader(bytes.NewReader(body)), int64(size), digest(body)))
		requireContent(t, f, key, body)
	}
	body, _, err := f.Store.Get(t.Context(), "run/r1/file-4096.bin")
	require.NoError(t, err)
	require.NoError(t, body.Close(), "Close must succeed before the end of the object")
}

func putRefusesWrongBytes(t *testing.T, f Harness) {
	t.Helper()
	body := pattern(100)
	other := append([]byte{body[0] ^ 1}, body[1:]...)
	for name, c := range map[string]struct {
		sent []byte
		size int64
		sum  string
		kind fault.Kind
		code string
	}{
		"other bytes":  {other, 100, digest(body), fault.Invalid, blob.CodeDigest},
		"too few":      {body[:99], 100, digest(body), fault.Invalid, blob.CodeLength},
		"too many":     {append(pattern(100), 'x'), 100, digest(body), fault.Invalid, blob.CodeLength},
		"not empty":    {[]byte("x"), 0, digest(nil), fault.Invalid, blob.CodeLength},
		"empty digest": {nil, 0, digest(body), fault.Invalid, blob.CodeDigest},
		"negative":     {body, -1, digest(body), fault.Invalid, ""},
		"no digest":    {body, 100, "", fault.Invalid, ""},
		"upper case":   {body, 100, strings.ToUpper(digest(body)), fault.Invalid, ""},
		"too large":    {body, f.Limit + 1, digest(body), fault.TooLarge, blob.CodeTooLarge},
	} {
		key := "run/r1/" + strings.ReplaceAll(name, " ", "-")
		err := f.Store.Put(t.Context(), key, bytes.NewReader(c.sent), c.size, c.sum)
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		require.True(t, fault.HasCode(err, c.code), "%s: %v", name, err)
		requireAbsent(t, f, key)
	}
	found, err := f.Store.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, found)
}

func putRefusesBrokenReader(t *testing.T, f Harness) {
	t.Helper()
	body := pattern(1 << 20)
	gone := errors.New("network is down")
	broken := io.MultiReader(bytes.NewReader(body[:1<<19]), iotest.ErrReader(gone))
	err := f.Store.Put(t.Context(), "a", broken, int64(len(body)), digest(body))
	require.ErrorIs(t, err, gone)
	requireAbsent(t, f, "a")

	ctx, cancel := context.WithCancel(t.Context())
	stopping := io.MultiReader(bytes.NewReader(body[:1<<19]), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, nil
	}), bytes.NewReader(body[1<<19:]))
	err = f.Store.Put(ctx, "b", stopping, int64(len(body)), digest(body))
	require.ErrorIs(t, err, context.Canceled)
	requireAbsent(t, f, "b")
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(p []byte) (int, error) {
	n, err := r(p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func writeOnce(t *testing.T, f Harness) {
	t.Helper()
	body, other := []byte("first"), []byte("other")
	put(t, f, "a/b", body)
	put(t, f, "a/b", body)
	err := f.Store.Put(t.Context(), "a/b", bytes.NewReader(other), 5, digest(other))
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	require.True(t, fault.HasCode(err, blob.CodeDiffers))
	err = f.Store.Put(t.Context(), "a/b", bytes.NewReader(other), 5, digest(body))
	require.True(t, fault.HasCode(err, blob.CodeDigest), "the bytes must be verified even if the object exists: %v", err)
	requireContent(t, f, "a/b", body)
}

func racingPuts(t *testing.T, f Harness) {
	t.Helper()
	body := pattern(100_000)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = f.Store.Put(t.Context(), "deep/er/race", bytes.NewReader(body), int64(len(body)), digest(body))
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	requireContent(t, f, "deep/er/race", body)
}

func keys(t *testing.T, f Harness) {
	t.Helper()
	body := []byte("x")
	for _, key := range []string{"a", "A-b_c.d=e/0", "run/run_01kab/checkpoint-5.safetensors", strings.Repeat("k", 200)} {
		put(t, f, key, body)
		requireContent(t, f, key, body)
	}
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", ".hidden", "a/.hidden", "a\\b", "a b",
		"a\x00b", "a\n", "a@", "a@/b", "é", "%2e%2e", "a?b", "a#b", "a:b", "~", strings.Repeat("k", 201),
		strings.Repeat("a/", 256) + "a", "C:\\a", "a/b/../../../etc/passwd",
	} {
		check := func(err error) {
			require.True(t, fault.Is(err, fault.Invalid), "%q: %v", key, err)
			require.True(t, fault.HasCode(err, blob.CodeKey), "%q: %v", key, err)
		}
		check(f.Store.Put(t.Context(), key, bytes.NewReader(body), 1, digest(body)))
		_, err := f.Store.Stat(t.Context(), key)
		check(err)
		_, _, err = f.Store.Get(t.Context(), key)
		check(err)
		check(f.Store.Delete(t.Context(), key))
		_, err = f.Store.SignPut(t.Context(), key, blob.SignOptions{Size: 1, SHA256: digest(body)})
		check(err)
		_, err = f.Store.SignGet(t.Context(), key, 0)
		check(err)
	}
}

func deletes(t *testing.T, f Harness) {
	t.Helper()
	require.NoError(t, f.Store.Delete(t.Context(), "never/was"))
	put(t, f, "a/b/c", []byte("1"))
	put(t, f, "a/b/d", []byte("2"))
	require.NoError(t, f.Store.Delete(t.Context(), "a/b/c"))
	requireAbsent(t, f, "a/b/c")
	requireContent(t, f, "a/b/d", []byte("2"))
	require.NoError(t, f.Store.Delete(t.Context(), "a/b/d"))
	require.NoError(t, f.Store.Delete(t.Context(), "a/b/d"))
	put(t, f, "a/b/c", []byte("another"))
	requireContent(t, f, "a/b/c", []byte("another"))
}

func list(t *testing.T, f Harness) {
	t.Helper()
	sorted := []string{"a", "b-c", "b.d", "b/0", "b/c/d", "b/e", "b0", "run/run1/x", "run/run10/x", "z"}
	for _, key := range []string{"run/run10/x", "b/e", "z", "b0", "b/c/d", "a", "b.d", "b-c", "run/run1/x", "b/0"} {
		put(t, f, key, []byte(key))
	}
	for name, c := range map[string]struct {
		prefix, after string
		limit         int
		want          []string
	}{
		"all":               {"", "", 100, sorted},
		"first":             {"", "", 3, sorted[:3]},
		"next":              {"", "b.d", 3, sorted[3:6]},
		"after missing key": {"", "b/b", 2, []string{"b/c/d", "b/e"}},
		"after nested key":  {"", "b/c/d", 2, []string{"b/e", "b0"}},
		"last":              {"", "z", 3, nil},
		"folder":            {"b/", "", 100, []string{"b/0", "b/c/d", "b/e"}},
		"part of a name":    {"b", "", 100, sorted[1:7]},
		"run1 is not run10": {"run/run1/", "", 100, []string{"run/run1/x"}},
		"folder and after":  {"b/", "b/0", 1, []string{"b/c/d"}},
		"no match":          {"c/", "", 100, nil},
	} {
		found, err := f.Store.List(t.Context(), c.prefix, c.after, c.limit)
		require.NoError(t, err, name)
		var got []string
		for _, info := range found {
			got = append(got, info.Key)
			require.Equal(t, int64(len(info.Key)), info.Size)
			require.Empty(t, info.SHA256)
			require.False(t, info.Modified.IsZero())
		}
		require.Equal(t, c.want, got, name)
	}
	for _, prefix := range []string{"../", "/", ".", "a//", "a b"} {
		_, err := f.Store.List(t.Context(), prefix, "", 10)
		require.True(t, fault.HasCode(err, blob.CodeKey), "%q", prefix)
	}
}

func openKnown(t *testing.T, f Harness) {
	t.Helper()
	read := func(info blob.Info) (string, error) {
		body, err := f.Store.OpenKnown(t.Context(), info)
		if err != nil {
			return "", err
		}
		raw, err := io.ReadAll(body)
		return string(raw), errors.Join(err, body.Close())
	}
	for key, text := range map[string]string{"a/b": "data", "a/empty": ""} {
		put(t, f, key, []byte(text))
		known := blob.Info{Key: key, Size: int64(len(text)), SHA256: digest([]byte(text))}
		got, err := read(known)
		require.NoError(t, err, key)
		require.Equal(t, text, got)
		longer := known
		longer.Size++
		_, err = read(longer)
		require.True(t, fault.HasCode(err, blob.CodeStore), "%s with another size: %v", key, err)
		other := known
		other.SHA256 = digest([]byte("other"))
		_, err = read(other)
		require.True(t, fault.HasCode(err, blob.CodeStore) || fault.Is(err, fault.Absent), "%s with another digest: %v", key, err)
	}
	_, err := read(blob.Info{Key: "missing", Size: 4, SHA256: digest([]byte("data"))})
	require.True(t, fault.HasCode(err, blob.CodeAbsent), "%v", err)
	for name, info := range map[string]blob.Info{
		"key": {Key: "a/../b", SHA256: digest(nil)}, "digest": {Key: "a/b", Size: 4, SHA256: "x"},
	} {
		_, err = read(info)
		require.True(t, fault.Is(err, fault.Invalid), "invalid %s: %v", name, err)
	}
}
