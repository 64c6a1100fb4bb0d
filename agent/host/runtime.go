package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/platform/pylock"
)

// Pythons returns the names of the interpreters that the node offers to jobs, sorted. Interpreters whose program is
// missing, for example because a disk is not mounted, are left out.
func (h *Host) Pythons() []string {
	names := []string{}
	for name, path := range h.cfg.Pythons {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// environment returns the Python environment of the attempt. It is called after the package has been unpacked.
func (w *work) environment(ctx context.Context, spec executor.EnvironmentSpec) (pyenv.Environment, error) {
	switch {
	case spec.Python != "":
		return w.offered(ctx, spec.Python)
	case spec.Lock != "":
		lock, err := w.lock(spec.Lock)
		if err != nil {
			return pyenv.Environment{}, err
		}
		return w.host.envs.EnsureLock(ctx, lock, spec.Project, w.dir)
	}
	return w.host.envs.Ensure(ctx, spec, w.dir)
}

// offered returns an interpreter of the node. Its folders must not contain anything that works may not see.
func (w *work) offered(ctx context.Context, name string) (pyenv.Environment, error) {
	path, ok := w.host.cfg.Pythons[name]
	if !ok {
		return pyenv.Environment{}, &pyenv.BuildError{Output: fmt.Sprintf("this node does not offer the interpreter %s; it offers [%s]",
			name, strings.Join(w.host.Pythons(), ", "))}
	}
	env, err := w.host.envs.Offered(ctx, name, path)
	if err != nil {
		return env, err
	}
	for _, folder := range env.Folders() {
		if dir := w.host.uncovered(folder); dir != "" {
			return env, &pyenv.BuildError{Output: fmt.Sprintf("the folder %s of the node's interpreter %s contains the data folder %s; "+
				"let an admin correct SERVICE_AGENT_PYTHONS of the node", folder, name, dir)}
		}
	}
	return env, nil
}

// lock reads and parses the user's lock. The package is hostile: it may have links or a huge file in the lock's place.
func (w *work) lock(name string) (lock *pylock.Lock, err error) {
	if !filepath.IsLocal(name) {
		return nil, &pyenv.BuildError{Output: fmt.Sprintf("the path of the lock %q is outside of the package", name)}
	}
	err = w.inFolder(0, "package", func(dir string) error {
		text, err := readLock(dir, name)
		if err != nil {
			return err
		}
		lock, err = pylock.Parse(name, text)
		return err
	})
	if refusal, ok := errors.AsType[*pylock.Error](err); ok {
		return nil, &pyenv.BuildError{Output: refusal.Error()}
	}
	return lock, err
}

func readLock(dir, name string) ([]byte, error) {
	file, err := boundary.OpenRegular(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &pyenv.BuildError{Output: "the package has no file " + name + "; correct spec.runtime.requirements, or add the file"}
	}
	if err != nil {
		return nil, &pyenv.BuildError{Output: "the lock " + name + " is not a plain file of the package"}
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, pylock.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	return text, nil
}
