package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"/tmp/sb12": true, "--data\x00/tmp/sb12/data\x00": true, "A=/tmp/sb12\x00": true, "/tmp/sb123": false, "/tmp/sb123/x:/tmp/sb12/x": true,
		"/tmp/sb1": false, "": false, "/tmp/sb124 /tmp/sb129": false,
	} {
		require.Equal(t, want, mentions([]byte(text), "/tmp/sb12"), "%q", text)
	}
}

func TestSweep_removesOnlyItsGroups(t *testing.T) {
	t.Parallel()
	dir, kernel := Folder(t), t.TempDir()
	mine, other := filepath.Join(kernel, "mine"), filepath.Join(kernel, "other")
	for _, group := range []string{mine, other} {
		require.NoError(t, os.Mkdir(group, 0o700))
	}
	run := filepath.Join(dir, "data", "agent", "works", "w.1.1", "starts", "0")
	require.NoError(t, os.MkdirAll(run, 0o700))
	start := `{"limits":{"groups":["` + filepath.Join(kernel, "gone") + `","` + mine + `"]}}`
	require.NoError(t, os.WriteFile(filepath.Join(run, "start.json"), []byte(start), 0o600))
	sweep(t, dir)
	require.NoDirExists(t, mine)
	require.DirExists(t, other)
}

func TestLeft_findsProcessesThatSweepKills(t *testing.T) {
	t.Parallel()
	dir := Folder(t)
	byArgument := exec.Command("sh", "-c", "read line # "+dir+"/data")
	byEnvironment := exec.Command("sh", "-c", "read line")
	byEnvironment.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "home"))
	neighbour := exec.Command("sh", "-c", "read line # "+dir+"0/data")
	for _, cmd := range []*exec.Cmd{byArgument, byEnvironment, neighbour} {
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = in.Close() })
		require.NoError(t, cmd.Start())
	}
	require.ElementsMatch(t, []int{byArgument.Process.Pid, byEnvironment.Process.Pid}, LeftProcesses(dir))
	sweep(t, dir)
	require.ErrorContains(t, byArgument.Wait(), "killed")
	require.ErrorContains(t, byEnvironment.Wait(), "killed")
	require.Empty(t, LeftProcesses(dir))
	require.NoError(t, neighbour.Process.Kill())
	require.ErrorContains(t, neighbour.Wait(), "killed")
}
