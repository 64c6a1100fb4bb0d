package pyenv_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// steps runs the steps of builds, except for those that install packages.
type steps struct {
	installs [][]string
	// after is called with the folder of the environment once that folder has been created.
	after func(venv string) error
}

func (s *steps) run(ctx context.Context, step pyenv.Step) (string, error) {
	var plan [5]json.RawMessage // see buildScript
	if json.Unmarshal([]byte(step.Args[len(step.Args)-1]), &plan) == nil {
		var download, create, install []string
		var folder string
		for n, part := range []any{&download, &folder, &create, &install} {
			if err := json.Unmarshal(plan[n], part); err != nil {
				return "", err
			}
		}
		s.installs = append(s.installs, download, install)
		if err := os.Mkdir(folder, 0o700); err != nil {
			return "", err
		}
		step.Args = create
	}
	cmd := exec.CommandContext(ctx, step.Args[0], step.Args[1:]...)
	cmd.Env = step.Env
	out, err := cmd.CombinedOutput()
	if err == nil && s.after != nil {
		err = s.after(step.Args[len(step.Args)-1])
	}
	return string(out), err
}

// The code of a source package can replace parts of the environment that is built.
func TestBuilder_Ensure_linksInEnvironment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "bin", "pyvenv.cfg"} {
		outside := filepath.Join(t.TempDir(), "outside")
		s := &steps{after: func(venv string) error {
			path := filepath.Join(venv, name)
			if err := os.Rename(path, outside); err != nil {
				return err
			}
			return os.Symlink(outside, path)
		}}
		_, err := pyenv.NewBuilder(t.TempDir(), only(t, "python3"), clock.Real(), s.run).Ensure(t.Context(), plain(), "")
		require.Contains(t, buildError(t, err), "is missing or is a link", name)
	}
}

func TestBuilder_Ensure_pipInstallsWheelsOnly(t *testing.T) {
	t.Parallel()
	s := &steps{}
	b := pyenv.NewBuilder(t.TempDir(), only(t, "python3"), clock.Real(), s.run)
	b.LimitWheels(1 << 20)
	_, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	require.NoError(t, err)
	require.Len(t, s.installs, 2, "the build must run a download and an installation")
	for _, args := range s.installs {
		require.Contains(t, strings.Join(args, " "), "pip")
		require.Contains(t, strings.Join(args, " "), "--require-hashes --only-binary :all:")
	}
}
