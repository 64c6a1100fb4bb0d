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

// over is the context of one who does not wait.
func over(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestIdleOnlyWhenNobodyHoldsAndHasHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := hold.Share(t.Context(), dir)
	require.NoError(t, err)
	b, err := hold.Share(t.Context(), dir)
	require.NoError(t, err, "many may share")
	_, ok := idle(t, dir, 0)
	require.False(t, ok)
	a.Release()
	_, ok = idle(t, dir, 0)
	require.False(t, ok)
	b.Release()
	_, ok = idle(t, dir, time.Hour)
	require.False(t, ok, "not long enough ago")
	done, ok := idle(t, dir, 0)
	require.True(t, ok)

	_, err = hold.Share(over(t), dir)
	require.ErrorIs(t, err, context.Canceled, "nobody enters while the server is ended")
	done()
	c, err := hold.Share(t.Context(), dir)
	require.NoError(t, err)
	c.Release()
}

func TestOneKeeperAndItsNumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.False(t, hold.Kept(dir))
	done, err := hold.Keep(dir)
	require.NoError(t, err)
	require.True(t, hold.Kept(dir))
	_, err = hold.Keep(dir)
	require.ErrorContains(t, err, "a keeper already")
	raw, err := os.ReadFile(filepath.Join(dir, "keeper.lock"))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid()), strings.TrimSpace(string(raw)))
	done()
	require.False(t, hold.Kept(dir))
}

func TestExclusiveWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := hold.Exclusive(t.Context(), path)
	require.NoError(t, err)
	_, err = hold.Exclusive(over(t), path)
	require.ErrorIs(t, err, context.Canceled, "nobody enters beside the holder")
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
