package shim

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// group starts a shell script in its own process group. It returns the shell and its output, to which the script prints
// the pids of its children.
func group(t *testing.T, script string) (leader Identity, output *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	leader, err = Lookup(cmd.Process.Pid)
	require.NoError(t, err)
	return leader, bufio.NewReader(out)
}

func number(t *testing.T, output *bufio.Reader) int {
	t.Helper()
	line, err := output.ReadString('\n')
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return n
}

func TestIdentity_SignalGroup(t *testing.T) {
	t.Parallel()
	leader, output := group(t, "sleep 300 & echo $!; sleep 300 & echo $!; wait")
	var children []Identity
	for range 2 {
		child, err := Lookup(number(t, output))
		require.NoError(t, err)
		children = append(children, child)
	}
	require.True(t, leader.SignalGroup(syscall.SIGKILL))
	require.NoError(t, leader.Wait(t.Context()))
	for _, c := range children {
		require.NoError(t, c.Wait(t.Context()))
		require.False(t, c.Alive())
	}
	require.False(t, leader.SignalGroup(syscall.SIGKILL), "the group must be gone")
	require.False(t, leader.Signal(syscall.SIGKILL))
}

func TestIdentity_Terminate(t *testing.T) {
	t.Parallel()
	leader, _ := group(t, "exec sleep 300")
	require.True(t, leader.Terminate())
	require.NoError(t, leader.Wait(t.Context()))
	require.False(t, leader.Terminate(), "the process has ended by itself")
}

// A process of another user, such as one that sudo has started, cannot be signaled. It has not ended for that reason.
func TestIdentity_Terminate_otherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return // only root can change the user
	}
	leader, _ := group(t, "exec sleep 300")
	var signaled, stopped bool
	asNobody(t, func() {
		signaled, stopped = leader.SignalGroup(syscall.SIGTERM), leader.Terminate()
	})
	require.False(t, signaled)
	require.True(t, stopped)
	require.True(t, leader.Alive())
}

// asNobody calls check on a thread of its own, as an unprivileged user.
func asNobody(t *testing.T, check func()) {
	t.Helper()
	const nobody = 65534
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			t.Errorf("change the user: %v", errno)
			return
		}
		check()
	})
	wg.Wait()
}

func TestIdentity_SignalGroup_reusedPID(t *testing.T) {
	t.Parallel()
	leader, output := group(t, "echo 1; exec sleep 300")
	number(t, output)
	other := leader
	other.Start++
	require.False(t, other.SignalGroup(syscall.SIGKILL))
	require.True(t, leader.Alive())
}

func TestIdentity_Alive_zombie(t *testing.T) {
	t.Parallel()
	// The shell starts a child that ends. It then executes a program that never reaps the child.
	leader, output := group(t, "sh -c 'echo $$; exec 1>&-' & exec sleep 300")
	pid := number(t, output)
	child, err := Lookup(pid)
	if err == nil {
		require.NoError(t, child.Wait(t.Context()))
	}
	require.True(t, leader.Alive())
	require.False(t, child.Alive())
	require.False(t, child.Signal(syscall.SIGTERM))
	require.NotContains(t, Descendants(leader.PID), pid, "zombies must be left out")
}

func TestIdentity_Wait_concurrent(t *testing.T) {
	t.Parallel()
	_, i := sleeper(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := i.Wait(context.Background()); err != nil {
				t.Errorf("wait: %v", err)
			}
		})
	}
	require.True(t, i.Signal(syscall.SIGKILL))
	wg.Wait()
	require.False(t, i.Alive())
}

func TestIdentity_Wait_notAChild(t *testing.T) {
	t.Parallel()
	// An agent that adopts a work is not the parent of the work's processes.
	_, output := group(t, "sh -c 'sleep 300 & echo $!; wait' & wait")
	grandchild, err := Lookup(number(t, output))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- grandchild.Wait(context.Background()) }()
	require.True(t, grandchild.Signal(syscall.SIGKILL))
	require.NoError(t, <-done)
	require.False(t, grandchild.Alive())
}

func TestIdentity_Wait_otherBoot(t *testing.T) {
	t.Parallel()
	_, i := sleeper(t)
	for _, other := range []Identity{{PID: i.PID, Start: i.Start, Boot: "another"}, {PID: i.PID, Start: i.Start + 1, Boot: i.Boot}} {
		require.NoError(t, other.Wait(t.Context()))
	}
	require.True(t, i.Alive(), "the process with this pid must continue")
}

func TestDescendants_acrossSessions(t *testing.T) {
	t.Parallel()
	leader, output := group(t, "sh -c 'setsid sleep 300 & echo $!; wait' & wait")
	fled := number(t, output)
	var found []int
	for { // setsid(1) may fork before it becomes sleep.
		found = Descendants(leader.PID)
		if len(found) >= 2 || t.Context().Err() != nil {
			break
		}
	}
	require.Contains(t, found, fled)
	require.NotContains(t, found, leader.PID)
	require.NotContains(t, found, os.Getpid())
}

func TestWithVariable_wholeVariable(t *testing.T) {
	t.Parallel()
	mark := "wrk_1.2.3-" + strconv.Itoa(os.Getpid())
	_, i := sleeper(t, "SIGNALBOX_LIFE="+mark)
	for _, c := range []struct{ name, value string }{
		{"SIGNALBOX_LIFE", mark + "0"}, {"SIGNALBOX_LIFE", mark[:len(mark)-1]}, {"GNALBOX_LIFE", mark}, {"SIGNALBOX_LIFE", ""},
	} {
		require.NotContains(t, WithVariable(c.name, c.value), i, "%s=%s", c.name, c.value)
	}
	require.Equal(t, []Identity{i}, WithVariable("SIGNALBOX_LIFE", mark))
}

func TestLookup_missingProcess(t *testing.T) {
	t.Parallel()
	for _, pid := range []int{0, -1, 1 << 30} {
		_, err := Lookup(pid)
		require.Error(t, err, "%d", pid)
		require.False(t, Identity{PID: pid, Boot: "x"}.Alive())
	}
}

func TestIdentity_Wait_canceled(t *testing.T) {
	t.Parallel()
	_, i := sleeper(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Wait(ctx) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, i.Wait(ctx), context.Canceled, "Wait must fail with a context that has already ended")
	require.True(t, i.Alive())
}

func TestLookup_ownProcess(t *testing.T) {
	t.Parallel()
	first, err := Lookup(os.Getpid())
	require.NoError(t, err)
	second, err := Lookup(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.NotZero(t, first.Start)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(boot)), first.Boot)
}

func TestIdentity_Alive_firstThreadEnded(t *testing.T) {
	t.Parallel()
	// exit ends only the calling thread, which is the first one of the process.
	leader, output := group(t, `exec python3 -c '
import ctypes, os, threading, time
def rest():
    while open("/proc/self/stat").read().split(")")[1].split()[0] != "Z": time.sleep(0.01)
    print(os.getpid(), flush=True)
    time.sleep(300)
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall(`+strconv.Itoa(syscall.SYS_EXIT)+`, 0)'`)
	require.Equal(t, leader.PID, number(t, output))
	require.True(t, leader.Alive(), "a process with another running thread must be alive")
	require.Contains(t, Descendants(os.Getpid()), leader.PID)
	require.NotZero(t, signalDescendants(os.Getpid(), 0, func(state byte) bool { return state == 'S' }))
	require.True(t, leader.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		s, err := readStat(leader.PID)
		return err == nil && s.state == stopped
	}, time.Minute, time.Millisecond, "the state must be that of the other thread")
	require.True(t, leader.Signal(syscall.SIGKILL))
	require.NoError(t, leader.Wait(t.Context()))
	require.False(t, leader.Alive())
}
