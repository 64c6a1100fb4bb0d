package password

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func cheap(t *testing.T, parallel int64) *Hasher {
	t.Helper()
	h, err := New(Params{MemoryKiB: 64, Time: 1, Threads: 1}, parallel, rand.Reader)
	require.NoError(t, err)
	return h
}

func TestHasher_Check_onlyRightPassword(t *testing.T) {
	t.Parallel()
	h := cheap(t, 2)
	stored, err := h.Hash(t.Context(), secret.New("right"))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		stored, password string
		want             bool
	}{
		"right":                  {stored, "right", true},
		"wrong":                  {stored, "wrong", false},
		"empty":                  {stored, "", false},
		"unknown account":        {"", "right", false},
		"unknown account, empty": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := h.Check(t.Context(), c.stored, secret.New(c.password))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestHashesAreSalted(t *testing.T) {
	t.Parallel()
	h := cheap(t, 1)
	a, err := h.Hash(t.Context(), secret.New("x"))
	require.NoError(t, err)
	b, err := h.Hash(t.Context(), secret.New("x"))
	require.NoError(t, err)
	require.NotEqual(t, a, b)
}

func TestHasher_Check_olderParams(t *testing.T) {
	t.Parallel()
	stored, err := cheap(t, 1).Hash(t.Context(), secret.New("x"))
	require.NoError(t, err)
	costlier, err := New(Params{MemoryKiB: 128, Time: 2, Threads: 1}, 1, rand.Reader)
	require.NoError(t, err)
	ok, err := costlier.Check(t.Context(), stored, secret.New("x"))
	require.NoError(t, err)
	require.True(t, ok)
}

func TestHasher_fullQueue(t *testing.T) {
	t.Parallel()
	h := cheap(t, 1)
	var releases []func()
	releases = append(releases, must(h.enter(t.Context())))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// One more waiter than the queue has places left. The waiter that is refused shows that the others have filled it.
	waiters := make(chan error, waiting)
	for range waiting {
		go func() { _, err := h.enter(ctx); waiters <- err }()
	}
	require.ErrorIs(t, <-waiters, ErrBusy)
	_, err := h.enter(t.Context())
	require.ErrorIs(t, err, ErrBusy)
	cancel()
	for range waiting - 1 {
		require.ErrorIs(t, <-waiters, context.Canceled)
	}
	releases[0]()
	release, err := h.enter(t.Context())
	require.NoError(t, err, "a hash may begin when the queue has room again")
	release()
}

func TestWorkers_halfOfProcessorsByDefault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		configured, processors int
		want                   int64
	}{{0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {0, 8, 4}, {3, 2, 3}} {
		require.Equal(t, c.want, Workers(c.configured, c.processors), "%+v", c)
	}
}

// Of 100 concurrent checks, those that find no place in the queue are refused before any of the others has finished.
func TestHasher_Check_hundredAtOnce(t *testing.T) {
	t.Parallel()
	h := cheap(t, Workers(0, 2))
	stored, err := h.Hash(t.Context(), secret.New("right"))
	require.NoError(t, err)
	held := must(h.enter(t.Context()))
	results := make(chan error, 100)
	for range 100 {
		go func() {
			ok, err := h.Check(t.Context(), stored, secret.New("right"))
			if err == nil && !ok {
				err = errStored
			}
			results <- err
		}()
	}
	for range 100 - (waiting - 1) {
		require.ErrorIs(t, <-results, ErrBusy)
	}
	require.Empty(t, results)
	held()
	for range waiting - 1 {
		require.NoError(t, <-results)
	}
}

func TestHasher_Check_foreignHash(t *testing.T) {
	t.Parallel()
	_, err := cheap(t, 1).Check(t.Context(), "$2y$10$abc", secret.New("x"))
	require.ErrorIs(t, err, errStored)
}

func must(f func(), err error) func() {
	if err != nil {
		panic(err)
	}
	return f
}

func TestHasher_longestPassword(t *testing.T) {
	t.Parallel()
	h := cheap(t, 1)
	longest := strings.Repeat("x", MaxBytes)
	stored, err := h.Hash(t.Context(), secret.New(longest))
	require.NoError(t, err)
	ok, err := h.Check(t.Context(), stored, secret.New(longest))
	require.NoError(t, err)
	require.True(t, ok)
	_, err = h.Hash(t.Context(), secret.New(longest+"x"))
	require.ErrorIs(t, err, ErrTooLong)
	ok, err = h.Check(t.Context(), stored, secret.New(longest+"x"))
	require.NoError(t, err)
	require.False(t, ok)
}

func TestHasher_Outdated_ifCostsDiffer(t *testing.T) {
	t.Parallel()
	h := cheap(t, 1)
	stored, err := h.Hash(t.Context(), secret.New("x"))
	require.NoError(t, err)
	require.False(t, h.Outdated(stored))
	require.False(t, h.Outdated("rubbish"), "Check reports an invalid hash, Outdated does not")
	for name, p := range map[string]Params{
		"memory": {MemoryKiB: 128, Time: 1, Threads: 1}, "time": {MemoryKiB: 64, Time: 2, Threads: 1}, "threads": {MemoryKiB: 64, Time: 1, Threads: 2},
	} {
		other, err := New(p, 1, rand.Reader)
		require.NoError(t, err)
		require.True(t, other.Outdated(stored), name)
	}
}

func TestHasher_Check_malformedHashes(t *testing.T) {
	t.Parallel()
	h := cheap(t, 1)
	good, err := h.Hash(t.Context(), secret.New("x"))
	require.NoError(t, err)
	for name, stored := range map[string]string{
		"another algorithm": strings.Replace(good, "argon2id", "argon2i", 1),
		"another version":   strings.Replace(good, "v=19", "v=16", 1),
		"text in front":     "x" + good,
		"no costs":          strings.Replace(good, "m=64,t=1,p=1", "m,t,p", 1),
		"no passes":         strings.Replace(good, "t=1", "t=0", 1),
		"no lanes":          strings.Replace(good, "p=1", "p=0", 1),
		"no memory":         strings.Replace(good, "m=64", "m=0", 1),
		"a short key":       good[:len(good)-4],
		"no key":            good[:strings.LastIndexByte(good, '$')+1],
		"salt not base64":   strings.Replace(good, "p=1$", "p=1$!", 1),
	} {
		require.NotEqual(t, good, stored, name)
		_, err := h.Check(t.Context(), stored, secret.New("x"))
		require.ErrorIs(t, err, errStored, name)
	}
}

func TestNew_rejectsZeroCosts(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Params{
		"memory": {Time: 1, Threads: 1}, "time": {MemoryKiB: 64, Threads: 1}, "threads": {MemoryKiB: 64, Time: 1},
	} {
		_, err := New(p, 1, rand.Reader)
		require.Error(t, err, name)
	}
	_, err := New(Params{MemoryKiB: 64, Time: 1, Threads: 1}, 0, rand.Reader)
	require.Error(t, err)
}

func TestNew_noEntropy(t *testing.T) {
	t.Parallel()
	_, err := New(Params{MemoryKiB: 64, Time: 1, Threads: 1}, 1, iotest.ErrReader(io.ErrUnexpectedEOF))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
