package pyenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Builder builds and finds environments in one folder.
type Builder struct {
	dir     string
	environ []string
	clock   clock.Clock
	runStep Runner

	mu          sync.Mutex
	interpreter *Interpreter
}

// NewBuilder returns a builder for the environments in dir. environ is the environment of the agent's
// process. The builder uses its PATH to find programs, and the user's settings for pip and uv. run runs the steps of
// a build, because a recipe's requirements may contain packages that run code while they are installed. If run is nil,
// the steps run as children of the calling process.
func NewBuilder(dir string, environ []string, clk clock.Clock, run Runner) *Builder {
	b := &Builder{dir: dir, environ: environ, clock: clk, runStep: run}
	if run == nil {
		b.runStep = func(ctx context.Context, s Step) (string, error) { return output(ctx, s.Args, s.Env) }
	}
	return b
}

// Step is one command of a build. Path names in Args and Env are valid inside the folders below only.
type Step struct {
	Args, Env []string
	// Dir is the folder that the command writes to.
	Dir string
	// Readable are the files and folders that the command reads.
	Readable []string
}

// Runner runs one step and returns the end of its output. It returns an *exec.ExitError or another error that is
// not nil if the command has failed. No process of the step is left when it returns, and all files in Step.Dir belong
// to the calling process's user.
type Runner func(ctx context.Context, s Step) (output string, err error)

// Environment is an environment that is completely built.
type Environment struct {
	Dir    string
	Python string
	// Version is the version of the interpreter, for example `3.11.7`.
	Version string
	// Base is the folder of the interpreter from which the environment was built, with its libraries.
	Base string
}

// Folders returns the folders that a program of the environment reads, in addition to those of the system. The links
// in the environment lead to the interpreter by one path or the other.
func (e Environment) Folders() []string {
	return append([]string{e.Dir}, outsideSystem(e.Base)...)
}

// outsideSystem returns the path with and without its symbolic links, as far as works do not see it anyway.
func outsideSystem(path string) []string {
	var paths []string
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	for _, p := range []string{path, real} {
		if !boundary.Contains("/usr", p) && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// Bin returns the folder of the environment's programs.
func (e Environment) Bin() string { return filepath.Join(e.Dir, "bin") }

// BuildError reports that the environment cannot be built from its spec. Output is shown to the user.
type BuildError struct{ Output string }

// Error returns e.Output: the end of the installer's output, or why the installer was not started.
func (e *BuildError) Error() string { return e.Output }

func failed(format string, args ...any) error {
	return &BuildError{Output: executor.Tail(fmt.Sprintf(format, args...), executor.MaxMessage)}
}

const marker = ".signalbox-complete"

// Ensure returns the environment of the spec and builds it if necessary. It returns a *BuildError if the
// environment cannot be built, and any other error if the agent or the node failed.
func (b *Builder) Ensure(ctx context.Context, spec executor.EnvironmentSpec) (Environment, error) {
	digest, err := checkDigest(spec)
	if err != nil {
		return Environment{}, err
	}
	python, err := b.python(ctx)
	if err != nil {
		return Environment{}, err
	}
	env := Environment{Dir: filepath.Join(b.dir, digest+"-"+python.Version), Version: python.Version, Base: python.Base}
	env.Python = filepath.Join(env.Bin(), "python")
	if complete(env.Dir) {
		return env, allowWorks(env.Dir)
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return Environment{}, fmt.Errorf("create the folder of environments: %w", err)
	}
	unlock, err := b.lock(ctx, env.Dir+".lock")
	if err != nil {
		return Environment{}, err
	}
	defer unlock()
	if complete(env.Dir) {
		return env, allowWorks(env.Dir)
	}
	return env, b.build(ctx, env, python, spec.Requirements)
}

// build builds the environment in a temporary folder and then moves it to its final path.
func (b *Builder) build(ctx context.Context, env Environment, python Interpreter, requirements string) error {
	if err := discard(env.Dir); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(b.dir, filepath.Base(env.Dir)+".build-")
	if err != nil {
		return fmt.Errorf("create the build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	list := filepath.Join(temp, "requirements.txt")
	if err := localfile.Write(list, []byte(requirements), localfile.PrivateMode); err != nil {
		return err
	}
	i := installer{builder: b, python: python, temp: temp, dir: filepath.Join(temp, "venv"), list: list}
	if err := i.run(ctx, strings.TrimSpace(requirements) != ""); err != nil {
		return err
	}
	if err := checkLayout(i.dir); err != nil {
		return err
	}
	if err := rename(filepath.Join(i.dir, "bin"), i.dir, env.Dir); err != nil {
		return err
	}
	if err := localfile.Write(filepath.Join(i.dir, marker), nil, localfile.PrivateMode); err != nil {
		return err
	}
	if err := allowWorks(i.dir); err != nil {
		return err
	}
	if err := os.Rename(i.dir, env.Dir); err != nil {
		return fmt.Errorf("rename the environment: %w", err)
	}
	return localfile.SyncDir(b.dir)
}

// allowWorks lets the users of works read a complete environment. Its marker is readable if this has been done: only
// environments from earlier versions are made readable after they were built.
func allowWorks(dir string) error {
	path := filepath.Join(dir, marker)
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the marker of the environment: %w", err)
	}
	if info.Mode().Perm() != localfile.PrivateMode {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the environment: %w", err)
	}
	for _, e := range entries {
		if e.Name() != marker {
			if err := boundary.MakeReadable(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, path := range []string{dir, path} {
		const readable = 0o755
		if err := os.Chmod(path, readable); err != nil {
			return fmt.Errorf("make the environment readable for works: %w", err)
		}
	}
	return nil
}

// discard removes the environment's folder, which is incomplete, and the folders that killed builders of
// this environment left. The caller holds the build lock, so no other builder is using them.
func discard(dir string) error {
	left, err := filepath.Glob(dir + ".build-*")
	if err != nil {
		return fmt.Errorf("find unfinished builds: %w", err)
	}
	for _, path := range append(left, dir) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove an unfinished build: %w", err)
		}
	}
	return nil
}

// lock waits for other builders of the same environment, in this process and in others. The returned
// function releases the lock.
func (b *Builder) lock(ctx context.Context, path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, localfile.PrivateMode)
	if err != nil {
		return nil, fmt.Errorf("open the build lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = clock.Sleep(ctx, b.clock, lockInterval)
			if err == nil {
				continue
			}
		}
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("wait for the build lock: %w", err)
		}
		return func() { _ = f.Close() }, nil
	}
}

// checkDigest returns the digest of the requirements, or a *BuildError if it differs from the digest in the
// spec.
func checkDigest(spec executor.EnvironmentSpec) (string, error) {
	sum := sha256.Sum256([]byte(spec.Requirements))
	digest := hex.EncodeToString(sum[:])
	if spec.Digest != "" && spec.Digest != "sha256:"+digest {
		return "", failed("the requirements do not match the recipe's digest %s", spec.Digest)
	}
	return digest, nil
}

func complete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, marker))
	if err != nil {
		return false
	}
	// The interpreter that the environment refers to may have been removed.
	_, err = os.Stat(filepath.Join(dir, "bin", "python"))
	return err == nil
}
