package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Identity identifies one process, even after its pid was reused or the machine was rebooted.
type Identity struct {
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot.
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// Lookup returns the identity of an existing process.
func Lookup(pid int) (Identity, error) {
	s, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: s.start, Boot: boot}, nil
}

// Alive reports whether a thread of the process is still running. A zombie is not running.
func (i Identity) Alive() bool {
	if i.PID <= 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != i.Boot {
		return false
	}
	s, err := readStat(i.PID)
	return err == nil && s.start == i.Start && !s.ended()
}

// Signal sends sig to the process. It returns false if the process no longer exists.
func (i Identity) Signal(sig syscall.Signal) bool {
	fd, err := unix.PidfdOpen(i.PID, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	// Open the descriptor before Alive checks the pid. If Alive then returns true, the descriptor refers to this process,
	// and the signal cannot reach another one even if the pid is reused afterwards.
	return i.Alive() && unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}

// SignalGroup sends sig to the process group that the process leads. It returns false if the process no
// longer exists.
func (i Identity) SignalGroup(sig syscall.Signal) bool {
	return i.Alive() && unix.Kill(-i.PID, sig) == nil
}

// Wait returns when the process has ended, or with the error of ctx. It reaps the process if it is a child
// of the calling process.
func (i Identity) Wait(ctx context.Context) error {
	fd, err := unix.PidfdOpen(i.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return fmt.Errorf("open process %d: %w", i.PID, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer func() { _ = f.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if !i.Alive() {
		i.reap()
		return nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch process %d: %w", i.PID, err)
	}
	if err := conn.Read(func(uintptr) bool { return !i.Alive() }); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("watch process %d: %w", i.PID, err)
	}
	i.reap()
	return nil
}

func (i Identity) reap() {
	var status unix.WaitStatus
	_, _ = unix.Wait4(i.PID, &status, unix.WNOHANG, nil)
}

// stat is the state of a process, its parent, its number of threads and its start time in clock ticks since boot.
type stat struct {
	state   byte
	ppid    int
	threads int
	start   uint64
}

// ended reports whether no thread of the process is left.
func (s stat) ended() bool { return s.state == 'Z' || s.state == 'X' }

// readStat reads the state of a process. The kernel reports the state of the first thread, which may end before the
// others: a program can end that thread alone, and after SIGKILL the threads end in any order. If only other
// threads are left, readStat returns the state of one of them.
func readStat(pid int) (stat, error) {
	folder := "/proc/" + strconv.Itoa(pid)
	raw, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return stat{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	s, err := parseStat(raw)
	if err != nil || !s.ended() || s.threads <= 1 {
		return s, err
	}
	threads, err := filepath.Glob(folder + "/task/*/stat")
	for _, path := range threads {
		raw, failed := os.ReadFile(path)
		if thread, wrong := parseStat(raw); failed == nil && wrong == nil && !thread.ended() {
			s.state = thread.state
		}
	}
	return s, err
}

// parseStat parses the content of /proc/PID/stat. The name in parentheses may contain spaces and
// parentheses.
func parseStat(raw []byte) (stat, error) {
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return stat{}, errors.New("the stat line of the process has no name")
	}
	fields := strings.Fields(string(raw[end+1:]))
	const threadsField, startField = 17, 19 // fields 20 and 22 of the line, counted from the state
	if len(fields) <= startField || len(fields[0]) != 1 {
		return stat{}, errors.New("the stat line of the process has too few fields")
	}
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, fmt.Errorf("parse the parent in the stat line of the process: %w", err)
	}
	threads, err := strconv.Atoi(fields[threadsField])
	if err != nil {
		return stat{}, fmt.Errorf("parse the threads in the stat line of the process: %w", err)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("parse the start time in the stat line of the process: %w", err)
	}
	return stat{state: fields[0][0], ppid: ppid, threads: threads, start: start}, nil
}

func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
