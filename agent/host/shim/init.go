package shim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// statusBytes is the size of a wait status in the pipe to the shim.
const statusBytes = 4

// The descriptors that the command's process receives inside a boundary, in addition to releaseFD, failureFD and
// readyFD. The command's description is passed as an open file because the folder of the shim is not visible there.
const (
	startFD = statusFD
	groupFD = startFD + 1
)

// contain is the first process of an isolated work. It creates the boundary, starts the command inside it, reaps
// the processes there and reports the command's status. When it ends, the kernel kills every process that is left
// inside the boundary, even one that has left its parents, its session and its process group.
func contain(dir string) error {
	// The kernel kills the command's process when the thread that started it ends, so keep this thread.
	runtime.LockOSThread()
	closeOnExec()
	// Catch and drop all signals. If this process ignored a signal, the command would ignore the signal too.
	signal.Notify(make(chan os.Signal, 1))
	release, failure, ready := os.NewFile(releaseFD, "release"), os.NewFile(failureFD, "failure"), os.NewFile(readyFD, "ready")
	status := os.NewFile(statusFD, "status")
	command, filter, err := startInside(dir, []*os.File{os.Stdin, os.Stdout, os.Stderr, release, failure, ready})
	if filter != nil {
		go changeFilter(filter, os.NewFile(networkFD, "network")) // until this process ends
	}
	if err != nil {
		startReport{Failure: err.Error()}.send(failure)
		return err
	}
	// Close these copies of the pipes. The shim then reads EOF as soon as the command's process has closed its own.
	for _, f := range []*os.File{release, failure, ready} {
		_ = f.Close()
	}
	ended, err := awaitChild(command)
	if err != nil {
		return err
	}
	_, err = status.Write(binary.LittleEndian.AppendUint32(nil, uint32(ended)))
	return err
}

// changeFilter applies each network that the shim sends. If a network cannot be applied, the command keeps the previous
// one.
func changeFilter(f *boundary.Filter, from io.Reader) {
	for networks := json.NewDecoder(from); ; {
		var n boundary.Network
		if networks.Decode(&n) != nil {
			return
		}
		if err := f.Change(n); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "shim:", err) // in the command's log
		}
	}
}

// startInside creates the boundary and starts the command's process inside it with the given files. It returns the pid
// of that process, and the filter if the command has a network of its own.
func startInside(dir string, files []*os.File) (pid int, filter *boundary.Filter, err error) {
	var s Start
	if err := localfile.ReadJSON(startFile(dir), &s); err != nil {
		return 0, nil, err
	}
	groups, err := s.Limits.Open()
	if err != nil {
		return 0, nil, err
	}
	spec, err := inMemory(s)
	if err != nil {
		return 0, nil, err
	}
	if s.Isolation.Network.Kind == boundary.OwnNetwork {
		// The filter belongs to this process, which ends after all others inside the boundary.
		if filter, err = s.Isolation.NewFilter(); err != nil {
			return 0, nil, err
		}
	}
	if err := s.Isolation.Mount(); err != nil {
		return 0, filter, err
	}
	args := append(leading(leading(os.Args)), commandWord)
	p, err := os.StartProcess(program, args, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: append(append(files, spec), groups...),
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, filter, fmt.Errorf("start the command's process: %w", err)
	}
	for _, f := range append(groups, spec) {
		_ = f.Close()
	}
	return p.Pid, filter, nil
}

// inMemory returns a file in memory with the description of the command.
func inMemory(s Start) (*os.File, error) {
	fd, err := unix.MemfdCreate("start", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "start")
	if err := json.NewEncoder(f).Encode(s); err != nil {
		return nil, fmt.Errorf("describe the command: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("describe the command: %w", err)
	}
	return f, nil
}

// awaitChild reaps processes until the given one has ended, and returns its status.
func awaitChild(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the command: %w", err)
		case ended == pid:
			return status, nil
		}
	}
}

// stageInside replaces the calling process with the isolated command.
func stageInside() error {
	closeOnExec()
	fail := os.NewFile(failureFD, "failure")
	err := becomeInside(fail)
	startReport{Failure: err.Error()}.send(fail)
	return err
}

// becomeInside replaces the calling process with the command. Before that, it reports the paths of the command line that
// do not exist.
func becomeInside(report io.Writer) error {
	var s Start
	if err := json.NewDecoder(os.NewFile(startFD, "start")).Decode(&s); err != nil {
		return fmt.Errorf("read the description of the command: %w", err)
	}
	var groups []*os.File
	for n := range s.Limits.Groups {
		groups = append(groups, os.NewFile(uintptr(groupFD+n), "cgroup"))
	}
	ready := os.NewFile(readyFD, "ready")
	if _, err := ready.Write([]byte{1}); err != nil {
		return fmt.Errorf("report to the shim: %w", err)
	}
	_ = ready.Close()
	if err := awaitRelease(); err != nil {
		return err
	}
	if err := s.Limits.Join(groups); err != nil {
		return err
	}
	return s.execute(func() error {
		if err := s.Isolation.Drop(); err != nil {
			return err
		}
		// Look as the user of the work, who must not learn more than the command itself.
		if lost := missing(s.Args[min(1, len(s.Args)):]); len(lost) > 0 {
			startReport{Missing: lost}.send(report)
		}
		return nil
	})
}
