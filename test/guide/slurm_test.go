package guide

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/slurmtest"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestSlurm runs the commands of the guide on Slurm in one shell, on a cluster with two nodes.
func TestSlurm(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Start(t, slurmtest.Config{Nodes: 2, GPUs: 1})
	s := testenv.Single(t, testenv.Options{})
	g := &follower{t: t, s: s, dir: t.TempDir()}
	g.signIn()
	g.env = append(g.env, cluster.Env()...)
	g.env = append(g.env, "PATH="+filepath.Dir(testenv.Bin(t, "signalbox"))+string(filepath.ListSeparator)+filepath.Dir(cluster.Bin("srun"))+
		string(filepath.ListSeparator)+os.Getenv("PATH"))
	folder := filepath.Join(testenv.Folder(t), "shared")
	place := strings.NewReplacer("http://127.0.0.1:8080", s.URL, "/shared/signalbox", folder)
	blocks := guideBlocks(t, "slurm")
	var script strings.Builder
	for _, b := range blocks {
		script.WriteString(place.Replace(b.commands) + "printf '%s' '" + guideMark + "'\n")
	}
	t.Cleanup(func() { // the shell leaves the agent running
		for _, pid := range testenv.LeftProcesses(folder) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	outputs := strings.Split(g.run(script.String()), guideMark)
	require.Len(t, outputs, len(blocks)+1, "each block must end")
	for i, b := range blocks {
		g.check(b, outputs[i])
	}
}
