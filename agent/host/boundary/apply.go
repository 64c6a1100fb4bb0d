package boundary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Create creates the groups and writes their settings. It may be called again for the same groups.
func (p Plan) Create() error {
	for _, group := range p.Groups {
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // kernel folder
			return fmt.Errorf("create the cgroup: %w", err)
		}
	}
	for _, s := range p.Settings {
		if err := write(s.Path, s.Value); err != nil && (!s.Optional || !missing(err)) {
			return fmt.Errorf("set %s: %w", filepath.Base(s.Path), err)
		}
	}
	return nil
}

// Enter moves the calling process into the groups of the plan and sets its rlimit. Its future children
// inherit both.
func (p Plan) Enter() error {
	for _, group := range p.Groups {
		if err := write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
			return fmt.Errorf("enter the cgroup: %w", err)
		}
	}
	return p.setRlimits()
}

func (p Plan) setRlimits() error {
	if p.Data > 0 {
		bound := unix.Rlimit{Cur: uint64(p.Data), Max: uint64(p.Data)}
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &bound); err != nil {
			return fmt.Errorf("set the memory limit: %w", err)
		}
	}
	return nil
}

// Open opens the files through which a process enters the groups, for Join.
func (p Plan) Open() ([]*os.File, error) {
	var files []*os.File
	for _, group := range p.Groups {
		f, err := os.OpenFile(filepath.Join(group, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, fmt.Errorf("enter the cgroup: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// Join is like Enter for a process that does not see the groups. It closes the files.
func (p Plan) Join(files []*os.File) error {
	for _, f := range files {
		// 0 means the process that writes.
		if _, err := f.WriteString("0"); err != nil {
			return fmt.Errorf("enter the cgroup: %w", err)
		}
		_ = f.Close()
	}
	if p.Processes > 0 {
		bound := unix.Rlimit{Cur: uint64(p.Processes), Max: uint64(p.Processes)}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &bound); err != nil {
			return fmt.Errorf("set the limit of processes: %w", err)
		}
	}
	return p.setRlimits()
}

// Kill sends SIGKILL to all processes in the groups and reports whether there were any. The caller repeats
// it until it returns false, because a process may fork while it is killed.
func (p Plan) Kill() bool {
	found := false
	for _, group := range p.Groups {
		pids := members(group)
		if len(pids) == 0 {
			continue
		}
		found = true
		if write(filepath.Join(group, "cgroup.kill"), "1") == nil {
			continue
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return found
}

// OOMKilled reports whether the kernel killed a process in the groups because of the memory limit.
func (p Plan) OOMKilled() bool {
	for _, group := range p.Groups {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			raw, err := os.ReadFile(filepath.Join(group, file))
			if err == nil && counted(string(raw), "oom_kill") {
				return true
			}
		}
	}
	return false
}

// Remove removes the groups. It fails while a group contains a process.
func (p Plan) Remove() error {
	var errs []error
	for _, group := range p.Groups {
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

func members(group string) []int {
	raw, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(raw)) {
		// 0 means a process outside this pid namespace.
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func counted(text, name string) bool {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			return fields[1] != "0"
		}
	}
	return false
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) ||
		errors.Is(err, unix.EOPNOTSUPP)
}
