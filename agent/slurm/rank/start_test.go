package rank

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// A rank that is stopped while it waits for rank 0 does not fail: its shim records that it was stopped.
func TestRankProcess_agree_stopped(t *testing.T) {
	t.Parallel()
	r := &rankProcess{Process: Process{Clock: clock.Real()}, dir: t.TempDir(), own: t.TempDir(), rank: 1}
	require.NoError(t, shim.Control{}.RequestStop(r.own, 0))
	_, err := r.agree(t.Context())
	require.NoError(t, err)
}
