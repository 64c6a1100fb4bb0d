package console

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// driveTimeout is enough for all routes in all looks on a machine that is busy.
const driveTimeout = 25 * time.Minute

// drive runs a program of this folder and decodes its report.
func drive(ctx context.Context, t *testing.T, task consoleTask, program string, report any) {
	t.Helper()
	cmd := newBrowserCommand(ctx, t, task, program)
	out, err := cmd.Output()
	decodeReport(t, cmd, out, err, report)
}

// newBrowserCommand returns the command for a program of this folder. The program gets its task on standard
// input, because any user can read arguments.
func newBrowserCommand(ctx context.Context, t *testing.T, task consoleTask, program string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, driveTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, testenv.Tool(ctx, t, "node.sh"), program)
	cmd.Env = append(os.Environ(), "NODE_MODULES="+testenv.Tool(ctx, t, "npm.sh", filepath.Join(testenv.Root(t), "test", "identity", "page")))
	input, err := json.Marshal(task)
	require.NoError(t, err)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &bytes.Buffer{}
	return cmd
}

// decodeReport decodes the output of a command of newBrowserCommand, which must have succeeded.
func decodeReport(t *testing.T, cmd *exec.Cmd, out []byte, err error, report any) {
	t.Helper()
	require.NoError(t, err, cmd.Stderr)
	require.NoError(t, json.Unmarshal(out, report), string(out))
}
