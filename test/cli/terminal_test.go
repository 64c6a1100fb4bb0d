package cli

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal in which a command runs, and what the command has written to it.
type terminal struct {
	t    *testing.T
	keys *os.File
	cmd  *exec.Cmd
	read chan struct{}

	mu     sync.Mutex
	screen strings.Builder
}

// openTerminal starts a command in a new pseudo terminal.
func openTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keys.Close() })
	fd := int(keys.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 120}))
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer func() { _ = tty.Close() }()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	v := &terminal{t: t, keys: keys, cmd: cmd, read: make(chan struct{})}
	go func() {
		defer close(v.read)
		_, _ = io.Copy(v, keys) // ends with an error when the last process has closed the terminal
	}()
	return v
}

// Write implements io.Writer for what appears on the screen.
func (v *terminal) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.screen.Write(p)
}

// text returns what has appeared so far.
func (v *terminal) text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.screen.String()
}

// ended reports whether all processes have closed the terminal.
func (v *terminal) ended() bool {
	select {
	case <-v.read:
		return true
	default:
		return false
	}
}

// press sends keys to the command.
func (v *terminal) press(keys string) {
	v.t.Helper()
	_, err := v.keys.WriteString(keys)
	require.NoError(v.t, err)
}

// wait returns all that has appeared and the exit status.
func (v *terminal) wait() (string, int) {
	v.t.Helper()
	_ = v.cmd.Wait()
	<-v.read
	return v.text(), v.cmd.ProcessState.ExitCode()
}

// top opens cluster top in a terminal, waits for its tables, and ends it by a key.
func (w *world) top(t *testing.T) {
	t.Helper()
	v := openTerminal(t, w.program(t, t.TempDir(), append(w.signedIn("admin"), "TERM=xterm-256color"), "cluster", "top"))
	w.until(t, "the screen shows the pools and the nodes", func() bool {
		return strings.Contains(v.text(), "pools (") && strings.Contains(v.text(), "nodes (")
	})
	v.press("q")
	_, code := v.wait()
	require.Zero(t, code, v.text())
}

// watched lists runs with --watch, and shows a new one as soon as it is there, until Ctrl-C.
func (w *world) watched(t *testing.T) {
	t.Helper()
	require.NoError(t, w.makeProject("watched"))
	env := append(w.signedIn("admin"), "SERVICE_PROJECT=watched")
	v := openTerminal(t, w.program(t, t.TempDir(), env, "runs", "ls", "--watch"))
	w.until(t, "the empty list is shown", func() bool { return strings.Contains(v.text(), "no runs") })
	w.newRun(t, "watched", "appears").lifecycle("succeeded")
	w.until(t, "the new run is shown as ended", func() bool {
		text := v.text()
		return strings.Contains(text[max(strings.LastIndex(text, "\x1b[H"), 0):], "succeeded")
	})
	v.press("\x03")
	text, code := v.wait()
	require.Equal(t, 130, code, text)
}
