package boundary_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

func TestListening_portsOfOtherUsers(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(proc, "net"), 0o700))
	users := boundary.Users{First: 200_000, Last: 200_999}
	none, err := boundary.Listening(proc, users)
	require.NoError(t, err, "a missing table is not an error, as on a kernel without IPv6")
	require.Empty(t, none)
	for name, lines := range map[string]string{
		"tcp": "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n" +
			"   1: 00000000:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000 200007        0 1 1 0\n" +
			"   2: 0100007F:1F91 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n",
		"tcp6": "   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000   105        0 1 1 0\n" +
			"   1: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n" +
			"a line of another kind\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(proc, "net", name), []byte("  sl  local_address rem_address   st\n"+lines), 0o600))
	}
	found, err := boundary.Listening(proc, users)
	require.NoError(t, err)
	require.Equal(t, []uint16{22, 8080}, found)
}
