package password

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func cheap(t *testing.T, parallel int64) *Hasher {
	t.Helper()
	h, err := New(Params{MemoryKiB: 64, Time: 1, Threads: 1}, parallel, rand.Reader)
	require.NoError(t, err)
	return h
}

func TestCheck(t *testing.T) {
	t.Parallel()
	h := cheap(t, 2)
	stored, err := h.Hash(t.Context(), secret.New("right"))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		stored, password string
		want             bool
	}{
		"right":                        {stored, "right", true},
		"wrong":                        {stored, "wrong", false},
		"empty":                        {stored, "", false},
		"unknown account":              {"", "right", false},
		"unknown account, dummy's own": {"", "", false},
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

func TestOldParamsStillCheck(t *testing.T) {
	t.Parallel()
	stored, err := cheap(t, 1).Hash(t.Context(), secret.New("x"))
	require.NoError(t, err)
	dearer, err := New(Params{MemoryKiB: 128, Time: 2, Threads: 1}, 1, rand.Reader)
	require.NoError(t, err)
	ok, err := dearer.Check(t.Context(), stored, secret.New("x"))
	require.NoError(t, err)
	require.True(t, ok)
}

func TestFullQueueIsRefused(t *testing.T) {
	t.Parallel()
	h := cheap(t, 1)
	var releases []func()
	releases = append(releases, must(h.enter(t.Context())))
	ctx, cancel := context.WithCancel(t.Context())
	waiters := make(chan error, waiting)
	for range waiting - 1 {
		go func() { _, err := h.enter(ctx); waiters <- err }()
	}
	require.Eventually(t, func() bool { return !h.queue.TryAcquire(1) || func() bool { h.queue.Release(1); return false }() }, waitFor, tick)
	_, err := h.enter(t.Context())
	require.ErrorIs(t, err, ErrBusy)
	cancel()
	for range waiting - 1 {
		require.ErrorIs(t, <-waiters, context.Canceled)
	}
	releases[0]()
	release, err := h.enter(t.Context())
	require.NoError(t, err, "the queue has room again")
	release()
}

func TestStoredRubbishIsAnError(t *testing.T) {
	t.Parallel()
	_, err := cheap(t, 1).Check(t.Context(), "$2y$10$abc", secret.New("x"))
	require.ErrorIs(t, err, errStored)
}

const (
	waitFor = 5 * 1e9
	tick    = 1e6
)

func must(f func(), err error) func() {
	if err != nil {
		panic(err)
	}
	return f
}
