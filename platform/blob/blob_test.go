package blob_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"path"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func sum(body string) string {
	s := sha256.Sum256([]byte(body))
	return hex.EncodeToString(s[:])
}

func TestURI(t *testing.T) {
	t.Parallel()
	require.Equal(t, "blob://run/r1/a", blob.URI("run/r1/a"))
	key, ok := blob.ParseURI("blob://run/r1/a")
	require.True(t, ok)
	require.Equal(t, "run/r1/a", key)
	for _, bad := range []string{"", "blob://", "s3://b/a", "BLOB://a", "blob:///a", "blob://../a", "file:///etc/passwd", "blob:a"} {
		_, ok := blob.ParseURI(bad)
		require.False(t, ok, bad)
	}
}

func TestExpiresAndLimit(t *testing.T) {
	t.Parallel()
	require.Equal(t, blob.MaxExpires, blob.Expires(0))
	require.Equal(t, blob.MaxExpires, blob.Expires(-1))
	require.Equal(t, blob.MaxExpires, blob.Expires(blob.MaxExpires+1))
	require.Equal(t, time.Second, blob.Expires(time.Second))
	require.Equal(t, int64(3<<20), blob.Limit(3))
	require.Positive(t, blob.Limit(math.MaxInt64))
}

func TestVerifier(t *testing.T) {
	t.Parallel()
	const text = "some bytes to store"
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
		"halves": iotest.HalfReader, "end with data": iotest.DataErrReader,
	} {
		v := blob.NewVerifier(wrap(strings.NewReader(text)), int64(len(text)), sum(text))
		require.NoError(t, iotest.TestReader(v, []byte(text)), name)
		require.NoError(t, v.Err())
		require.NoError(t, v.Broken())
	}
}

// If the bytes are wrong, the verifier holds back the last ones. A consumer that reads only up to the announced length
// therefore gets an error too.
func TestVerifier_holdsBackLastBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sent, code string }{
		"other": {"some Bytes", blob.CodeDigest}, "long": {"some bytes!", blob.CodeLength}, "short": {"some byte", blob.CodeLength},
	} {
		for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
			v := blob.NewVerifier(wrap(strings.NewReader(c.sent)), 10, sum("some bytes"))
			got, err := io.ReadAll(v)
			require.Less(t, len(got), 10, name)
			require.True(t, fault.HasCode(err, c.code), "%s: %v", name, err)
			require.ErrorIs(t, v.Err(), err)
			require.NoError(t, v.Broken())
		}
	}
}

func TestVerifier_Broken(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for name, r := range map[string]io.Reader{
		"at once": iotest.ErrReader(gone), "midway": io.MultiReader(strings.NewReader("some "), iotest.ErrReader(gone)),
		"at the end": io.MultiReader(strings.NewReader("some bytes"), iotest.ErrReader(gone)),
	} {
		v := blob.NewVerifier(r, 10, sum("some bytes"))
		got, err := io.ReadAll(v)
		require.ErrorIs(t, err, gone, name)
		require.ErrorIs(t, v.Broken(), gone, name)
		require.Less(t, len(got), 10, name)
	}
}

func TestChecked_errorNamesObject(t *testing.T) {
	t.Parallel()
	closed := false
	body := readCloser{strings.NewReader("swapped!!!"), func() error { closed = true; return nil }}
	r := blob.VerifyBody(body, blob.Info{Key: "a/b", Size: 10, SHA256: sum("some bytes")})
	_, err := io.ReadAll(r)
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	require.ErrorContains(t, err, "the stored bytes of a/b have changed")
	require.NoError(t, r.Close())
	require.True(t, closed)
	broken := readCloser{iotest.ErrReader(io.ErrUnexpectedEOF), func() error { return nil }}
	_, err = io.ReadAll(blob.VerifyBody(broken, blob.Info{Key: "a/b", Size: 10}))
	require.NotContains(t, err.Error(), "have changed", "a lost connection is not reported as a changed object")
}

type readCloser struct {
	io.Reader
	close func() error
}

func (r readCloser) Close() error { return r.close() }

func FuzzCheckKey(f *testing.F) {
	f.Add("run/r1/a.bin")
	f.Add("../a")
	f.Fuzz(func(t *testing.T, key string) {
		if blob.CheckKey(key) == nil {
			require.Equal(t, key, path.Clean(key))
			require.False(t, path.IsAbs(key))
			require.False(t, bytes.ContainsAny([]byte(key), "@\\:%?# \x00\n"))
			require.NotContains(t, "/"+key, "/.")
		}
	})
}
