package shim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
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

// SignalGroup sends sig to the process group that the process leads. It returns false if the process no longer exists, leads
// no group, or may not be signaled.
func (i Identity) SignalGroup(sig syscall.Signal) bool {
	return i.Alive() && unix.Kill(-i.PID, sig) == nil
}

// Terminate sends SIGTERM to the process group that the process leads, or to the process alone if it has left its group.
// It returns false if the process had ended before. It returns true for a process that may not be signaled, such as one
// of another user: it has not ended, and must be killed in another way.
func (i Identity) Terminate() bool {
	return i.SignalGroup(syscall.SIGTERM) || i.Signal(syscall.SIGTERM) || i.Alive()
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

// Descendants returns the pids of the descendants of pid, except zombies.
func Descendants(pid int) []int {
	below := processes().below(pid)
	pids := make([]int, len(below))
	for i, p := range below {
		pids[i] = p.pid
	}
	return pids
}

// process is a process in a tree.
type process struct {
	pid   int
	state byte
}

// tree contains the children of each process of the machine, except zombies.
type tree map[int][]process

func processes() tree {
	t := tree{}
	for _, pid := range all() {
		if s, err := readStat(pid); err == nil && !s.ended() {
			t[s.ppid] = append(t[s.ppid], process{pid, s.state})
		}
	}
	return t
}

// below returns the descendants of a process.
func (t tree) below(pid int) []process {
	var found []process
	for queue := t[pid]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, t[queue[0].pid]...)
	}
	return found
}

// WithVariable returns the processes that were started with the environment variable name=value. Sweep uses
// it to find processes that a killed shim left behind outside a cgroup.
func WithVariable(name, value string) []Identity {
	want := []byte(name + "=" + value)
	var found []Identity
	for _, p := range all() {
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(p) + "/environ")
		if err != nil || !hasVariable(environ, want) {
			continue
		}
		if i, err := Lookup(p); err == nil && i.Alive() {
			found = append(found, i)
		}
	}
	return found
}

func hasVariable(environ, want []byte) bool {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(variable, want) {
			return true
		}
	}
	return false
}

func all() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endingTime is how long the kernel may take to end processes that were killed.
const endingTime = time.Minute

// Sweep ends the processes that a killed shim left behind and returns when no process is left. The kernel has killed
// the command together with the shim. Sweep finds the other processes by their cgroup, their process group and the
// variable MarkName in their environment. A killed process loses these marks before it has ended, so Sweep also waits
// for the processes that it has found, and for the boundary's first process, which ends last. It returns an error if
// the kernel does not end them within a minute.
func Sweep(ctx context.Context, clk clock.Clock, dir string) error {
	var s Start
	if err := localfile.ReadJSON(startFile(dir), &s); err != nil {
		return err
	}
	var r Running
	if err := localfile.ReadJSON(runFile(dir), &r); err != nil {
		return err
	}
	ending, deadline := map[Identity]bool{r.Command: true, r.First: true}, clk.Now().Add(endingTime)
	for {
		marked := WithVariable(MarkName, s.Mark) // before the kills, which remove the marks
		left := s.Limits.Kill()
		left = r.Command.SignalGroup(syscall.SIGKILL) || left
		for _, p := range marked {
			left, ending[p] = p.Signal(syscall.SIGKILL) || left, true
		}
		maps.DeleteFunc(ending, func(p Identity, _ bool) bool { return !p.Alive() })
		var busy error
		if !left && len(ending) == 0 {
			// A cgroup no longer lists a process that is ending, but it can be removed only after the end.
			if busy = s.Limits.Remove(); busy == nil {
				return nil
			}
		}
		if left {
			deadline = clk.Now().Add(endingTime)
		} else if clk.Now().After(deadline) {
			return cmp.Or(busy, fmt.Errorf("%d processes of %s were killed a minute ago, but the kernel has not ended them", len(ending), s.Mark))
		}
		if err := clock.Sleep(ctx, clk, 10*time.Millisecond); err != nil {
			return fmt.Errorf("end the remaining processes of %s: %w", s.Mark, err)
		}
	}
}

// Written returns, for each work with running commands, how many bytes the shims of the work and their descendants have
// written to a disk. The number includes ended processes whose parent has waited for them. The kernel counts nothing
// for a file system in memory, nor for space that is allocated without writing to it.
func Written(works string) (map[string]int64, error) {
	written, all := map[string]int64{}, processes()
	err := eachShim(works, func(work string, shim int) {
		written[work] += writtenBy(shim)
		for _, p := range all.below(shim) {
			written[work] += writtenBy(p.pid)
		}
	})
	return written, err
}

// writtenBy returns how many bytes a process has written to a disk, or 0 if it has ended.
func writtenBy(pid int) int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if text, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return n
		}
	}
	return 0
}
