package testenv

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Process is a process of an installation. It can be killed and started again with the same configuration.
type Process struct {
	Name string

	t    testing.TB
	argv []string
	// former is the program before the last upgrade, or empty.
	former string
	// before is the command that a unit runs before each start, or empty.
	before []string
	env    []string
	dir    string              // working directory; if empty, the test's
	cred   *syscall.Credential // user and groups; if nil, the test's
	log    string
	cmd    *exec.Cmd
	done   chan struct{}
	err    error
}

// newProcess returns a process that is not started yet.
func newProcess(t testing.TB, dir, name string, env []string, argv ...string) *Process {
	t.Helper()
	return &Process{Name: name, t: t, argv: argv, env: env, log: filepath.Join(dir, name+".log")}
}

// Start starts the process in its own process group and appends its output to the log file.
func (p *Process) Start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.env, p.dir, log, log
	// In its own process group, the process does not receive signals that are sent to the test's group.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.cred}
	require.NoError(p.t, p.cmd.Start())
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		p.err = cmd.Wait()
		close(done)
	}(p.cmd, p.done)
}

// once runs a command with the environment, the working directory and the user of the process, and waits for its end.
// The command must succeed.
func (p *Process) once(argv ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = p.env, p.dir, &syscall.SysProcAttr{Credential: p.cred}
	out, err := cmd.CombinedOutput()
	require.NoError(p.t, err, "%s: %s", argv, out)
}

// prepare runs the command that precedes the start of the unit.
func (p *Process) prepare() {
	p.t.Helper()
	if len(p.before) > 0 {
		p.once(p.before...)
	}
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.done }

// Err returns the error with which the process ended. It may be called only after the channel of Exited is closed.
func (p *Process) Err() error { return p.err }

// Kill kills the process, as a crash would, and waits until it has ended.
func (p *Process) Kill() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Signal sends a signal. It ignores a process that has already ended.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		require.NoError(p.t, err)
	}
}

// Stop interrupts the process and returns the time until the process has ended. After the timeout, Stop kills the
// process and returns ok = false.
func (p *Process) Stop(timeout time.Duration) (took time.Duration, ok bool) {
	p.t.Helper()
	began := time.Now()
	p.Signal(syscall.SIGINT)
	select {
	case <-p.done:
		return time.Since(began), true
	case <-time.After(timeout):
		p.Kill()
		return time.Since(began), false
	}
}

const tailBytes = 4096

// Tail returns the end of the log, at most tailBytes.
func (p *Process) Tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(raw) > tailBytes {
		raw = raw[len(raw)-tailBytes:]
	}
	return string(bytes.TrimSpace(raw))
}

// Log returns the complete log.
func (p *Process) Log() string {
	raw, err := os.ReadFile(p.log)
	require.NoError(p.t, err)
	return string(raw)
}
