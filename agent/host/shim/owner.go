package shim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/logship"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// owner is a running shim.
type owner struct {
	dir     string
	exec    []string // the command line that runs Main
	clock   clock.Clock
	start   Start
	running Running
	signals <-chan os.Signal
	// leave receives requests to stop the command: from the control plane, because the lease was not renewed, or
	// because too many files are open.
	leave  chan leave
	jitter func() float64
	// changes receives a value when the agent has written another network file.
	changes <-chan os.Signal
	// filter filters what the command sends; nil if its network is not filtered.
	filter *boundary.Filter
	// pasta is the last process that has connected the command's network to the node's network; nil if the command has
	// no network of its own. If the process ends by itself, `again` holds when it is replaced. `first` is the pid of
	// the first process in the command's network. That process has the filter and reads changes of the filter from the
	// pipe `inside`.
	pasta  *pasta
	again  reconnection
	first  int
	inside *os.File

	// stopping means that a stop was requested. stopped means that the command had not ended by itself before.
	stopping bool
	stopped  bool
	cause    Cause
	reason   string
	killAt   time.Time
	children *reaper
	// status is the pipe from which the status of an isolated command is read.
	status *os.File
	output *output // nil until the log is open
	// missing are paths of the command line, see Exit.
	missing []string
}

func listen() <-chan os.Signal {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Catch and drop SIGPIPE. If this process ignored the signal, the command would ignore it as well.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals
}

func listenForChanges() <-chan os.Signal {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGHUP)
	return changes
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
	endRenewals, endFiles, endDisk := o.renewLease(), o.watchFiles(), o.watchDisk()
	status := o.commandStatus(o.follow())
	// Read the OOM count before sweep removes the cgroup.
	exit := Exit{Code: -1, Stopped: o.stopped, Cause: o.cause, Message: o.reason, OOM: o.start.Limits.OOMKilled(), Missing: o.missing}
	o.sweep()
	endRenewals()
	endFiles()
	endDisk()
	o.closeFilter()
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
	pipe, err := o.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = pipe.Close() }()
	s, err := newStaging()
	if err != nil {
		return err
	}
	defer s.close()
	first, err := s.start(o.exec, o.dir, pipe, o.start.Isolation)
	if err != nil {
		return err
	}
	// From here on the process is reaped, even if it does not become the command.
	o.children = reap(first)
	command := first
	if o.start.Isolation.On() {
		o.status, s.status.read = s.status.read, nil
		o.inside, s.network.write = s.network.write, nil
		if command, err = s.awaitInside(first); err != nil {
			return err
		}
	}
	if err := errors.Join(o.openFilter(), o.connect(first)); err != nil {
		return err
	}
	if err := o.changeEarly(); err != nil {
		return err
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
	o.missing, err = s.proceed()
	return err
}

// output copies the command's output to the log. done is closed when the copy has ended.
type output struct {
	read *os.File
	done chan struct{}
}

// openLog opens the work's log and returns the pipe to which the command writes. The pipe keeps the log within its
// bounds. It also keeps the command from truncating the log: if the command opens /dev/stderr, it only opens the pipe
// again, with the rights of the work's user. Standard output and standard error are one pipe, because two have no common
// order: the shim could not tell what was written first.
func (o *owner) openLog() (*os.File, error) {
	log, err := os.OpenFile(o.start.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, localfile.PrivateMode)
	if err != nil {
		return nil, fmt.Errorf("open the work's log: %w", err)
	}
	read, write, err := o.outputPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	info, err := log.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the size of the work's log: %w", err), log.Close(), read.Close(), write.Close())
	}
	o.output = &output{read: read, done: make(chan struct{})}
	go func() {
		defer close(o.output.done)
		to := logship.NewOutput(log, info.Size(), o.start.LogBounds, o.clock)
		_, _ = io.Copy(to, read) // ends when no process has the pipe open, or at the deadline of closeOutput
		to.Close()
		_ = errors.Join(read.Close(), log.Close())
	}()
	return write, nil
}

func (o *owner) outputPipe() (read, write *os.File, err error) {
	if read, write, err = os.Pipe(); err != nil {
		return nil, nil, fmt.Errorf("create the pipe to the work's log: %w", err)
	}
	const ownerWrites = 0o200
	err = write.Chmod(ownerWrites)
	if err == nil && o.start.Isolation.Kind == boundary.OwnUser {
		err = write.Chown(o.start.Isolation.UID, o.start.Isolation.UID)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("let the command open its output: %w", err), read.Close(), write.Close())
	}
	return read, write, nil
}

// outputTime is how long the shim reads output of a process that has left the work but still has the pipe open.
const outputTime = 5 * time.Second

// closeOutput waits until the output is in the log. It is called after the work's processes have ended.
func (o *owner) closeOutput() {
	if o.output == nil {
		return
	}
	_ = o.output.read.SetReadDeadline(clock.Real().Now().Add(outputTime)) // an error means that the pipe is closed
	<-o.output.done
}

// commandStatus returns the status of the command. The parameter first is the status of the first process, which is the
// command unless the command is isolated.
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

// follow waits until the first process has ended and returns its status. It stops the command if a stop is requested.
func (o *owner) follow() unix.WaitStatus {
	kill := o.clock.NewTimer(time.Hour)
	kill.Stop()
	defer kill.Stop()
	o.again.timer = o.clock.NewTimer(time.Hour)
	o.again.timer.Stop()
	defer o.again.timer.Stop()
	if exists(stopFile(o.dir)) {
		o.terminate(kill, o.grace(), math.MaxInt64)
	}
	for {
		select {
		case status := <-o.children.first:
			return status
		case <-o.signals:
			o.terminate(kill, o.grace(), math.MaxInt64)
		case l := <-o.leave:
			if !o.stopping {
				o.cause, o.reason = l.cause, l.reason
			} else if o.reason == "" {
				o.reason = l.reason // why the grace period is cut
			}
			o.terminate(kill, l.grace, l.grace)
		case <-o.changes:
			o.changeNetwork()
		case <-o.disconnected():
			o.reconnectLater()
		case <-o.again.timer.C():
			o.reconnectNow()
		case <-kill.C():
			o.killAll()
		}
	}
}

// terminate sends SIGTERM to the process group and sets the time at which killAll is called. A later call can only make
// that time earlier. The parameter grace applies if the agent has not requested the stop, for example if a user has
// sent a signal to the shim. The parameter most is the upper limit of the grace period.
func (o *owner) terminate(kill clock.Timer, grace, most time.Duration) {
	var s stop
	if err := localfile.ReadJSON(stopFile(o.dir), &s); err != nil {
		s.Grace = grace
	}
	s.Grace = min(s.Grace, most)
	if !o.stopping {
		o.stopped = o.running.Command.Terminate()
	}
	if !o.stopped { // the command has ended by itself
		o.cause, o.reason = "", ""
	}
	at := o.clock.Now().Add(s.Grace)
	if !o.stopping || at.Before(o.killAt) {
		o.killAt = at
		kill.Reset(max(s.Grace, time.Millisecond))
	}
	o.stopping = true
}

const defaultGrace = 10 * time.Second

// grace returns the grace period of a stop that the agent has not requested.
func (o *owner) grace() time.Duration { return cmp.Or(o.start.Grace, defaultGrace) }

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
	o.closeOutput()
	exit.Version, exit.StartedAt, exit.EndedAt = Version, o.running.StartedAt, o.clock.Now()
	return localfile.WriteJSON(exitFile(o.dir), exit, localfile.PrivateMode)
}

// reaper waits for all children of the shim, including orphaned descendants that the shim has inherited.
type reaper struct {
	// first receives the status of the first process. done is closed when no child is left.
	first chan unix.WaitStatus
	done  chan struct{}

	mu sync.Mutex
	// watched contains, by pid, the functions to call when a process has ended.
	watched map[int]func()
}

// start starts a child and calls the function ended once when the child has ended.
func (r *reaper) start(program string, args []string, attr *os.ProcAttr, ended func()) (*os.Process, error) {
	// Hold the lock, so that a child that ends at once is not missed.
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := os.StartProcess(program, args, attr)
	if err == nil {
		r.watched[p.Pid] = ended
	}
	return p, err
}

func (r *reaper) ended(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fn := r.watched[pid]; fn != nil {
		delete(r.watched, pid) // The kernel may use the pid again.
		fn()
	}
}

func reap(command int) *reaper {
	r := &reaper{first: make(chan unix.WaitStatus, 1), done: make(chan struct{}), watched: map[int]func(){}}
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
			default:
				r.ended(pid)
			}
		}
	}()
	return r
}
