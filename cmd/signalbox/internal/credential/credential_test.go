package credential

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func login(token string) Credential {
	return Credential{Server: "https://x.example", Token: secret.New(token), User: "ada", ExpiresAt: time.Unix(1e9, 0).UTC()}
}

// memory is a keyring whose operations fail or hang on request.
type memory struct {
	mu     sync.Mutex
	values map[string]string
	err    error
	hang   chan struct{}
}

func (m *memory) do(fn func() error) error {
	if m.hang != nil {
		<-m.hang
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	return fn()
}

func (m *memory) Set(service, name, value string) error {
	return m.do(func() error { m.values[service+"/"+name] = value; return nil })
}

func (m *memory) Get(service, name string) (value string, err error) {
	err = m.do(func() error {
		var ok bool
		if value, ok = m.values[service+"/"+name]; !ok {
			return keyring.ErrNotFound
		}
		return nil
	})
	return value, err
}

func (m *memory) Delete(service, name string) error {
	return m.do(func() error {
		if _, ok := m.values[service+"/"+name]; !ok {
			return keyring.ErrNotFound
		}
		delete(m.values, service+"/"+name)
		return nil
	})
}

func newMemory() *memory { return &memory{values: map[string]string{}} }

func TestStore_roundTrip(t *testing.T) {
	t.Parallel()
	for _, s := range []Store{NewFile(filepath.Join(t.TempDir(), "signalbox")), system{ring: newMemory(), timeout: time.Hour}} {
		_, err := s.Get("a")
		require.ErrorIs(t, err, ErrNone)
		require.NoError(t, s.Delete("a"))
		require.NoError(t, s.Set("a", login("t1")))
		require.NoError(t, s.Set("probe", login("t2")))
		require.NoError(t, s.Set("a", login("t3")))
		got, err := s.Get("a")
		require.NoError(t, err)
		require.Equal(t, login("t3"), got)
		require.NoError(t, s.Delete("a"))
		_, err = s.Get("a")
		require.ErrorIs(t, err, ErrNone)
		got, err = s.Get("probe")
		require.NoError(t, err)
		require.Equal(t, "t2", got.Token.Reveal())
		require.NotContains(t, fmt.Sprintf("%v %+v", got, got), "t2")
	}
}

func TestFile_modes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "signalbox")
	require.NoError(t, os.Mkdir(dir, 0o755))
	s := NewFile(dir)
	require.NoError(t, s.Set("a", login("t")))
	path := filepath.Join(dir, FileName)
	for name, mode := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := s.Get("a")
		require.ErrorContains(t, err, "chmod 600")
		require.ErrorContains(t, s.Set("b", login("t")), "chmod 600")
		require.ErrorContains(t, s.Delete("a"), "chmod 600")
	}
	require.NoError(t, os.Chmod(path, 0o600))
	for _, damaged := range []string{"", "{", "[]"} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		require.ErrorContains(t, s.Set("b", login("t")), "remove it and log in again")
	}
	require.NoError(t, os.WriteFile(path, []byte("null"), 0o600))
	require.NoError(t, s.Set("b", login("t")))
}

// Two logins at the same time lose nothing of each other.
func TestFile_concurrent(t *testing.T) {
	t.Parallel()
	s := NewFile(t.TempDir())
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() { errs[i] = s.Set(fmt.Sprint("c", i), login("t")) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for i := range errs {
		_, err := s.Get(fmt.Sprint("c", i))
		require.NoError(t, err)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	broken := errors.New("no secret service")
	working, failing := system{ring: newMemory(), timeout: time.Hour}, system{ring: &memory{err: broken}, timeout: time.Hour}
	dir := t.TempDir()

	s, reason, err := choose(working, "", dir)
	require.NoError(t, err)
	require.NoError(t, reason)
	require.Equal(t, Keyring, s.Kind())
	s, reason, err = choose(failing, "", dir)
	require.NoError(t, err)
	require.ErrorIs(t, reason, broken, "the reason is for the user")
	require.Equal(t, File, s.Kind())

	// A store that the user names is never replaced.
	_, _, err = choose(failing, Keyring, dir)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "--credential-store file")
	s, reason, err = choose(working, File, dir)
	require.NoError(t, err)
	require.NoError(t, reason)
	require.Equal(t, File, s.Kind())
	_, _, err = choose(working, "vault", dir)
	require.ErrorContains(t, err, `"vault" is not a credential store`)
	_, err = Open("", dir)
	require.Error(t, err)
}

func TestSystem_probeKeepsLogins(t *testing.T) {
	t.Parallel()
	ring := newMemory()
	s := system{ring: ring, timeout: time.Hour}
	require.NoError(t, s.Set("probe", login("t")))
	require.NoError(t, s.probe())
	got, err := s.Get("probe")
	require.NoError(t, err)
	require.Equal(t, "t", got.Token.Reveal())
	require.Len(t, ring.values, 1, "the probe leaves nothing")
}

func TestSystem_failures(t *testing.T) {
	t.Parallel()
	broken := errors.New("the keyring is locked")
	s := system{ring: &memory{err: broken}, timeout: time.Hour}
	_, err := s.Get("a")
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrNone, "a login that cannot be read is not a missing one")
	require.ErrorIs(t, s.Set("a", login("hunter2")), broken)
	require.NotContains(t, s.Set("a", login("hunter2")).Error(), "hunter2")
	require.ErrorIs(t, s.Delete("a"), broken)
}

func TestSystem_hangs(t *testing.T) {
	t.Parallel()
	ring := newMemory()
	ring.hang = make(chan struct{})
	t.Cleanup(func() { close(ring.hang) })
	s := system{ring: ring, timeout: time.Millisecond}
	require.ErrorContains(t, s.Set("a", login("t")), "has not responded")
	_, reason, err := choose(s, "", t.TempDir())
	require.NoError(t, err)
	require.ErrorContains(t, reason, "has not responded")
	_, _, err = choose(s, Keyring, t.TempDir())
	require.ErrorContains(t, err, "has not responded")
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	jwt := func(claims string) secret.String {
		return secret.New("h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s")
	}
	require.Equal(t, time.Unix(1700000000, 0).UTC(), Expiry(jwt(`{"exp":1700000000}`)))
	require.Equal(t, time.Unix(1700000000, 0).UTC(), Expiry(jwt(`{"exp":1700000000.7,"sub":"é"}`)))
	for _, other := range []secret.String{
		secret.New(""), secret.New("svc_abc"), secret.New("a.b.c"), jwt(`{}`), jwt(`{"exp":"x"}`), jwt(`{"exp":-1}`), jwt(`{"exp":1e300}`), jwt(`[]`), jwt(``),
	} {
		require.True(t, Expiry(other).IsZero())
	}
}

func TestParseToken(t *testing.T) {
	t.Parallel()
	got, err := ParseToken("  a.b.c\r\n")
	require.NoError(t, err)
	require.Equal(t, "a.b.c", got.Reveal())
	for _, text := range []string{"", " \n", "a b", "hunter2\nhunter2", "hunter2\x00", "hunter2\x1b[0m", "hunter2é"} {
		_, err := ParseToken(text)
		require.ErrorIs(t, err, ErrToken)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
