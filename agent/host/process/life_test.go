package process

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// group is a shell that leads a group of its own and says what its children are.
func group(t *testing.T, script string) (leader Identity, words *bufio.Reader) {
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
	leader, err = Of(cmd.Process.Pid)
	require.NoError(t, err)
	return leader, bufio.NewReader(out)
}

func number(t *testing.T, words *bufio.Reader) int {
	t.Helper()
	line, err := words.ReadString('\n')
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return n
}

func TestASignalToTheGroupReachesEveryMember(t *testing.T) {
	t.Parallel()
	leader, words := group(t, "sleep 300 & echo $!; sleep 300 & echo $!; wait")
	var children []Identity
	for range 2 {
		child, err := Of(number(t, words))
		require.NoError(t, err)
		children = append(children, child)
	}
	require.True(t, leader.SignalGroup(syscall.SIGKILL))
	require.NoError(t, leader.Wait(t.Context()))
	for _, c := range children {
		require.NoError(t, c.Wait(t.Context()))
		require.False(t, c.Alive())
	}
	require.False(t, leader.SignalGroup(syscall.SIGKILL), "there is no group any more")
	require.False(t, leader.Signal(syscall.SIGKILL))
}

func TestAGroupIsNotSignalledForAnotherProcessOfTheSameNumber(t *testing.T) {
	t.Parallel()
	leader, words := group(t, "echo 1; exec sleep 300")
	number(t, words)
	other := leader
	other.Start++
	require.False(t, other.SignalGroup(syscall.SIGKILL))
	require.True(t, leader.Alive())
}

func TestAZombieIsDeadAndItsNumberIsStillItsOwn(t *testing.T) {
	t.Parallel()
	// The shell starts a child that ends and becomes one that never reaps it.
	leader, words := group(t, "sh -c 'echo $$; exec 1>&-' & exec sleep 300")
	pid := number(t, words)
	child, err := Of(pid)
	if err == nil {
		require.NoError(t, child.Wait(t.Context()))
	}
	require.True(t, leader.Alive())
	require.False(t, child.Alive())
	require.False(t, child.Signal(syscall.SIGTERM))
	require.NotContains(t, Descendants(leader.PID), pid, "zombies are left out")
}

func TestManyWaitForOneProcess(t *testing.T) {
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

func TestWaitSeesTheEndOfAProcessThatIsNoChild(t *testing.T) {
	t.Parallel()
	// An adopted work is the child of its shim, not of the agent.
	_, words := group(t, "sh -c 'sleep 300 & echo $!; wait' & wait")
	stranger, err := Of(number(t, words))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- stranger.Wait(context.Background()) }()
	require.True(t, stranger.Signal(syscall.SIGKILL))
	require.NoError(t, <-done)
	require.False(t, stranger.Alive())
}

func TestWaitForAnotherBootsProcessReturnsAtOnce(t *testing.T) {
	t.Parallel()
	_, i := sleeper(t)
	for _, other := range []Identity{{PID: i.PID, Start: i.Start, Boot: "another"}, {PID: i.PID, Start: i.Start + 1, Boot: i.Boot}} {
		require.NoError(t, other.Wait(t.Context()))
	}
	require.True(t, i.Alive(), "the process that has the number now goes on")
}

func TestDescendantsReachThroughSessions(t *testing.T) {
	t.Parallel()
	leader, words := group(t, "sh -c 'setsid sleep 300 & echo $!; wait' & wait")
	fled := number(t, words)
	var found []int
	for { // setsid(1) may fork once more before it becomes sleep.
		found = Descendants(leader.PID)
		if len(found) >= 2 || t.Context().Err() != nil {
			break
		}
	}
	require.Contains(t, found, fled)
	require.NotContains(t, found, leader.PID)
	require.NotContains(t, found, os.Getpid())
}

func TestAMarkIsTheWholeVariable(t *testing.T) {
	t.Parallel()
	mark := "wrk_1.2.3-" + strconv.Itoa(os.Getpid())
	_, i := sleeper(t, "SIGNALBOX_LIFE="+mark)
	for _, c := range []struct{ name, value string }{
		{"SIGNALBOX_LIFE", mark + "0"}, {"SIGNALBOX_LIFE", mark[:len(mark)-1]}, {"GNALBOX_LIFE", mark}, {"SIGNALBOX_LIFE", ""},
	} {
		require.NotContains(t, Marked(c.name, c.value), i, "%s=%s", c.name, c.value)
	}
	require.Equal(t, []Identity{i}, Marked("SIGNALBOX_LIFE", mark))
}

func TestOfNobody(t *testing.T) {
	t.Parallel()
	for _, pid := range []int{0, -1, 1 << 30} {
		_, err := Of(pid)
		require.Error(t, err, "%d", pid)
		require.False(t, Identity{PID: pid, Boot: "x"}.Alive())
	}
}

func TestAnEndedContextLeavesTheProcessAlone(t *testing.T) {
	t.Parallel()
	_, i := sleeper(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Wait(ctx) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, i.Wait(ctx), context.Canceled, "one that had ended before")
	require.True(t, i.Alive())
}

func TestTheOwnIdentityIsStable(t *testing.T) {
	t.Parallel()
	first, err := Of(os.Getpid())
	require.NoError(t, err)
	second, err := Of(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.NotZero(t, first.Start)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(boot)), first.Boot)
}
