package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-dev/signalbox/services/registry"
)

func TestMain(m *testing.M) {
	// Ignore the connections that the HTTP client of the uploads keeps open.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

func TestRegistryConfig_Validate_namesInvalidSettings(t *testing.T) {
	t.Parallel()
	good := registry.Config{AuthLease: time.Minute, MaxUploadMB: 1, ProbeDeadline: time.Minute}
	require.NoError(t, good.Validate())
	bad := registry.Config{}
	for _, name := range []string{"SERVICE_AUTH_LEASE", "SERVICE_MAX_UPLOAD_MB", "SERVICE_REGISTRY_PROBE_DEADLINE"} {
		require.ErrorContains(t, bad.Validate(), name)
	}
}
