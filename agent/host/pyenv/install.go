package pyenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// installer creates one virtual environment and installs its packages.
type installer struct {
	builder *Builder
	python  Interpreter
	// temp is the folder of the build; dir and list are in it.
	temp string
	dir  string
	list string
	// sums are the hashes in the requirements.
	sums []string
	// basePip reports whether the interpreter's own pip can install into another environment, and pipConfig returns the
	// output of `pip config list`. They run a program at the first call only.
	basePip   func() bool
	pipConfig func() (string, error)
}

// newInstaller returns the installer for a build in the folder temp.
func (b *Builder) newInstaller(ctx context.Context, python Interpreter, temp, list, requirements string) installer {
	return installer{
		builder: b, python: python, temp: temp, dir: filepath.Join(temp, "venv"), list: list, sums: hashes(requirements),
		basePip: sync.OnceValue(func() bool { return b.basePip(ctx, python) }),
		pipConfig: sync.OnceValues(func() (string, error) {
			return b.output(ctx, []string{python.Path, "-m", "pip", "config", "list"})
		}),
	}
}

func (i installer) run(ctx context.Context, fill bool) error {
	if uv, ok := lookPath("uv", i.builder.environ); ok {
		return i.withUV(ctx, uv, fill)
	}
	return i.withPip(ctx, fill)
}

// withUV creates the environment and installs the requirements with uv. Dependencies are not resolved, because the
// requirements include all of them. uv rejects requirements without a hash. Only wheels are installed, unless the
// requirements contain --no-binary.
func (i installer) withUV(ctx context.Context, uv string, fill bool) error {
	extra := i.uvSettings()
	if err := i.step(ctx, []string{uv, "venv", "--no-project", "--no-python-downloads", "--python", i.python.Path, i.dir}, extra); err != nil || !fill {
		return err
	}
	found, err := i.download(ctx)
	if err != nil {
		return err
	}
	return i.step(ctx, slices.Concat([]string{
		uv, "pip", "install", "--no-progress", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--python", i.dir + "/bin/python", "-r", i.list,
	}, found), extra)
}

func (i installer) withPip(ctx context.Context, fill bool) error {
	pip := []string{i.dir + "/bin/python", "-m", "pip"}
	venv := []string{i.python.Path, "-m", "venv", i.dir}
	defer i.readPipConfig(fill)()
	// Since pip 22.3 the pip of the base interpreter can install into another environment. This saves the
	// seconds that it takes to install pip into the new environment.
	if i.basePip() {
		venv = []string{i.python.Path, "-m", "venv", "--without-pip", i.dir}
		pip = []string{i.python.Path, "-m", "pip", "--python", i.dir + "/bin/python"}
	}
	if !fill {
		return i.step(ctx, venv, nil)
	}
	found, err := i.download(ctx)
	if err != nil {
		return err
	}
	install := slices.Concat(pip, []string{
		"install", "--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", i.list,
	}, found)
	return i.step(ctx, slices.Concat([]string{i.python.Path, "-I", "-c", oneAfterOther, strconv.Itoa(len(venv))}, venv, install), i.pipSettings())
}

// oneAfterOther runs two commands and ends with the status of the first one that fails. Its arguments are the length of
// the first command and both commands. With it, a build needs one step less: each step has a boundary of its own, whose
// creation takes longer than the creation of an environment.
const oneAfterOther = `
import os, sys
end = 2 + int(sys.argv[1])
for command in sys.argv[2:end], sys.argv[end:]:
    status = os.spawnv(os.P_WAIT, command[0], command)
    if status < 0:
        os.kill(os.getpid(), -status)
    if status != 0:
        sys.exit(status)`

// readPipConfig starts to read pip's configuration if packages will be installed. The returned function waits for the end.
func (i installer) readPipConfig(fill bool) (await func()) {
	var reading sync.WaitGroup
	if fill {
		reading.Go(func() { _, _ = i.pipConfig() }) // pipSettings gets the same result
	}
	return reading.Wait
}

// basePip reports whether the interpreter has a pip that can install into another environment. It imports the package
// instead of running it, because that takes a tenth of the time.
func (b *Builder) basePip(ctx context.Context, python Interpreter) bool {
	output, err := b.output(ctx, []string{python.Path, "-c", "import pip; print(pip.__version__)"})
	if err != nil {
		return false
	}
	parts := strings.Split(strings.TrimSpace(output), ".")
	major, err := strconv.Atoi(parts[0])
	minor := 0
	if err == nil && len(parts) > 1 {
		minor, err = strconv.Atoi(parts[1])
	}
	return err == nil && (major > 22 || (major == 22 && minor >= 3))
}

// uvSettings converts the user's pip settings to settings for uv, unless the user has configured indexes
// for uv.
func (i installer) uvSettings() []string {
	if i.ownIndexes() {
		return nil
	}
	output, err := i.pipConfig()
	if err != nil {
		return nil
	}
	return translate(output)
}

// ownIndexes reports whether the user has configured indexes for uv, which pip does not know.
func (i installer) ownIndexes() bool {
	have := i.builder.environ
	return value(have, "UV_DEFAULT_INDEX")+value(have, "UV_INDEX_URL")+value(have, "UV_INDEX")+value(have, "UV_CONFIG_FILE") != ""
}

// translate converts the output of `pip config list` to environment variables for uv. Settings from
// environment variables come last, so that they override settings from files.
func translate(list string) []string {
	names := map[string]string{
		"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS",
		"trusted-host": "UV_INSECURE_HOST", "cert": "SSL_CERT_FILE",
	}
	var files, environ []string
	for line := range strings.Lines(list) {
		key, quoted, ok := strings.Cut(strings.TrimSpace(line), "=")
		section, setting, dotted := strings.Cut(key, ".")
		name := names[setting]
		if !ok || !dotted || name == "" {
			continue
		}
		v := unquote(quoted)
		switch section {
		case ":env:":
			environ = append(environ, name+"="+v)
		case "global", "install":
			files = append(files, name+"="+v)
		}
	}
	return append(files, environ...)
}

// StepError is the error of a Runner if the command of the step ran and failed. All other errors of a Runner are those of
// the node, except for *exec.ExitError, which means the same.
type StepError struct{ Reason string }

// Error returns e.Reason.
func (e *StepError) Error() string { return e.Reason }

// step runs one command of the installer. If the command fails, the end of its output becomes the error. If the node
// failed, the spec of the environment is not to blame, and the build can succeed later.
func (i installer) step(ctx context.Context, argv, extra []string) error {
	output, err := i.builder.runStep(ctx, i.describe(argv, extra))
	if err == nil {
		return nil
	}
	if err := nodeFailure(ctx, err); err != nil {
		return err
	}
	if output = executor.Tail(output, executor.MaxMessage); output == "" {
		output = err.Error()
	}
	return &BuildError{Output: output}
}

// nodeFailure returns the error for a step that did not run to its end, or nil if the command of the step itself failed.
func nodeFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("build the environment: %w", ctx.Err())
	}
	var own *StepError
	var exit *exec.ExitError
	if errors.As(err, &own) || errors.As(err, &exit) {
		return nil
	}
	return fmt.Errorf("build the environment: %w", err)
}

// describe returns the step that runs a command with the agent's settings of pip and uv.
func (i installer) describe(argv, extra []string) Step {
	// Use a private cache. The files of a shared cache would belong to another user, and links to them would survive
	// the build.
	private := []string{"TMPDIR=" + i.temp, "XDG_CACHE_HOME=" + i.temp, "UV_CACHE_DIR=" + i.temp + "/cache", "UV_LINK_MODE=hardlink", "PIP_NO_CACHE_DIR=1"}
	s := Step{Args: argv, Env: lastOfEach(slices.Concat(settings(i.builder.environ), extra, private)), Dir: i.temp}
	s.Readable = slices.Concat(outsideSystem(i.python.Base), outsideSystem(i.python.Path))
	if !boundary.Contains(i.temp, argv[0]) {
		s.Readable = append(s.Readable, outsideSystem(argv[0])...)
	}
	for _, variable := range s.Env {
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" || name == "HOME" || name == "TMPDIR" {
			continue
		}
		// The value may name files that the installer reads, for example a certificate or the folder of a local index.
		for path := range strings.FieldsSeq(value) {
			path = strings.TrimPrefix(path, "file://")
			if _, err := os.Stat(path); err == nil && filepath.IsAbs(path) && !boundary.Contains(path, i.temp) && !boundary.Contains(i.temp, path) {
				s.Readable = append(s.Readable, outsideSystem(path)...)
			}
		}
	}
	s.Readable = outermost(s.Readable)
	return s
}

// outermost returns the paths without those that lie below another path of the list.
func outermost(paths []string) []string {
	var outer []string
	for _, path := range slices.Sorted(slices.Values(paths)) {
		if !slices.ContainsFunc(outer, func(dir string) bool { return boundary.Contains(dir, path) }) {
			outer = append(outer, path)
		}
	}
	return outer
}

// lastOfEach returns the variables without those that a later variable of the same name overrides.
func lastOfEach(environ []string) []string {
	var last []string
	seen := map[string]bool{}
	for _, variable := range slices.Backward(environ) {
		name, _, _ := strings.Cut(variable, "=")
		if !seen[name] {
			last = append(last, variable)
		}
		seen[name] = true
	}
	return last
}

// pipSettings returns the settings in pip's configuration files as environment variables, because the files are not
// visible to every step.
func (i installer) pipSettings() []string {
	list, err := i.pipConfig()
	if err != nil {
		return nil
	}
	env := []string{"PIP_CONFIG_FILE=" + os.DevNull}
	for line := range strings.Lines(list) {
		key, quoted, ok := strings.Cut(strings.TrimSpace(line), "=")
		section, setting, dotted := strings.Cut(key, ".")
		if ok && dotted && (section == "global" || section == "install") {
			env = append(env, "PIP_"+strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))+"="+unquote(quoted))
		}
	}
	// The user's variables override the files.
	return append(env, settings(i.builder.environ)...)
}

// unquote returns a value in the output of `pip config list` without quotes, and with its lines joined by spaces.
func unquote(quoted string) string {
	return strings.Join(strings.Fields(strings.Trim(strings.ReplaceAll(quoted, `\n`, " "), `'"`)), " ")
}

// output runs a command with the agent's settings and returns its output. When ctx ends, it kills the process group of
// the command.
func (b *Builder) output(ctx context.Context, argv []string) (string, error) {
	return output(ctx, argv, settings(b.environ))
}

func output(ctx context.Context, argv, env []string) (string, error) {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return output.String(), fmt.Errorf("run %s: %w", argv[0], err)
	}
	return output.String(), err
}

// settings returns the variables of the agent that an installer needs: paths, proxies, certificates, and the settings
// for pip and uv.
func settings(environ []string) []string {
	excluded := map[string]bool{
		"PIP_USER": true, "PIP_TARGET": true, "PIP_PREFIX": true, "PIP_ROOT": true, "PIP_REQUIRE_VIRTUALENV": true,
		"PIP_PYTHON": true, "UV_PYTHON": true, "UV_PROJECT_ENVIRONMENT": true, "UV_SYSTEM_PYTHON": true,
	}
	kept := []string{"PIP_RETRIES=2", "PYTHONUNBUFFERED=1"}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !excluded[name] && wanted(name) {
			kept = append(kept, variable)
		}
	}
	return kept
}

func wanted(name string) bool {
	switch strings.ToUpper(name) {
	case "PATH", "HOME", "LANG", "TMPDIR", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
		"CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "USER", "LD_LIBRARY_PATH":
		return true
	}
	for _, prefix := range []string{"PIP_", "UV_", "XDG_", "PYENV_", "LC_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
