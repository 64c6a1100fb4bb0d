package shim

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func sleeper(t *testing.T, more ...string) (*exec.Cmd, Identity) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "300")
	cmd.Env = append(os.Environ(), more...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	i, err := Lookup(cmd.Process.Pid)
	require.NoError(t, err)
	return cmd, i
}

func TestIdentity_reusedPID(t *testing.T) {
	t.Parallel()
	cmd, i := sleeper(t)
	require.True(t, i.Alive())
	for name, other := range map[string]Identity{
		"later start": {PID: i.PID, Start: i.Start + 1, Boot: i.Boot},
		"other boot":  {PID: i.PID, Start: i.Start, Boot: "another"},
		"zero value":  {},
	} {
		require.False(t, other.Alive(), name)
		require.False(t, other.Signal(syscall.SIGKILL), name)
	}
	require.NoError(t, cmd.Process.Signal(syscall.Signal(0)), "the process must not be signalled")
}

func TestIdentity_Wait_reapsChild(t *testing.T) {
	t.Parallel()
	_, i := sleeper(t)
	done := make(chan error, 1)
	go func() { done <- i.Wait(context.Background()) }()
	require.True(t, i.Signal(syscall.SIGKILL))
	require.NoError(t, <-done)
	require.False(t, i.Alive())
	require.ErrorIs(t, syscall.Kill(i.PID, 0), syscall.ESRCH, "the process must be reaped")
	require.NoError(t, i.Wait(t.Context()), "Wait must succeed for a reaped process")
}

func TestWithVariableAndDescendants(t *testing.T) {
	t.Parallel()
	_, i := sleeper(t, "SIGNALBOX_MARK="+t.Name())
	require.Equal(t, []Identity{i}, WithVariable("SIGNALBOX_MARK", t.Name()))
	require.Empty(t, WithVariable("SIGNALBOX_MARK", t.Name()+"x"))
	require.Contains(t, Descendants(os.Getpid()), i.PID)
	require.NotContains(t, Descendants(i.PID), i.PID)
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	rest := " S 7 " + strings.Repeat("0 ", 17) + "4242 0 0"
	s, err := parseStat([]byte("12 (a) b (c)" + rest))
	require.NoError(t, err)
	require.Equal(t, stat{state: 'S', ppid: 7, start: 4242}, s)
	for _, bad := range []string{"", "12 a S 7", "12 (a) S", "12 (a) S x " + strings.Repeat("0 ", 20), "12 (a) S 7 " + strings.Repeat("x ", 20)} {
		_, err := parseStat([]byte(bad))
		require.Error(t, err, bad)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a) S 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4242 0 0"))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = parseStat(raw) })
}
