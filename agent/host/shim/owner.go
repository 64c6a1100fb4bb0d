package shim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// owner is a running shim.
type owner struct {
	dir     string
	clock   clock.Clock
	start   Start
	running Running
	signals <-chan os.Signal

	stopped  bool
	killAt   time.Time
	children *reaper
	// status is the pipe from which the status of an isolated command is read.
	status *os.File
}

func listen() <-chan os.Signal {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Catch these signals and drop them. If they were ignored, the command would ignore them as well.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	return signals
}

// run starts the command, waits until it has ended and writes the outcome.
func (o *owner) run() error {
	if exists(stopFile(o.dir)) {
		return o.finish(Exit{Code: -1, Stopped: true})
	}
	if err := o.begin(); err != nil {
		o.sweep()
		return o.finish(Exit{Code: -1, Failure: err.Error()})
	}
	status := o.commandStatus(o.follow())
	// Read the OOM count before sweep removes the cgroup.
	exit := Exit{Code: -1, Stopped: o.stopped, OOM: o.start.Limits.OOMKilled()}
	o.sweep()
	if status.Signaled() {
		exit.Signal = int(status.Signal())
	} else {
		exit.Code = status.ExitStatus()
	}
	return o.finish(exit)
}

// begin starts the command. It records the process in run.json before the process executes the command.
func (o *owner) begin() error {
	if err := o.start.Limits.Create(); err != nil {
		return err
	}
	log, err := o.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s, err := newStaging()
	if err != nil {
		return err
	}
	defer s.close()
	first, err := s.start(o.dir, log, o.start.Isolation)
	if err != nil {
		return err
	}
	// From here on the process is reaped, even if it does not become the command.
	o.children = reap(first)
	command := first
	if o.start.Isolation.On() {
		o.status, s.status.read = s.status.read, nil
		if command, err = s.awaitInside(first); err != nil {
			return err
		}
	}
	if o.running.Command, err = Lookup(command); err != nil {
		return err
	}
	if command != first {
		if o.running.First, err = Lookup(first); err != nil {
			return err
		}
	}
	o.running.StartedAt = o.clock.Now()
	if err := localfile.WriteJSON(runFile(o.dir), o.running, localfile.PrivateMode); err != nil {
		return err
	}
	return s.proceed()
}

// openLog opens the work's log. An isolated command may write to it, but not read it: a program that opens /dev/stderr
// opens the log again, with the rights of the work's user.
func (o *owner) openLog() (*os.File, error) {
	log, err := os.OpenFile(o.start.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, localfile.PrivateMode)
	if err == nil && o.start.Isolation.Kind == boundary.OwnUser {
		const othersWrite = 0o602
		if err = log.Chmod(othersWrite); err != nil {
			_ = log.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the work's log: %w", err)
	}
	return log, nil
}

// commandStatus returns the status of the command. first is the status of the first process, which is the command
// unless the command is isolated.
func (o *owner) commandStatus(first unix.WaitStatus) unix.WaitStatus {
	if o.status == nil {
		return first
	}
	defer func() { _ = o.status.Close() }()
	raw := make([]byte, statusBytes)
	if _, err := io.ReadFull(o.status, raw); err != nil {
		return first // The first process was killed, and the command with it.
	}
	return unix.WaitStatus(binary.LittleEndian.Uint32(raw))
}

// follow waits until the command has ended and stops it if that is requested.
func (o *owner) follow() unix.WaitStatus {
	kill := o.clock.NewTimer(time.Hour)
	kill.Stop()
	defer kill.Stop()
	if exists(stopFile(o.dir)) {
		o.terminate(kill)
	}
	for {
		select {
		case status := <-o.children.first:
			return status
		case <-o.signals:
			o.terminate(kill)
		case <-kill.C():
			o.killAll()
		}
	}
}

// terminate sends SIGTERM to the process group and sets the time at which killAll is called. A later call
// can only make that time earlier.
func (o *owner) terminate(kill clock.Timer) {
	var s stop
	if err := localfile.ReadJSON(stopFile(o.dir), &s); err != nil {
		s.Grace = defaultGrace // Without stop.json the signal came from a user.
	}
	if !o.stopped {
		o.running.Command.SignalGroup(syscall.SIGTERM)
	}
	at := o.clock.Now().Add(s.Grace)
	if !o.stopped || at.Before(o.killAt) {
		o.killAt = at
		kill.Reset(max(s.Grace, time.Millisecond))
	}
	o.stopped = true
}

const defaultGrace = 10 * time.Second

func (o *owner) killAll() {
	o.running.Command.SignalGroup(syscall.SIGKILL)
	o.start.Limits.Kill()
	for _, pid := range Descendants(os.Getpid()) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// sweep ends all processes that the command left behind. The shim is their subreaper, so all of them are
// its descendants.
func (o *owner) sweep() {
	if o.children == nil {
		o.killAll()
		return
	}
	for {
		o.killAll()
		select {
		case <-o.children.done:
			o.killAll()
			if err := o.start.Limits.Remove(); err == nil || !o.start.Limits.Kill() {
				return
			}
		case <-after(o.clock, sweepInterval):
		}
	}
}

const sweepInterval = 10 * time.Millisecond

func after(c clock.Clock, d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// finish writes the outcome. The agent may then remove the folder.
func (o *owner) finish(exit Exit) error {
	exit.Version, exit.StartedAt, exit.EndedAt = Version, o.running.StartedAt, o.clock.Now()
	return localfile.WriteJSON(exitFile(o.dir), exit, localfile.PrivateMode)
}

// reaper waits for all children of the shim, including orphaned descendants that the shim has inherited.
type reaper struct {
	// first receives the status of the command. done is closed when no child is left.
	first chan unix.WaitStatus
	done  chan struct{}
}

func reap(command int) *reaper {
	r := &reaper{first: make(chan unix.WaitStatus, 1), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, 0, nil)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return
			case pid == command:
				r.first <- status
			}
		}
	}()
	return r
}
