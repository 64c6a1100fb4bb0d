package chaos

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// secondServing starts a second inference service and a gateway that calls it, and returns the URL of that gateway.
func secondServing(ctx context.Context, t *testing.T, sc *scenario) string {
	t.Helper()
	s := sc.s
	calls, gateway := s.FreeAddress(), s.FreeAddress()
	s.StartReplica("inference", "inference-two", map[string]string{
		"SERVICE_INFERENCE_LISTEN": s.FreeAddress(), "SERVICE_INFERENCE_HTTP_LISTEN": calls, "SERVICE_INFERENCE_SPOOL": secondSpool(t, s),
	})
	s.StartReplica("gateway", "gateway-two", map[string]string{"SERVICE_LISTEN": gateway, "SERVICE_GATEWAY_INFERENCE_ADDR": calls})
	sc.awaitServing(ctx, "http://"+gateway)
	return "http://" + gateway
}

// secondSpool creates the spool folder of a second inference service.
func secondSpool(t *testing.T, s *testenv.Installation) string {
	t.Helper()
	spool := filepath.Join(s.Dir, "spool-two")
	like, err := os.Stat(s.Processes["inference"].Setting("SERVICE_INFERENCE_SPOOL"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(spool, like.Mode().Perm()))
	owner, ok := like.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	require.NoError(t, os.Chown(spool, int(owner.Uid), int(owner.Gid)))
	return spool
}

// awaitServing waits until a call through the gateway at url succeeds.
func (sc *scenario) awaitServing(ctx context.Context, url string) {
	sc.Helper()
	d := sc.load(ctx)
	d.urls = []string{url}
	sc.s.Until(ctx, "calls through "+url+" succeed", func() bool {
		d.call(ctx)
		return d.count() > 0
	})
}
