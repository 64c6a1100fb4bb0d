package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// staging synchronizes the shim with the process that becomes the command. The process waits until the shim
// has recorded it. If it cannot execute the command, it reports the reason.
type staging struct {
	goRead, goWrite     *os.File
	failRead, failWrite *os.File
}

func newStaging() (*staging, error) {
	s := &staging{}
	var err error
	if s.goRead, s.goWrite, err = os.Pipe(); err == nil {
		s.failRead, s.failWrite, err = os.Pipe()
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("create the pipes to the command's process: %w", err)
	}
	return s, nil
}

func (s *staging) start(dir string, log *os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("open /dev/null: %w", err)
	}
	defer func() { _ = null.Close() }()
	args := append(leading(os.Args), stageWord, dir)
	// The link /proc/self/exe works even after an update has replaced the program's file.
	p, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{
		Dir: dir, Env: []string{},
		Files: []*os.File{null, log, log, s.goRead, s.failWrite},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("start the command's process: %w", err)
	}
	_ = s.goRead.Close()
	_ = s.failWrite.Close()
	pid := p.Pid
	return pid, p.Release()
}

// leading returns the arguments without the last one, the folder.
func leading(args []string) []string { return append([]string(nil), args[:len(args)-1]...) }

// release lets the process continue and waits until it executes the command. It returns the error that the
// process reports.
func (s *staging) release() error {
	if _, err := s.goWrite.Write([]byte{1}); err != nil {
		return fmt.Errorf("release the command's process: %w", err)
	}
	words, err := io.ReadAll(io.LimitReader(s.failRead, 4096))
	if err != nil {
		return fmt.Errorf("read the start result of the command's process: %w", err)
	}
	if len(words) > 0 {
		return errors.New(string(words))
	}
	return nil
}

func (s *staging) close() {
	for _, f := range []*os.File{s.goRead, s.goWrite, s.failRead, s.failWrite} {
		if f != nil {
			_ = f.Close()
		}
	}
}

const goFD, failFD = 3, 4

// stage replaces the calling process by the command, with the command's limits, folder and environment.
func stage(dir string) error {
	unix.CloseOnExec(goFD)
	unix.CloseOnExec(failFD)
	fail := os.NewFile(failFD, "fail")
	err := become(dir)
	_, _ = fail.WriteString(err.Error())
	return err
}

func become(dir string) error {
	var s Start
	if err := localfile.ReadJSON(startFile(dir), &s); err != nil {
		return err
	}
	if n, err := os.NewFile(goFD, "go").Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the shim exited before it released the command: %w", err)
	}
	if err := s.Limits.Enter(); err != nil {
		return err
	}
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("change to the working folder: %w", err)
	}
	program, err := find(s.Path, s.Env)
	if err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", s.Path, syscall.Exec(program, s.Args, s.Env))
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
