package pyenv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	// basePip describes the interpreter's own pip, and pipConfig returns the output of `pip config list`. They run a
	// program at the first call only.
	basePip   func() basePip
	pipConfig func() (string, error)
}

// newInstaller returns the installer for a build in the folder temp.
func (b *Builder) newInstaller(ctx context.Context, python Interpreter, temp, list, requirements string) installer {
	return installer{
		builder: b, python: python, temp: temp, dir: filepath.Join(temp, "venv"), list: list, sums: hashes(requirements),
		basePip: sync.OnceValue(func() basePip { return b.basePip(ctx, python) }),
		pipConfig: sync.OnceValues(func() (string, error) {
			return b.output(ctx, []string{python.Path, "-m", "pip", "config", "list"})
		}),
	}
}

// run creates the environment and, if fill is set, installs the requirements.
func (i installer) run(ctx context.Context, fill bool) error {
	defer i.readPipConfig(fill)()
	c := i.withPip()
	if uv, ok := lookPath("uv", i.builder.environ); ok {
		c = i.withUV(uv)
	}
	if !fill {
		return i.step(ctx, i.describe(c.create, c.settings()))
	}
	return i.build(ctx, c)
}

// build downloads the packages into the cache of wheels, creates the environment and installs the packages, all in one
// step: each step has a boundary of its own, whose creation takes longer than the creation of an environment.
func (i installer) build(ctx context.Context, c commands) error {
	d, err := i.planDownload()
	if err != nil {
		return err
	}
	extra := c.settings()
	if d.on() {
		extra = append(i.pipSettings(), extra...)
	}
	plan, err := json.Marshal([]any{d.command, d.dir, c.create, c.install, i.dir})
	if err != nil {
		return fmt.Errorf("describe the build: %w", err)
	}
	s := i.describe([]string{i.python.Path, "-I", "-c", buildScript, string(plan)}, extra, append(d.cachedFolders(), c.create[0])...)
	built := i.step(ctx, s)
	var failed *BuildError
	if built != nil && !errors.As(built, &failed) && !errors.Is(built, ErrInterrupted) && ctx.Err() == nil {
		return built
	}
	return cmp.Or(built, d.keep()) // an interrupted build may have downloaded everything
}

// buildScript runs the steps of a build. Its argument is a list in JSON: the command that downloads the packages, its
// folder, the command that creates the environment, the command that installs the packages, and the environment's folder.
// Without a download, or if the download fails, the installer downloads everything itself and reports what is wrong. To
// build a source package, the installer may need packages from an index; if there are only wheels, it needs no index.
//
// The script compiles the modules itself: uv does not, and pip compiles one after the other and includes the tests of
// packages, which are more than half of NumPy. Works see the environment read-only, so they could not save what they
// compile, and the sources need not be compared at each import. Modules that cannot be compiled stay as they are, even if
// the compiler ends its process.
const buildScript = `
import compileall, json, os, py_compile, subprocess, sys

def end(status):
    if status < 0:
        os.kill(os.getpid(), -status)
    if status != 0:
        sys.exit(status)

download, folder, create, install, environment = json.loads(sys.argv[1])
creation = subprocess.Popen(create)
if download:
    if subprocess.call(download) == 0 and os.path.isdir(folder):
        install += ["--find-links", folder]
        if all(name.endswith(".whl") for name in os.listdir(folder)):
            install.append("--no-index")
    elif os.path.isdir(folder):
        os.rename(folder, folder + "-incomplete")
end(creation.wait())
end(subprocess.call(install))
modules = []
for path, folders, files in os.walk(os.path.join(environment, "lib")):
    folders[:] = [name for name in folders if name not in ("tests", "__pycache__")]
    modules += [os.path.join(path, name) for name in files if name.endswith(".py")]
workers = min(4, len(os.sched_getaffinity(0)))
for n in range(workers):
    if os.fork() == 0:
        try:
            for path in modules[n::workers]:
                compileall.compile_file(path, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        finally:
            os._exit(0)
for n in range(workers):
    os.wait()`

// readPipConfig starts to read pip's configuration if packages will be installed. The returned function waits for the end.
func (i installer) readPipConfig(fill bool) (await func()) {
	var reading sync.WaitGroup
	if fill {
		reading.Go(func() { _, _ = i.pipConfig() }) // pipSettings gets the same result
	}
	return reading.Wait
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

// step runs one step of the build. If the command fails, the end of its output becomes the error. If the node
// failed, the spec of the environment is not to blame, and the build can succeed later.
func (i installer) step(ctx context.Context, s Step) error {
	output, err := i.builder.runStep(ctx, s)
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

// describe returns the step that runs a command with the agent's settings of pip and uv. The command also reads the given
// files and folders.
func (i installer) describe(argv, extra []string, reads ...string) Step {
	// Use a private cache. The files of a shared cache would belong to another user, and links to them would survive
	// the build.
	private := []string{"TMPDIR=" + i.temp, "XDG_CACHE_HOME=" + i.temp, "UV_CACHE_DIR=" + i.temp + "/cache", "UV_LINK_MODE=hardlink", "PIP_NO_CACHE_DIR=1"}
	s := Step{Args: argv, Env: lastOfEach(slices.Concat(settings(i.builder.environ), extra, private)), Dir: i.temp}
	s.Readable = slices.Concat(outsideSystem(i.python.Base), outsideSystem(i.python.Path))
	for _, path := range append(reads, argv[0]) {
		s.Readable = append(s.Readable, outsideSystem(path)...)
	}
	for _, variable := range s.Env {
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" || name == "HOME" || name == "TMPDIR" {
			continue
		}
		// The value may name files that the installer reads, for example a certificate or the folder of a local index.
		for path := range strings.FieldsSeq(value) {
			path = strings.TrimPrefix(path, "file://")
			// A device that is bound cannot be opened, and every step has those that it may need.
			info, err := os.Stat(path)
			if err == nil && info.Mode()&os.ModeDevice == 0 && filepath.IsAbs(path) && !boundary.Contains(path, i.temp) && !boundary.Contains(i.temp, path) {
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
		name := "PIP_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
		if ok && dotted && (section == "global" || section == "install") && !elsewhere(name) {
			env = append(env, name+"="+unquote(quoted))
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
	kept := []string{"PIP_RETRIES=2", "PYTHONUNBUFFERED=1"}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !elsewhere(name) && wanted(name) {
			kept = append(kept, variable)
		}
	}
	return kept
}

// elsewhere reports whether the setting makes an installer install into another place than the environment.
func elsewhere(name string) bool {
	switch name {
	case "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PIP_PYTHON",
		"UV_PYTHON", "UV_PROJECT_ENVIRONMENT", "UV_SYSTEM_PYTHON":
		return true
	}
	return false
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
