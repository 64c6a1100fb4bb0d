package hold_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/pgtest/keeper/hold"
)

func idle(t *testing.T, dir string, d time.Duration) (done func(), ok bool) {
	t.Helper()
	done, ok, err := hold.Idle(dir, d)
	require.NoError(t, err)
	return done, ok
}

// over returns a canceled context, so that a call does not wait.
func over(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestIdle_onlyWithoutRecentShares(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := hold.Share(t.Context(), dir)
	require.NoError(t, err)
	b, err := hold.Share(t.Context(), dir)
	require.NoError(t, err, "several shared locks must be allowed")
	_, ok := idle(t, dir, 0)
	require.False(t, ok)
	a.Release()
	_, ok = idle(t, dir, 0)
	require.False(t, ok)
	b.Release()
	_, ok = idle(t, dir, time.Hour)
	require.False(t, ok, "the last shared lock was released too recently")
	done, ok := idle(t, dir, 0)
	require.True(t, ok)

	_, err = hold.Share(over(t), dir)
	require.ErrorIs(t, err, context.Canceled, "no shared lock may be taken while the server is being stopped")
	done()
	c, err := hold.Share(t.Context(), dir)
	require.NoError(t, err)
	c.Release()
}

func TestKeep_onlyOneKeeper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.False(t, hold.Kept(dir))
	done, err := hold.Keep(dir)
	require.NoError(t, err)
	require.True(t, hold.Kept(dir))
	_, err = hold.Keep(dir)
	require.ErrorContains(t, err, "another keeper is running")
	raw, err := os.ReadFile(filepath.Join(dir, "keeper.lock"))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid()), strings.TrimSpace(string(raw)))
	done()
	require.False(t, hold.Kept(dir))
}

func TestExclusive_waitsForHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := hold.Exclusive(t.Context(), path)
	require.NoError(t, err)
	_, err = hold.Exclusive(over(t), path)
	require.ErrorIs(t, err, context.Canceled, "a second holder must wait")
	got := make(chan error, 1)
	go func() {
		again, err := hold.Exclusive(t.Context(), path)
		if err == nil {
			again()
		}
		got <- err
	}()
	unlock()
	require.NoError(t, <-got)
}
