package uselock_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/pgtest/pgserver/uselock"
)

func tryExclusive(t *testing.T, dir string, d time.Duration) (done func(), ok bool) {
	t.Helper()
	done, ok, err := uselock.TryExclusive(dir, d)
	require.NoError(t, err)
	return done, ok
}

// canceled returns a canceled context, so that a call does not wait.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestTryExclusive_onlyWithoutRecentUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := uselock.Shared(t.Context(), dir)
	require.NoError(t, err)
	b, err := uselock.Shared(t.Context(), dir)
	require.NoError(t, err, "several shared locks must be allowed")
	_, ok := tryExclusive(t, dir, 0)
	require.False(t, ok)
	a.Release()
	_, ok = tryExclusive(t, dir, 0)
	require.False(t, ok)
	b.Release()
	_, ok = tryExclusive(t, dir, time.Hour)
	require.False(t, ok, "the exclusive lock must not be available so soon after the last shared lock")
	done, ok := tryExclusive(t, dir, 0)
	require.True(t, ok)

	_, err = uselock.Shared(canceled(t), dir)
	require.ErrorIs(t, err, context.Canceled, "no shared lock may be taken while the server is being stopped")
	done()
	c, err := uselock.Shared(t.Context(), dir)
	require.NoError(t, err)
	c.Release()
}

func TestOwn_onlyOneOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.False(t, uselock.Owned(dir))
	done, err := uselock.Own(dir)
	require.NoError(t, err)
	require.True(t, uselock.Owned(dir))
	_, err = uselock.Own(dir)
	require.ErrorContains(t, err, "another process owns the server")
	raw, err := os.ReadFile(filepath.Join(dir, "owner.lock"))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid()), strings.TrimSpace(string(raw)))
	done()
	require.False(t, uselock.Owned(dir))
}

func TestExclusive_waitsForUnlock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := uselock.Exclusive(t.Context(), path)
	require.NoError(t, err)
	_, err = uselock.Exclusive(canceled(t), path)
	require.ErrorIs(t, err, context.Canceled, "a second holder must wait")
	got := make(chan error, 1)
	go func() {
		again, err := uselock.Exclusive(t.Context(), path)
		if err == nil {
			again()
		}
		got <- err
	}()
	unlock()
	require.NoError(t, <-got)
}
