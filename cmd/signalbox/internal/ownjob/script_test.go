package ownjob

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/sbatch"
)

// folder returns a folder with scripts, and files that only look like some.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"jobs/two.sh":  "#!/bin/bash -e\n#SBATCH -N 2\ntrue\n",
		"plain.sbatch": "#!/bin/sh\ntrue\n",
		"train.sh":     "#!/bin/bash -e\nsrun is not looked for\n",
		"no-first.sh":  "#SBATCH -N 2\ntrue\n",
		"array.sh":     "#!/bin/sh\n#SBATCH --array=1-3\nsrun true\n",
		"python":       "#!/bin/sh\n#SBATCH -N 2\n",
		"data.txt":     "two.sh\n",
		"train.py":     "print(1)\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func TestWithScript(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	tool := filepath.Join(t.TempDir(), "tool.sh")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\ntrue\n"), 0o600))
	for name, c := range map[string]struct {
		command, want []string
		// script is the path of the script, if it is one for sbatch.
		script string
	}{
		"script":               {[]string{"jobs/two.sh", "a b"}, []string{"/bin/bash", "-e", "jobs/two.sh", "a b"}, "jobs/two.sh"},
		"script here":          {[]string{"./jobs/two.sh"}, []string{"/bin/bash", "-e", "jobs/two.sh"}, "jobs/two.sh"},
		"absolute path":        {[]string{filepath.Join(dir, "jobs/two.sh")}, []string{"/bin/bash", "-e", "jobs/two.sh"}, "jobs/two.sh"},
		"name of one":          {[]string{"plain.sbatch"}, []string{"/bin/sh", "plain.sbatch"}, "plain.sbatch"},
		"after a shell":        {[]string{"sh", "jobs/two.sh", "-c"}, []string{"sh", "jobs/two.sh", "-c"}, "jobs/two.sh"},
		"options of a shell":   {[]string{"bash", "-e", "-o", "pipefail", "jobs/two.sh"}, []string{"bash", "-e", "-o", "pipefail", "jobs/two.sh"}, "jobs/two.sh"},
		"text for a shell":     {[]string{"bash", "-lc", "true", "jobs/two.sh"}, []string{"bash", "-lc", "true", "jobs/two.sh"}, ""},
		"argument of a script": {[]string{"sh", "data.txt", "jobs/two.sh"}, []string{"sh", "data.txt", "jobs/two.sh"}, ""},
		"another script":       {[]string{"train.sh", "1"}, []string{"/bin/bash", "-e", "train.sh", "1"}, ""},
		"program":              {[]string{"python", "jobs/two.sh"}, []string{"python", "jobs/two.sh"}, ""},
		"file of the node":     {[]string{"/opt/tools/start.sh"}, []string{"/opt/tools/start.sh"}, ""},
		"program outside":      {[]string{"/bin/sleep", "1"}, []string{"/bin/sleep", "1"}, ""},
		"script outside":       {[]string{tool, "1"}, []string{tool, "1"}, ""},
		"script for a shell":   {[]string{"sh", tool}, []string{"sh", tool}, ""},
		"folder":               {[]string{"./jobs"}, []string{"./jobs"}, ""},
		"no script":            {[]string{"./data.txt"}, []string{"./data.txt"}, ""},
	} {
		r, err := Request{Command: c.command, DefaultPool: "default"}.WithScript(dir)
		require.NoError(t, err, name)
		require.Equal(t, c.script, r.ScriptPath, name)
		spec, err := Spec(r)
		require.NoError(t, err, name)
		require.Equal(t, map[string]any{"command": c.want}, spec["source"], name)
	}
}

func TestWithScript_refusals(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	_, err := Request{Command: []string{"array.sh"}}.WithScript(dir)
	var refused sbatch.RefusedErrors
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused, 2)
	require.ErrorContains(t, err, "array.sh: line 2: --array has no meaning here")
	_, err = Request{Command: []string{"no-first.sh"}}.WithScript(dir)
	require.ErrorContains(t, err, "must begin with #!")
	for problem, command := range map[string][]string{
		"train.py does not begin with #!; write: python train.py":        {"train.py", "--lr", "1"},
		`the script "missing.sbatch" is not a file in the submitted`:     {"missing.sbatch"},
		`a line of the shell is run by: bash -c "echo hi && ls"`:         {"echo hi && ls"},
		`the script "./none.py" is not a file in the submitted folder; `: {"./none.py"},
	} {
		_, err = Request{Command: command}.WithScript(dir)
		require.ErrorContains(t, err, problem)
	}
	_, err = Request{Command: []string{"array.sh"}, Flags: Flags{Nodes: -1}}.WithScript(dir)
	require.ErrorContains(t, err, "--nodes -1")
	for _, outside := range []string{"../two.sh", filepath.Join(dir, "jobs", "two.sh")} {
		below := filepath.Join(dir, "other")
		require.NoError(t, os.MkdirAll(below, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "two.sh"), []byte("#!/bin/sh\n"), 0o600))
		_, err = Request{Command: []string{outside}}.WithScript(below)
		require.ErrorContains(t, err, "is not a file in the submitted folder", outside)
	}
}
