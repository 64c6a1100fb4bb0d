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

// Process is one program of an installation, which can be killed and started again as it was.
type Process struct {
	Name string

	t    testing.TB
	argv []string
	env  []string
	dir  string              // it works in, the test's where empty
	cred *syscall.Credential // it runs as, the test's where nil
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// newProcess describes a process; Start starts it.
func newProcess(t testing.TB, dir, name string, env []string, argv ...string) *Process {
	t.Helper()
	return &Process{Name: name, t: t, argv: argv, env: env, log: filepath.Join(dir, name+".log")}
}

// Start starts the process.
func (p *Process) Start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.env, p.dir, log, log
	// A process group of its own: a signal to the test reaches no child by itself.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.cred}
	require.NoError(p.t, p.cmd.Start())
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		p.err = cmd.Wait()
		close(done)
	}(p.cmd, p.done)
}

// once runs another command with what the process has, to its end, which must be a good one.
func (p *Process) once(argv ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = p.env, p.dir, &syscall.SysProcAttr{Credential: p.cred}
	out, err := cmd.CombinedOutput()
	require.NoError(p.t, err, "%s: %s", argv, out)
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.done }

// Err is how it ended; read it after Exited.
func (p *Process) Err() error { return p.err }

// Kill ends the process as a crash would, and waits until it is gone.
func (p *Process) Kill() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Signal sends a signal; a process that is gone already is fine.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		require.NoError(p.t, err)
	}
}

// Stop asks the process to end and answers how long it took. It is killed where it does not follow.
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

// Tail is the end of the process's log.
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

// Log is the whole log of the process.
func (p *Process) Log() string {
	raw, err := os.ReadFile(p.log)
	require.NoError(p.t, err)
	return string(raw)
}
