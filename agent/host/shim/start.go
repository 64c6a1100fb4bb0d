package shim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// staging synchronizes the shim with the process that becomes the command. The process waits until the shim has
// recorded it. If the process cannot execute the command, it reports the reason.
type staging struct {
	// release receives a byte when the process may continue. failure receives the reports of the start, in particular the
	// reason why the command cannot be executed. Only isolated commands use the other pipes: ready receives a byte when the process has been started
	// inside the boundary, and status receives the wait status of the command. network carries changes of the command's
	// network to the first process.
	release, failure, ready, status, network pipe
}

type pipe struct{ read, write *os.File }

func (s *staging) pipes() []*pipe {
	return []*pipe{&s.release, &s.failure, &s.ready, &s.status, &s.network}
}

func newStaging() (*staging, error) {
	s := &staging{}
	for _, p := range s.pipes() {
		var err error
		if p.read, p.write, err = os.Pipe(); err != nil {
			s.close()
			return nil, fmt.Errorf("create the pipes to the command's process: %w", err)
		}
	}
	return s, nil
}

// start starts the first process, which is the command's process or, with a boundary, its parent.
func (s *staging) start(argv []string, dir string, log *os.File, isolation boundary.Isolation) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("open /dev/null: %w", err)
	}
	defer func() { _ = null.Close() }()
	word := stageWord
	if isolation.On() {
		word = initWord
	}
	args := append(slices.Clone(argv), word, dir)
	// The link /proc/self/exe works even after an update has replaced the program's file.
	p, err := os.StartProcess(program, args, &os.ProcAttr{
		Dir: dir, Env: []string{},
		Files: []*os.File{null, log, log, s.release.read, s.failure.write, s.ready.write, s.status.write, s.network.read},
		Sys:   isolation.Process(os.Getuid(), os.Getgid()),
	})
	if err != nil {
		return 0, fmt.Errorf("start the command's process: %w", err)
	}
	for _, f := range []*os.File{s.release.read, s.failure.write, s.ready.write, s.status.write, s.network.read} {
		_ = f.Close()
	}
	pid := p.Pid
	return pid, p.Release()
}

const program = "/proc/self/exe"

// leading returns the arguments without the last one, the folder.
func leading(args []string) []string { return append([]string(nil), args[:len(args)-1]...) }

// awaitInside waits until the first process has created the boundary and started the command's process inside it.
// It returns the pid of that process.
func (s *staging) awaitInside(first int) (int, error) {
	if _, err := io.ReadFull(s.ready.read, make([]byte, 1)); err != nil {
		_, err := s.reported()
		return 0, cmp.Or(err, errors.New("the first process inside the boundary has ended"))
	}
	children := Descendants(first)
	if len(children) != 1 {
		return 0, fmt.Errorf("the boundary contains %d processes, want only the command's process", len(children))
	}
	return children[0], nil
}

// proceed lets the process continue and waits until it executes the command. It returns the paths of the command line
// that the process reports as missing, and the error that it reports.
func (s *staging) proceed() (missing []string, err error) {
	if _, err := s.release.write.Write([]byte{1}); err != nil {
		return nil, fmt.Errorf("release the command's process: %w", err)
	}
	return s.reported()
}

// reported waits until the process executes the command or has ended, and returns what it reports.
func (s *staging) reported() (missing []string, err error) {
	r, err := readReports(s.failure.read)
	if err == nil && r.Failure != "" {
		err = errors.New(r.Failure)
	}
	return r.Missing, err
}

func (s *staging) close() {
	for _, p := range s.pipes() {
		for _, f := range []*os.File{p.read, p.write} {
			if f != nil {
				_ = f.Close()
			}
		}
	}
}

// The descriptors that the first process receives.
const (
	releaseFD = iota + 3
	failureFD
	readyFD
	statusFD
	networkFD
)

// stage replaces the calling process with the command. It applies the command's limits, folder and environment.
func stage(dir string) error {
	closeOnExec()
	fail := os.NewFile(failureFD, "failure")
	err := become(dir)
	startReport{Failure: err.Error()}.send(fail)
	return err
}

// closeOnExec makes the kernel close all descriptors but the standard ones in the programs that this process starts or
// executes. This includes descriptors that the agent itself inherited.
func closeOnExec() {
	const first = 3
	if unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	// Linux before 5.11 cannot do this. Mark at least the descriptors of the shim.
	for fd := first; fd < first+maxDescriptors; fd++ {
		unix.CloseOnExec(fd)
	}
}

const maxDescriptors = 16

func become(dir string) error {
	var s Start
	if err := localfile.ReadJSON(startFile(dir), &s); err != nil {
		return err
	}
	if err := awaitRelease(); err != nil {
		return err
	}
	if err := s.Limits.Enter(); err != nil {
		return err
	}
	return s.execute(func() error { return nil })
}

func awaitRelease() error {
	if n, err := os.NewFile(releaseFD, "release").Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the shim exited before it released the command: %w", err)
	}
	return nil
}

// execute replaces the calling process with the command. It calls the function `last` immediately before that.
func (s Start) execute(last func() error) error {
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("change to the working folder: %w", err)
	}
	program, err := find(s.Path, s.Env)
	if err != nil && s.Isolation.On() {
		err = fmt.Errorf("%w: %s", err, sight)
	}
	if err != nil {
		return err
	}
	if err := last(); err != nil {
		return err
	}
	return s.explain(program, syscall.Exec(program, s.Args, s.Env))
}

// find looks up the program in the command's PATH, as a shell would. It skips relative folders in PATH.
func find(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, variable := range env {
		path, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(path, ":") {
			if found, err := exec.LookPath(dir + "/" + name); err == nil && strings.HasPrefix(dir, "/") {
				return found, nil
			}
		}
	}
	return "", fmt.Errorf("command %s not found in PATH", name)
}
