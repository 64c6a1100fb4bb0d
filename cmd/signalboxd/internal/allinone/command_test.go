package allinone

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

func TestMain_flags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--version"}, {"--print-config", "--data", t.TempDir()}} {
		var out, errOut bytes.Buffer
		require.Zero(t, Main(args, &out, &errOut), errOut.String())
		require.NotEmpty(t, out.String())
	}
	for _, arg := range []string{"-h", "--help"} {
		var out, errOut bytes.Buffer
		require.Zero(t, Main([]string{arg}, &out, &errOut))
		require.Contains(t, errOut.String(), "-listen")
		require.NotContains(t, errOut.String(), "signalboxd: ", "the usage must not be printed as an error")
	}
}

func TestMain_invalidArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"signalboxd: unknown argument \"serve\"\n": {"serve"},
		"SERVICE_LISTEN": {"--listen", "nowhere", "--data", t.TempDir()},
	} {
		var out, errOut bytes.Buffer
		require.Equal(t, 1, Main(args, &out, &errOut))
		require.Contains(t, errOut.String(), want)
	}
}

// TestStop starts this test binary as the process that uses a data folder.
func TestStop(t *testing.T) {
	if data := os.Getenv("TEST_STOP_DATA"); data != "" {
		holdFolder(data)
		return
	}
	t.Parallel()
	for _, c := range []struct{ flag, want string }{{"--works=false", "terminated"}, {"--works", "interrupt"}} {
		data := t.TempDir()
		holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStop$", "-test.v=false")
		holder.Env = append(os.Environ(), "TEST_STOP_DATA="+data)
		out, err := holder.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, holder.Start())
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan())
		require.Equal(t, "held", lines.Text())
		ended := make(chan error, 1)
		go func() {
			var errOut bytes.Buffer
			ended <- stop(context.WithoutCancel(t.Context()), []string{"--data", data, c.flag}, &errOut)
		}()
		require.True(t, lines.Scan())
		require.Equal(t, c.want, lines.Text())
		require.NoError(t, <-ended)
		_ = holder.Wait() // fails, because stop has already reaped this process, which is a child of the test
		_, err = os.Stat("/proc/" + strconv.Itoa(holder.Process.Pid))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

// holdFolder locks the folder, prints the first signal and exits.
func holdFolder(data string) {
	signals, _ := process.Signals()
	f, err := openFolder(data)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("held\n")
	_, _ = os.Stdout.WriteString((<-signals).String() + "\n")
	_ = f.close()
}

func TestStop_invalid(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"no signalboxd is running on the data folder " + empty: {"--data", empty},
		"/absent; name the folder with --data":                 {"--data", empty + "/absent"},
		`unknown argument "now"`:                               {"now"},
		"want a folder, got nothing":                           {"--data", ""},
		"invalid boolean value":                                {"--works=maybe"},
	} {
		var out, errOut bytes.Buffer
		require.Equal(t, 1, Main(append([]string{"stop"}, args...), &out, &errOut))
		require.Contains(t, errOut.String(), want)
	}
	require.NoDirExists(t, empty+"/absent")
	var out, errOut bytes.Buffer
	require.Zero(t, Main([]string{"stop", "--help"}, &out, &errOut))
	require.Contains(t, errOut.String(), "-works")
}

func TestStatus_killedWritesNothing(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	require.Equal(t, 1, status(fmt.Errorf("%w: interrupt", process.ErrKilled), &errOut))
	require.Empty(t, errOut.String())
}
