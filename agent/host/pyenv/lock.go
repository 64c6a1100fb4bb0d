package pyenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/pylock"
)

// EnsureLock returns the environment of a user's lock and builds it if necessary, like Ensure. Environments are shared
// only within a project, because a user of another project could otherwise learn, from the time of a build, which
// packages the project uses. The installer receives only names, versions and hashes from the lock.
func (b *Builder) EnsureLock(ctx context.Context, lock *pylock.Lock, project, work string) (Environment, error) {
	python, err := b.python(ctx)
	if err != nil {
		return Environment{}, err
	}
	markers, err := b.markers(ctx, python)
	if err != nil {
		return Environment{}, err
	}
	pins, err := lock.Pins(markers)
	if err != nil {
		return Environment{}, failed("%s", err)
	}
	text := pylock.Text(pins)
	sum := sha256.Sum256([]byte(strings.Join([]string{"lock", project, python.Path, text}, "\x00")))
	return b.ensure(ctx, hex.EncodeToString(sum[:]), python, text, work)
}

// markersScript prints the variables of markers as the specification of dependencies defines them. The option -I keeps
// the interpreter from reading files of the user or of the working folder.
const markersScript = `
import json, os, platform, sys
def full(v):
    kind = v.releaselevel
    return "%d.%d.%d" % v[:3] + ("" if kind == "final" else kind[0] + str(v.serial))
print(json.dumps({
    "implementation_name": sys.implementation.name, "implementation_version": full(sys.implementation.version), "os_name": os.name,
    "platform_machine": platform.machine(), "platform_python_implementation": platform.python_implementation(),
    "platform_release": platform.release(), "platform_system": platform.system(), "platform_version": platform.version(),
    "python_full_version": full(sys.version_info), "python_version": "%d.%d" % sys.version_info[:2], "sys_platform": sys.platform,
}))`

// markers returns the values of the variables in markers for the interpreter.
func (b *Builder) markers(ctx context.Context, python Interpreter) (pylock.Environment, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	output, err := b.output(ctx, []string{python.Path, "-I", "-c", markersScript})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ask Python for its platform: %w", ctx.Err())
	}
	var found pylock.Environment
	if err = errors.Join(err, json.Unmarshal([]byte(output), &found)); err != nil {
		return nil, failed("the node's Python does not state its platform: %s", err)
	}
	for _, name := range pylock.Variables() {
		if found[name] == "" && name != "platform_version" && name != "platform_release" {
			return nil, failed("the node's Python does not state its %s", name)
		}
	}
	return found, nil
}

// Offered returns the interpreter at a path that the node offers to jobs, as an environment. It returns a *BuildError if
// the interpreter does not run.
func (b *Builder) Offered(ctx context.Context, name, path string) (Environment, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	const script = `import sys; print("%d.%d.%d" % sys.version_info[:3], sys.prefix, sys.base_prefix, sep="\t")`
	output, err := b.output(ctx, []string{path, "-I", "-c", script})
	fields := strings.Split(strings.TrimSpace(output), "\t")
	if err != nil || len(fields) != 3 || !filepath.IsAbs(fields[1]) || !filepath.IsAbs(fields[2]) {
		return Environment{}, failed("the node's interpreter %s does not run: %s; let an admin check SERVICE_AGENT_PYTHONS of the node", name,
			strings.Join(append(fields, fmt.Sprint(err)), " "))
	}
	return Environment{Dir: fields[1], Python: path, Version: fields[0], Base: fields[2], offered: true}, nil
}
