package pyenv

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// commands are the commands that create an environment and install its packages.
type commands struct {
	create, install []string
	// settings returns the variables that the commands need besides those of the agent.
	settings func() []string
}

// withUV returns the commands of uv. Dependencies are not resolved, because the requirements include all of them. uv
// rejects requirements without a hash. Only wheels are installed, unless the requirements contain --no-binary.
func (i installer) withUV(uv string) commands {
	return commands{
		create: []string{uv, "venv", "--no-project", "--no-python-downloads", "--python", i.python.Path, i.dir},
		install: []string{
			uv, "pip", "install", "--no-progress", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--python", i.dir + "/bin/python", "-r", i.list,
		},
		settings: i.uvSettings,
	}
}

// withPip returns the commands of pip. They install the same packages as those of uv.
func (i installer) withPip() commands {
	create := []string{i.python.Path, "-m", "venv", "--without-pip", i.dir}
	var pip []string
	// The pip of the base interpreter saves the seconds that it takes to install pip into the new environment.
	switch base := i.basePip(); {
	case base.runner != "":
		pip = []string{i.dir + "/bin/python", base.runner}
	case base.usable:
		pip = []string{i.python.Path, "-m", "pip", "--python", i.dir + "/bin/python"}
	default:
		create = []string{i.python.Path, "-m", "venv", i.dir}
		pip = []string{i.dir + "/bin/python", "-m", "pip"}
	}
	return commands{
		create: create,
		install: slices.Concat(pip, []string{
			"install", "--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-deps", "--require-hashes",
			"--only-binary", ":all:", "--no-compile", "-r", i.list,
		}),
		settings: i.pipSettings,
	}
}

// basePip is the pip of the interpreter from which environments are built.
type basePip struct {
	// usable is true if this pip can install into another environment with its option --python, which is the case since
	// pip 22.3.
	usable bool
	// runner is the file that --python executes with the interpreter of the other environment. Executing it directly
	// saves a start of pip. It is empty if the file does not exist or is outside the interpreter's folder, where a step
	// may not see it.
	runner string
}

// basePip returns the interpreter's pip. It imports the package instead of running it, because that takes a tenth of the
// time.
func (b *Builder) basePip(ctx context.Context, python Interpreter) (p basePip) {
	output, err := b.output(ctx, []string{python.Path, "-c", "import pip; print(pip.__version__, pip.__path__[0], sep='\t')"})
	version, dir, found := strings.Cut(strings.TrimSpace(output), "\t")
	if err != nil || !found {
		return basePip{}
	}
	parts := strings.Split(version, ".")
	major, err := strconv.Atoi(parts[0])
	minor := 0
	if err == nil && len(parts) > 1 {
		minor, err = strconv.Atoi(parts[1])
	}
	p.usable = err == nil && (major > 22 || (major == 22 && minor >= 3))
	runner := filepath.Join(dir, "__pip-runner__.py")
	if _, err := os.Stat(runner); p.usable && err == nil && boundary.Contains(python.Base, runner) {
		p.runner = runner
	}
	return p
}
