package pyenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// installer creates one virtual environment and installs its packages.
type installer struct {
	builder *Builder
	python  Interpreter
	dir     string
	list    string
}

func (i installer) run(ctx context.Context, fill bool) error {
	if uv, ok := lookPath("uv", i.builder.environ); ok {
		return i.withUV(ctx, uv, fill)
	}
	return i.withPip(ctx, fill)
}

// withUV creates the environment and installs the requirements with uv. It does not resolve dependencies,
// because the requirements include all of them. uv rejects requirements without a hash.
func (i installer) withUV(ctx context.Context, uv string, fill bool) error {
	extra := i.uvSettings(ctx)
	if err := i.step(ctx, []string{uv, "venv", "--no-project", "--no-python-downloads", "--python", i.python.Path, i.dir}, extra); err != nil || !fill {
		return err
	}
	return i.step(ctx, []string{
		uv, "pip", "install", "--no-progress", "--no-deps", "--require-hashes", "--python", i.dir + "/bin/python", "-r", i.list,
	}, extra)
}

func (i installer) withPip(ctx context.Context, fill bool) error {
	pip := []string{i.dir + "/bin/python", "-m", "pip"}
	venv := []string{i.python.Path, "-m", "venv", i.dir}
	// Since pip 22.3 the pip of the base interpreter can install into another environment. This saves the
	// seconds that it takes to install pip there.
	if i.basePip(ctx) {
		venv = []string{i.python.Path, "-m", "venv", "--without-pip", i.dir}
		pip = []string{i.python.Path, "-m", "pip", "--python", i.dir + "/bin/python"}
	}
	if err := i.step(ctx, venv, nil); err != nil || !fill {
		return err
	}
	return i.step(ctx, slices.Concat(pip, []string{
		"install", "--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r", i.list,
	}), nil)
}

func (i installer) basePip(ctx context.Context) bool {
	output, err := i.builder.output(ctx, []string{i.python.Path, "-m", "pip", "--version"}, nil)
	fields := strings.Fields(output)
	if err != nil || len(fields) < 2 {
		return false
	}
	parts := strings.Split(fields[1], ".")
	major, err := strconv.Atoi(parts[0])
	minor := 0
	if err == nil && len(parts) > 1 {
		minor, err = strconv.Atoi(parts[1])
	}
	return err == nil && (major > 22 || (major == 22 && minor >= 3))
}

// uvSettings converts the user's pip settings to settings for uv, unless the user has configured indexes
// for uv.
func (i installer) uvSettings(ctx context.Context) []string {
	have := i.builder.environ
	if value(have, "UV_DEFAULT_INDEX")+value(have, "UV_INDEX_URL")+value(have, "UV_INDEX")+value(have, "UV_CONFIG_FILE") != "" {
		return nil
	}
	output, err := i.builder.output(ctx, []string{i.python.Path, "-m", "pip", "config", "list"}, nil)
	if err != nil {
		return nil
	}
	return translate(output)
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
		v := strings.Join(strings.Fields(strings.Trim(strings.ReplaceAll(quoted, `\n`, " "), `'"`)), " ")
		switch section {
		case ":env:":
			environ = append(environ, name+"="+v)
		case "global", "install":
			files = append(files, name+"="+v)
		}
	}
	return append(files, environ...)
}

// step runs one command of the installer. If the command fails, the end of its output becomes the error.
func (i installer) step(ctx context.Context, argv, extra []string) error {
	output, err := i.builder.output(ctx, argv, extra)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("build the environment: %w", ctx.Err())
	}
	if output = executor.Tail(output, executor.MaxMessage); output == "" {
		output = err.Error()
	}
	return &BuildError{Output: output}
}

// output runs a command with the user's settings and returns its output. When ctx ends, it kills the
// process group of the command.
func (b *Builder) output(ctx context.Context, argv, extra []string) (string, error) {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(settings(b.environ), extra...)
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

// settings returns the user's variables that an installer needs: paths, proxies, certificates, and the
// settings for pip and uv.
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
