package console

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// demoJourney is walked on an installation of its own, which `signalbox demo` starts. Only make console-test walks it, or
// a test with its name in JOURNEYS.
const demoJourney = "demo"

const demoTimeout = 10 * time.Minute

var demoConsole = regexp.MustCompile(`^  Console +(\S+)`)

// startDemo runs the demo in a new folder until the test ends. It returns the address that the demo prints to open the
// console with, and the password of its admin.
func startDemo(ctx context.Context, t *testing.T, address string) (console, password string) {
	t.Helper()
	dir := testenv.Folder(t)
	data := filepath.Join(dir, "data")
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	cmd := exec.CommandContext(ctx, testenv.Bin(t, "signalbox"), "demo", "--data", data, "--listen", address)
	// The demo stops its server when it is interrupted.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, time.Minute
	cmd.Env = append(os.Environ(), "PATH="+testenv.PathWithUV(t))
	cmd.Dir = testenv.Root(t) // the server finds Postgres in the cache of its working folder
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // the journey shows whether the demo served
		for _, pid := range testenv.LeftProcesses(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	var printed strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		printed.WriteString(lines.Text() + "\n")
		if found := demoConsole.FindStringSubmatch(lines.Text()); found != nil {
			secret, err := os.ReadFile(filepath.Join(data, "demo-password"))
			require.NoError(t, err)
			return found[1], strings.TrimSpace(string(secret))
		}
	}
	require.FailNow(t, "the demo ended before it printed an address", "%s%s", &printed, &log)
	return "", ""
}
