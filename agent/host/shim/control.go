package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Control starts and follows shims, including those that an earlier agent started.
type Control struct {
	// Exec is the command line that runs Main.
	Exec  []string
	Clock clock.Clock
	// Environ is the environment of the agent. The shims receive its settings for proxies and certificates.
	Environ []string
}

// State is the state of a shim's folder.
type State int

// The states of a folder.
const (
	// Never: no command was started in the folder. The shim may have been killed before it started the command.
	Never State = iota
	// Alive: the shim is running.
	Alive
	// Ended: exit.json exists.
	Ended
	// Lost: the command was started, but the shim has ended without writing exit.json.
	Lost
)

// ErrNotStarted reports that no command was started, so that Launch can be called safely.
var ErrNotStarted = errors.New("no command was started in this folder")

// Launch starts a shim for the folder. It returns an error if a command was already started there.
func (c Control) Launch(dir string, s Start) error {
	state, err := c.State(dir)
	if err != nil {
		return err
	}
	if state != Never {
		return errors.New("launch the shim: a command was already started in this folder")
	}
	lock, err := takeLock(dir)
	if err != nil {
		return fmt.Errorf("launch the shim: %w", err)
	}
	defer func() { _ = lock.Close() }()
	s.Version, s.Env = Version, append(slices.Clip(s.Env), MarkName+"="+s.Mark)
	if err := localfile.WriteJSON(startFile(dir), s, localfile.PrivateMode); err != nil {
		return err
	}
	output, err := os.OpenFile(filepath.Join(dir, "shim.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, localfile.PrivateMode)
	if err != nil {
		return fmt.Errorf("open the shim's log: %w", err)
	}
	defer func() { _ = output.Close() }()
	cmd := exec.Command(c.Exec[0], append(slices.Clip(c.Exec[1:]), dir)...) //nolint:noctx // the shim must outlive the agent
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, c.connection()...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{lock}
	if s.Hold != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.Hold)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the shim: %w", err)
	}
	// cmd.Wait is not needed: Identity.Wait waits for the shim by its pid and reaps it.
	return cmd.Process.Release()
}

// connection returns the variables that the shim needs to reach the control plane as the agent does.
func (c Control) connection() []string {
	names := []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
	var found []string
	for _, v := range c.Environ {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(names, strings.ToUpper(name)) {
			found = append(found, v)
		}
	}
	return found
}

// State returns the state of the folder.
func (c Control) State(dir string) (State, error) {
	if exists(exitFile(dir)) {
		return Ended, nil
	}
	if !exists(startFile(dir)) {
		return Never, nil
	}
	lock, err := takeLock(dir)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return Alive, nil
	case err != nil:
		return Never, err
	}
	// Closing alone would not release the lock: a child that another goroutine is starting may have the file open.
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	_ = lock.Close()
	// The shim may have ended since the first check.
	if exists(exitFile(dir)) {
		return Ended, nil
	}
	r, err := c.Running(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && r.Command.PID == 0) {
		return Never, nil
	}
	return Lost, err
}

// Running reads run.json. It returns fs.ErrNotExist if the shim has not started yet. Command is zero until
// the shim has started the command.
func (c Control) Running(dir string) (Running, error) {
	var r Running
	err := localfile.ReadJSON(runFile(dir), &r)
	return r, err
}

// Await waits until the shim has ended and returns its exit. It returns ErrNotStarted if no command was
// started. If the shim left no exit.json, found is false and Await has ended all remaining processes.
func (c Control) Await(ctx context.Context, dir string) (exit Exit, found bool, err error) {
	for {
		state, err := c.State(dir)
		if err != nil {
			return Exit{}, false, err
		}
		switch state {
		case Never:
			return Exit{}, false, ErrNotStarted
		case Ended:
			err := localfile.ReadJSON(exitFile(dir), &exit)
			return exit, err == nil, err
		case Lost:
			return Exit{}, false, Sweep(ctx, c.Clock, dir)
		case Alive:
			if err := c.awaitShim(ctx, dir); err != nil {
				return Exit{}, false, err
			}
		}
	}
}

// awaitShim waits until the shim has ended. If the shim has not written its identity yet, awaitShim returns
// after a short wait.
func (c Control) awaitShim(ctx context.Context, dir string) error {
	r, err := c.Running(dir)
	if err == nil && r.Shim.Alive() {
		return r.Shim.Wait(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	const moment = 10 * time.Millisecond
	return clock.Sleep(ctx, c.Clock, moment)
}

// Stop requests that the shim end the processes and kill them after the grace period. It may be called
// repeatedly; the shortest grace period applies.
func (c Control) Stop(dir string, grace time.Duration) error {
	if err := c.RequestStop(dir, grace); err != nil {
		return err
	}
	r, err := c.Running(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // The shim checks stop.json before it starts the command.
	}
	if err != nil {
		return err
	}
	r.Shim.Signal(syscall.SIGTERM)
	return nil
}

// RequestStop is like Stop, but does not notify the shim, which may run on another machine.
func (c Control) RequestStop(dir string, grace time.Duration) error {
	if before, requested := c.Requested(dir); requested && before <= grace {
		return nil
	}
	return localfile.WriteJSON(stopFile(dir), stop{Version: Version, Grace: grace}, localfile.PrivateMode)
}

// Requested returns the grace period of the requested stop. It returns false if no stop was requested.
func (c Control) Requested(dir string) (grace time.Duration, requested bool) {
	var s stop
	err := localfile.ReadJSON(stopFile(dir), &s)
	return s.Grace, err == nil
}

// StopRequested reports whether Stop was called for the folder.
func (c Control) StopRequested(dir string) bool { return exists(stopFile(dir)) }

// Identity returns the identity of the command, or a zero value if the shim has not started it yet.
func (c Control) Identity(dir string) Identity {
	r, err := c.Running(dir)
	if err != nil {
		return Identity{}
	}
	return r.Command
}

func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(lockFile(dir), os.O_RDWR|os.O_CREATE, localfile.PrivateMode)
	if err != nil {
		return nil, fmt.Errorf("open the shim's lock file: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the shim's folder: %w", err)
	}
	return f, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ReadStart reads start.json.
func ReadStart(dir string) (s Start, err error) {
	err = localfile.ReadJSON(startFile(dir), &s)
	return s, err
}

// ReadExit reads exit.json. It returns fs.ErrNotExist if the shim has not ended or was killed.
func ReadExit(dir string, into *Exit) error { return localfile.ReadJSON(exitFile(dir), into) }

// freezeRounds limits how often Freeze looks for processes that were started in the meantime.
const freezeRounds = 100

// Freeze stops processes of works until Thaw is called. The function `which` selects the works by the names of their
// folders, which lie in the folder `works`. The shims are not stopped, so they can still end the processes. Freeze
// returns the number of processes that it has stopped.
func Freeze(works string, which func(work string) bool) (frozen int, err error) {
	for range freezeRounds {
		n, err := signalWorks(works, which, syscall.SIGSTOP, func(state byte) bool { return !strings.ContainsRune(inactive, rune(state)) })
		frozen += n
		if err != nil || n == 0 {
			return frozen, err
		}
	}
	return frozen, nil // the next call finds the rest
}

// stopped is the state of a process that SIGSTOP has stopped.
const stopped = 'T'

// inactive are the states of processes that do nothing: they are stopped, or have ended while their parent was stopped.
const inactive = "TtZX"

// settled returns the state of a process. A process that waits in the kernel and has received SIGSTOP counts as stopped,
// because it stops before it does anything else. If it waits for a child that was stopped before it ran its program, it
// waits until the child continues.
func settled(pid int, state byte) byte {
	const waiting = 'D'
	if state == waiting && stopPending(pid) {
		return stopped
	}
	return state
}

// stopPending reports whether the process has received SIGSTOP, but has not stopped yet.
func stopPending(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		if text, ok := strings.CutPrefix(line, "ShdPnd:"); ok {
			const hex, bits = 16, 64
			pending, err := strconv.ParseUint(strings.TrimSpace(text), hex, bits)
			return err == nil && pending>>(syscall.SIGSTOP-1)&1 == 1
		}
	}
	return false
}

// Thaw continues the processes that Freeze has stopped, and returns their number.
func Thaw(works string) (int, error) {
	all := func(string) bool { return true }
	return signalWorks(works, all, syscall.SIGCONT, func(state byte) bool { return state == stopped })
}

// Frozen returns the names of the works that have a stopped process.
func Frozen(works string) (map[string]bool, error) {
	frozen, all := map[string]bool{}, processes()
	err := eachShim(works, func(work string, shim int) {
		for _, p := range all.below(shim) {
			if settled(p.pid, p.state) == stopped {
				frozen[work] = true
			}
		}
	})
	return frozen, err
}

// signalWorks sends the signal to the processes of the works that the function `which` selects, except the shims. It
// skips the processes for whose state the function `match` returns false.
func signalWorks(works string, which func(work string) bool, sig syscall.Signal, match func(state byte) bool) (signaled int, err error) {
	err = eachShim(works, func(work string, shim int) {
		if which(work) {
			signaled += signalDescendants(shim, sig, match)
		}
	})
	return signaled, err
}

// eachShim calls the function visit for each running shim, with the name of the work's folder and the shim's pid.
func eachShim(works string, visit func(work string, shim int)) error {
	var errs []error
	for _, pattern := range []string{"*/run", "*/flush", "*/starts/*"} {
		dirs, err := filepath.Glob(filepath.Join(works, pattern))
		errs = append(errs, err)
		for _, dir := range dirs {
			r, err := Control{}.Running(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
			if err == nil && r.Shim.Alive() {
				work, _, _ := strings.Cut(strings.TrimPrefix(dir, works+string(filepath.Separator)), string(filepath.Separator))
				visit(work, r.Shim.PID)
			}
		}
	}
	return errors.Join(errs...)
}

func signalDescendants(pid int, sig syscall.Signal, match func(state byte) bool) (signaled int) {
	for _, one := range Descendants(pid) {
		i, err := Lookup(one)
		if err != nil {
			continue
		}
		if s, err := readStat(one); err == nil && match(settled(one, s.state)) && i.Signal(sig) {
			signaled++
		}
	}
	return signaled
}
