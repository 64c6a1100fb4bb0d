package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// bareClient returns a connection that has a valid certificate but does not use the client of this package, like the
// connection of a compromised service. The server must enforce its rules by itself.
func bareClient(t *testing.T, h *handlers) (*harness, *grpc.ClientConn) {
	t.Helper()
	ca, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	wire, err := rpc.TCP(rpc.TCPConfig{
		Identity: identity(t, ca, "registry"), Listen: "127.0.0.1:0", Client: rpc.ClientOptions{Clock: clock.Real()},
	})
	require.NoError(t, err)
	at := &addresses{services: map[string]string{}, agents: map[string]string{}}
	w := newHarness(t, func(*testing.T, string) rpc.Network { return recording{wire, at} })
	w.serve(t, setup{service: "registry", handlers: h})
	creds := credentials.NewTLS(pki.ClientTLS(identity(t, ca, "gateway"), "registry"))
	cc, err := grpc.NewClient("passthrough:///"+at.services["registry"], grpc.WithTransportCredentials(creds))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cc.Close()) })
	return w, cc
}

func TestServer_setsDefaultDeadline(t *testing.T) {
	t.Parallel()
	left := make(chan time.Duration, 1)
	_, cc := bareClient(t, failing(func(ctx context.Context) error {
		at, _ := ctx.Deadline()
		left <- time.Until(at)
		return nil
	}))
	_, err := try(t.Context(), cc, "PeerOnce")
	require.NoError(t, err)
	require.InDelta(t, rpc.DefaultDeadline, <-left, float64(3*time.Second))
}

func TestServer_twoCallerTokensAreRejected(t *testing.T) {
	t.Parallel()
	w, cc := bareClient(t, echo())
	token, _, err := w.signer.Sign(person("admin"))
	require.NoError(t, err)
	one := metadata.AppendToOutgoingContext(t.Context(), authn.MetadataCaller, token)
	_, err = try(one, cc, "Admin")
	require.NoError(t, err)
	two := metadata.AppendToOutgoingContext(one, authn.MetadataCaller, token)
	for _, name := range []string{"Open", "Admin", "Peer", "PeerStream"} {
		_, err = try(two, cc, name)
		require.True(t, fault.HasCode(err, authn.CodeTokenInvalid), name)
	}
}

func TestServer_twoRequestIDsAreIgnored(t *testing.T) {
	t.Parallel()
	_, cc := bareClient(t, echo())
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "a", "x-request-id", "b")
	got, err := try(ctx, cc, "PeerStream")
	require.NoError(t, err)
	require.Equal(t, "gateway|req_made", got)
}
