package reverseproxy

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestElsewhere_refusedAddressIsLast(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.Equal(t, []string{"b:1", "c:1", "a:1"}, lastOf([]string{"a:1", "b:1", "c:1"}, []string{"a:1"}))
	// The only address is used, even if it has refused the request.
	ctx := context.WithValue(t.Context(), refusedKey{}, []string{l.Addr().String()})
	c, err := (&Relay{}).elsewhere(ctx, "tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
