package pyenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Interpreter is a Python interpreter from which environments are built.
type Interpreter struct {
	Path    string
	Version string
	// Base is the folder of the interpreter's programs and libraries.
	Base string
}

const (
	lockInterval   = 50 * time.Millisecond
	versionTimeout = 20 * time.Second
)

// names returns the names of Python programs to try, in order. python3 is first because it is the user's default.
func names() []string {
	return []string{"python3", "python3.13", "python3.12", "python3.11", "python3.14", "python3.15", "python"}
}

const versionScript = `import sys; v = sys.version_info; print(f"{v[0]}.{v[1]}.{v[2]}", int(v >= (3, 11)), sys.executable, sys.base_prefix, sep="\t")`

// python returns an interpreter of version 3.11 or newer. Later calls return the same interpreter.
func (b *Builder) python(ctx context.Context) (Interpreter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.interpreter != nil {
		return *b.interpreter, nil
	}
	var seen []string
	for _, name := range names() {
		path, ok := lookPath(name, b.environ)
		if !ok {
			continue
		}
		output, err := b.runVersionScript(ctx, path)
		if ctx.Err() != nil {
			return Interpreter{}, fmt.Errorf("find Python: %w", ctx.Err())
		}
		fields := strings.Split(strings.TrimSpace(output), "\t")
		if err != nil || len(fields) != 4 {
			continue // The program may be the shim of a version manager that has no Python installed.
		}
		if fields[1] == "1" {
			b.interpreter = &Interpreter{Path: fields[2], Version: fields[0], Base: fields[3]}
			return *b.interpreter, nil
		}
		seen = append(seen, name+" is "+fields[0])
	}
	if len(seen) == 0 {
		seen = append(seen, "PATH has no Python that runs")
	}
	return Interpreter{}, failed("this node needs Python 3.11 or newer: %s", strings.Join(seen, ", "))
}

func (b *Builder) runVersionScript(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	return b.output(ctx, []string{path, "-c", versionScript})
}

// lookPath returns the path of a program in the PATH that the variables in environ set.
func lookPath(name string, environ []string) (string, bool) {
	for dir := range strings.SplitSeq(value(environ, "PATH"), ":") {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && filepath.IsAbs(path) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

// value returns the value of a variable. If the variable is set several times, the last value applies, as in the
// field Env of exec.Cmd.
func value(environ []string, name string) (last string) {
	for _, variable := range environ {
		if v, ok := strings.CutPrefix(variable, name+"="); ok {
			last = v
		}
	}
	return last
}
