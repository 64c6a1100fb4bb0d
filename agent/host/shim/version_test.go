package shim_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// setVersion changes the version in a file of the folder. For version 0 it removes the member, because files of that
// version have none.
func (b *harness) setVersion(file string, version int) {
	b.Helper()
	path := filepath.Join(b.dir, file)
	raw, err := os.ReadFile(path)
	require.NoError(b, err)
	members := map[string]any{}
	require.NoError(b, json.Unmarshal(raw, &members))
	require.EqualValues(b, shim.Version, members["version"], file)
	if members["version"] = version; version == 0 {
		delete(members, "version")
	}
	raw, err = json.Marshal(members)
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(path, raw, 0o600))
}

func TestControl_adoptsShimOfEarlierVersion(t *testing.T) {
	t.Parallel()
	b := script(t, "trap 'exit 4' TERM; echo begun; while :; do sleep 0.02; done")
	b.launch()
	b.awaitLine("begun")
	b.setVersion("start.json", 0)
	b.setVersion("run.json", 0)
	require.NoError(t, shim.CheckVersion(b.dir))
	state, err := b.State(b.dir)
	require.NoError(t, err)
	require.Equal(t, shim.Alive, state)
	require.NoError(t, b.Stop(b.dir, time.Minute))
	exit, found := b.ends()
	require.True(t, found)
	require.Equal(t, 4, exit.Code)
	b.setVersion("stop.json", 0)
	b.setVersion("exit.json", 0)
	again, found := b.ends()
	require.True(t, found)
	exit.Version = 0
	require.Equal(t, exit, again)
}

func TestCheckVersion_newerFile(t *testing.T) {
	t.Parallel()
	b := script(t, "exit 0")
	require.NoError(t, shim.CheckVersion(b.dir), "an empty folder must be accepted")
	b.launch()
	b.ends()
	for _, file := range []string{"start.json", "run.json", "exit.json"} {
		right, err := os.ReadFile(filepath.Join(b.dir, file))
		require.NoError(t, err)
		b.setVersion(file, shim.Version+1)
		err = shim.CheckVersion(b.dir)
		require.ErrorIs(t, err, shim.ErrNewer)
		require.ErrorContains(t, err, file)
		require.NoError(t, os.WriteFile(filepath.Join(b.dir, file), right, 0o600))
	}
	require.NoError(t, shim.CheckVersion(b.dir))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "run.json"), []byte("{"), 0o600))
	require.ErrorContains(t, shim.CheckVersion(b.dir), "run.json")
}
