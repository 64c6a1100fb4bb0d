package maintenancetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// host restores the database of one kind of installation.
type host interface {
	start()
	// stop stops the processes, which must end by themselves.
	stop()
	// backUp and restore copy the database. The processes must be stopped.
	backUp()
	restore()
	// leave replaces the host with an empty one that has copies of the keys, the objects and the audit folder. comeBack
	// undoes leave.
	leave()
	comeBack()
	auditDir() string
	// startRefused starts the processes with a restored database, before the command `signalbox-setup restored` has
	// run, and requires that they refuse requests. settle runs that command and returns its output.
	startRefused(refusal func() response)
	settle(args ...string) (string, error)
}

// stopWithin is how long a process may need to stop.
const stopWithin = 20 * time.Second

// settled runs the command `signalbox-setup restored`.
func settled(t testing.TB, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.Bin(t, "signalbox-setup"), append([]string{"restored"}, args...)...).CombinedOutput()
	t.Logf("%s", out)
	return string(out), err
}

// copyTree copies a folder. Only cp preserves the owner, which Postgres requires.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
	out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
