package shim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// A command that exceeds the bounds is stopped, also if the file that it writes has no name any more.
func TestOwner_disk(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"file":         "head -c 3000000 /dev/zero > a",
		"deleted file": "exec 3>a; rm a; head -c 3000000 /dev/zero >&3",
	} {
		for _, isolate := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " isolated ", isolate), func(t *testing.T) {
				t.Parallel()
				b := script(t, text+"; exec /usr/bin/python3 -c 'import signal; signal.pause()'")
				if isolate {
					b.isolate(testUser)
				} else {
					b.start.Dir = t.TempDir()
				}
				b.start.Disk = shim.DiskBounds{Folders: []string{b.start.Dir}, Bytes: 2_000_000, Files: 100}
				b.launch()
				exit, found := b.ends()
				require.True(t, found)
				require.Equal(t, shim.CauseDisk, exit.Cause, "%+v %s", exit, b.log())
				require.Contains(t, exit.Message, "2000000 bytes of disk space")
			})
		}
	}
}
