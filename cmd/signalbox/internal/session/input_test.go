package session_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

func TestInterruptible(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a line\n", 1000)
	require.NoError(t, iotest.TestReader(session.Interruptible(t.Context(), iotest.HalfReader(strings.NewReader(text))), []byte(text)))
	failed := errors.New("failed")
	_, err := io.ReadAll(session.Interruptible(t.Context(), io.MultiReader(strings.NewReader("a"), iotest.ErrReader(failed))))
	require.ErrorIs(t, err, failed)
}

func TestInterruptible_ends(t *testing.T) {
	t.Parallel()
	never, keep := io.Pipe()
	t.Cleanup(func() { _ = keep.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	in := session.Interruptible(ctx, never)
	done := make(chan error, 1)
	go func() {
		_, err := in.Read(make([]byte, 1))
		done <- err
	}()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	_, err := in.Read(make([]byte, 1))
	require.ErrorIs(t, err, context.Canceled)
}
