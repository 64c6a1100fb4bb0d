package secret_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const rowAAD = "engine.key:rev_01"

func key(t *testing.T, id string) secret.Key {
	t.Helper()
	raw := make([]byte, 32)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	return secret.Key{ID: id, Bytes: raw}
}

func ring(t *testing.T, keys ...secret.Key) *secret.Keyring {
	t.Helper()
	r, err := secret.NewKeyring(keys...)
	require.NoError(t, err)
	return r
}

func TestKeyring_SealAndOpen(t *testing.T) {
	t.Parallel()
	r := ring(t, key(t, "k1"))
	for _, plain := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("long"), 10_000)} {
		sealed, err := r.Seal(plain, rowAAD)
		require.NoError(t, err)
		again, err := r.Seal(plain, rowAAD)
		require.NoError(t, err)
		require.NotEqual(t, sealed, again)
		if len(plain) > 8 {
			require.False(t, bytes.Contains(sealed, plain[:8]))
		}
		out, err := r.Open(sealed, rowAAD)
		require.NoError(t, err)
		require.True(t, bytes.Equal(plain, out))
	}
}

func TestKeyring_Open_otherRowOrChangedByte(t *testing.T) {
	t.Parallel()
	r := ring(t, key(t, "k1"))
	sealed, err := r.Seal([]byte("the key of the engine"), rowAAD)
	require.NoError(t, err)
	for _, other := range []string{"engine.key:rev_02", "engine.name:rev_01", "", rowAAD + " ", "\x00" + rowAAD} {
		_, err := r.Open(sealed, other)
		require.ErrorIs(t, err, secret.ErrOpen, "a value must not open in the row %q", other)
		_, _, err = r.Rewrap(sealed, other)
		require.ErrorIs(t, err, secret.ErrOpen)
	}
	for i := range sealed {
		edited := bytes.Clone(sealed)
		edited[i] ^= 1
		_, err := r.Open(edited, rowAAD)
		require.ErrorIs(t, err, secret.ErrOpen, "a value must not open with byte %d changed", i)
		_, err = r.Open(sealed[:i], rowAAD)
		require.ErrorIs(t, err, secret.ErrOpen, "a value must not open truncated to %d bytes", i)
	}
	_, err = r.Open(append(bytes.Clone(sealed), 0), rowAAD)
	require.ErrorIs(t, err, secret.ErrOpen)
	_, err = ring(t, key(t, "k1")).Open(sealed, rowAAD)
	require.ErrorIs(t, err, secret.ErrOpen, "another keyring with the same key id cannot open the value")
}

func TestKeyring_Open_keyAndValueOfDifferentRows(t *testing.T) {
	t.Parallel()
	r := ring(t, key(t, "k1"))
	a, err := r.Seal([]byte("aaaa"), rowAAD)
	require.NoError(t, err)
	b, err := r.Seal([]byte("bbbb"), rowAAD)
	require.NoError(t, err)
	const head = 2 + len("k1") + 12 + 32 + 16
	_, err = r.Open(append(bytes.Clone(a[:head]), b[head:]...), rowAAD)
	require.ErrorIs(t, err, secret.ErrOpen)
}

func TestKeyring_rotation(t *testing.T) {
	t.Parallel()
	k1, k2 := key(t, "2026-10"), key(t, "2026-11")
	old, both, fresh := ring(t, k1), ring(t, k2, k1), ring(t, k2)
	sealed, err := old.Seal([]byte("v"), rowAAD)
	require.NoError(t, err)
	out, err := both.Open(sealed, rowAAD)
	require.NoError(t, err)
	require.Equal(t, "v", string(out))
	moved, changed, err := both.Rewrap(sealed, rowAAD)
	require.NoError(t, err)
	require.True(t, changed)
	out, err = fresh.Open(moved, rowAAD)
	require.NoError(t, err)
	require.Equal(t, "v", string(out))
	_, err = old.Open(moved, rowAAD)
	require.ErrorContains(t, err, `"2026-11" is not in the keyring`)
	same, changed, err := both.Rewrap(moved, rowAAD)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, moved, same)
}

func TestNewKeyring_invalidKeys(t *testing.T) {
	t.Parallel()
	good := key(t, "k")
	for want, keys := range map[string][]secret.Key{
		"no keys":               {},
		"31 bytes":              {{ID: "k", Bytes: good.Bytes[:31]}},
		"duplicate key":         {good, key(t, "k")},
		"not a valid key id":    {{ID: "a b", Bytes: good.Bytes}},
		"looks like an example": {{ID: "k", Bytes: make([]byte, 32)}},
		"example key":           {{ID: "k", Bytes: []byte("changemechangemechangemechangeme")}},
	} {
		_, err := secret.NewKeyring(keys...)
		require.ErrorContains(t, err, want)
	}
}

func TestParseKeyring(t *testing.T) {
	t.Parallel()
	k := key(t, "a")
	text := "# sealing key first\n\na " + base64.StdEncoding.EncodeToString(k.Bytes) + "\n"
	r, err := secret.ParseKeyring(secret.New(text))
	require.NoError(t, err)
	sealed, err := r.Seal([]byte("v"), rowAAD)
	require.NoError(t, err)
	_, err = ring(t, k).Open(sealed, rowAAD)
	require.NoError(t, err)
	for _, bad := range []string{"", "a", "a b c", "a ***", "a " + planted} {
		_, err := secret.ParseKeyring(secret.New(bad))
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), planted)
	}
}

func TestLoadOrCreateKeyring(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keyring")
	rings := make([]*secret.Keyring, 8)
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() { rings[i], _ = secret.LoadOrCreateKeyring(path) })
	}
	wg.Wait()
	require.NotNil(t, rings[0])
	sealed, err := rings[0].Seal([]byte("v"), rowAAD)
	require.NoError(t, err)
	for _, r := range rings {
		require.NotNil(t, r)
		_, err := r.Open(sealed, rowAAD)
		require.NoError(t, err, "concurrent starts use the same key")
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)

	require.NoError(t, os.Chmod(path, 0o640))
	_, err = secret.LoadOrCreateKeyring(path)
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Truncate(path, 0))
	require.NoError(t, os.Chmod(path, 0o600))
	_, err = secret.LoadOrCreateKeyring(path)
	require.ErrorContains(t, err, "no keys", "an empty file is an error and does not get a new key")
	_, err = secret.LoadOrCreateKeyring(filepath.Join(path, "not-a-folder"))
	require.Error(t, err)
}

func TestLooksRandom(t *testing.T) {
	t.Parallel()
	for range 1000 {
		require.True(t, secret.LooksRandom(key(t, "k").Bytes))
	}
	for _, typed := range []string{"", "changemechangemechangemechangeme", "00000000000000000000000000000000", "secretsecretsecretsecretsecretsecret", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		require.False(t, secret.LooksRandom([]byte(typed)), typed)
	}
}
