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
	"strconv"
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
	max     int64
	freed   func(ctx context.Context, bytes int64)
	wheels  wheels

	mu          sync.Mutex
	interpreter *Interpreter
}

// NewBuilder returns a builder for the environments in the folder dir. The variables in environ are those of the
// agent's process. They give the builder the PATH for programs and the settings for pip and uv. The function run
// executes the steps of a build and can isolate them: a recipe's requirements may contain packages that run code while
// they are installed. If the function is nil, the steps run as children of the calling process.
func NewBuilder(dir string, environ []string, clk clock.Clock, run Runner) *Builder {
	b := &Builder{dir: dir, environ: environ, clock: clk, runStep: run}
	if run == nil {
		b.runStep = func(ctx context.Context, s Step) (string, error) { return output(ctx, s.Args, s.Env) }
	}
	return b
}

// Limit sets the size in bytes that all environments together should not exceed; 0 means no limit. After each build,
// the least recently requested environments beyond that size are removed, but never an environment that a work uses.
// The function freed is called with the number of removed bytes; it may be nil.
func (b *Builder) Limit(bytes int64, freed func(ctx context.Context, bytes int64)) {
	b.max, b.freed = bytes, freed
}

// Step is one command of a build. The command can use only those paths in Args and Env that lie in Dir or in Readable.
type Step struct {
	Args, Env []string
	// Dir is the folder that the command writes to.
	Dir string
	// Readable are the files and folders that the command reads.
	Readable []string
}

// Runner runs one step and returns the end of its output. It returns an error if the command has failed, for example an
// *exec.ExitError. No process of the step is left when the Runner returns, and all files in Step.Dir belong to the
// calling process's user.
type Runner func(ctx context.Context, s Step) (output string, err error)

// ErrInterrupted is the error of a Runner if the node ended the step, for example because its disk is full. The spec of the
// environment is not to blame, so Ensure does not return a *BuildError.
var ErrInterrupted = errors.New("the node ended the build")

// Environment is a completely built Python environment.
type Environment struct {
	Dir    string
	Python string
	// Version is the version of the interpreter, for example `3.11.7`.
	Version string
	// Base is the folder with the programs and libraries of the interpreter from which the environment was built.
	Base string
	// offered is true for an interpreter of the node, which no build has created. Its files belong to the node.
	offered bool
}

// Folders returns the folders that a program of the environment reads, in addition to those of the system. The
// interpreter's folder is listed with and without its symbolic links resolved, because the environment may refer to it
// by either path.
func (e Environment) Folders() []string {
	if e.offered {
		return outermost(slices.Concat(outsideSystem(e.Dir), outsideSystem(e.Base), outsideSystem(filepath.Dir(e.Python))))
	}
	return append([]string{e.Dir}, outsideSystem(e.Base)...)
}

// outsideSystem returns the path as it is and with its symbolic links resolved. It omits paths below /usr, which every
// work sees.
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

// Virtual reports whether the environment is a virtual environment, and not a whole installation of Python.
func (e Environment) Virtual() bool { return e.Dir != e.Base }

// BuildError reports that the environment cannot be built from its spec. Output is shown to the user.
type BuildError struct{ Output string }

// Error returns e.Output: the end of the installer's output, or why the installer was not started.
func (e *BuildError) Error() string { return e.Output }

func failed(format string, args ...any) error {
	return &BuildError{Output: executor.Tail(fmt.Sprintf(format, args...), executor.MaxMessage)}
}

const marker = ".signalbox-complete"

// Ensure returns the environment of the spec and builds it if necessary. The environment is kept until the folder
// `work` is removed; if that name is empty, it is kept only as long as the limit permits. Ensure returns a *BuildError
// if the environment cannot be built, and any other error if the agent or the node failed.
func (b *Builder) Ensure(ctx context.Context, spec executor.EnvironmentSpec, work string) (Environment, error) {
	digest, err := checkDigest(spec)
	if err != nil {
		return Environment{}, err
	}
	python, err := b.python(ctx)
	if err != nil {
		return Environment{}, err
	}
	return b.ensure(ctx, digest, python, spec.Requirements, work)
}

// ensure returns the environment with the given digest and builds it from the requirements if necessary.
func (b *Builder) ensure(ctx context.Context, digest string, python Interpreter, requirements, work string) (Environment, error) {
	env := Environment{Dir: filepath.Join(b.dir, digest+"-"+python.Version), Version: python.Version, Base: python.Base}
	env.Python = filepath.Join(env.Bin(), "python")
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return Environment{}, fmt.Errorf("create the folder of environments: %w", err)
	}
	tried, err := b.provide(ctx, env, python, requirements, work)
	if tried {
		bytes, trimErr := b.trim(env.Dir)
		if bytes > 0 && b.freed != nil {
			b.freed(ctx, bytes)
		}
		if err == nil {
			err = trimErr
		}
	}
	return env, err
}

// provide builds the environment unless it is complete, and records that the work uses it. It keeps trim from running.
// tried is true if provide began to build, even if the build failed.
func (b *Builder) provide(ctx context.Context, env Environment, python Interpreter, requirements, work string) (tried bool, err error) {
	release, err := b.hold(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	if complete(env.Dir) {
		now := b.clock.Now()
		_ = os.Chtimes(env.Dir+lockSuffix, now, now) // only trim uses the time, so ignore the error
		return false, errors.Join(use(env.Dir, work), allowWorks(env.Dir))
	}
	unlock, err := b.flock(ctx, env.Dir+lockSuffix, unix.LOCK_EX)
	if err != nil {
		return false, err
	}
	defer unlock()
	if complete(env.Dir) {
		return false, errors.Join(use(env.Dir, work), allowWorks(env.Dir))
	}
	if err := b.build(ctx, env, python, requirements); err != nil {
		return true, err
	}
	now := b.clock.Now()
	_ = os.Chtimes(env.Dir+lockSuffix, now, now)
	return true, use(env.Dir, work)
}

// build builds the environment in a temporary folder and then moves it to its final path.
func (b *Builder) build(ctx context.Context, env Environment, python Interpreter, requirements string) error {
	if err := discard(env.Dir); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(b.dir, filepath.Base(env.Dir)+buildInfix)
	if err != nil {
		return fmt.Errorf("create the build folder: %w", err)
	}
	defer func() { _ = localfile.RemoveTree(temp) }()
	list := filepath.Join(temp, "requirements.txt")
	if err := localfile.Write(list, []byte(requirements), localfile.PrivateMode); err != nil {
		return err
	}
	i := b.newInstaller(ctx, python, temp, list, requirements)
	if err := i.run(ctx, strings.TrimSpace(requirements) != ""); err != nil {
		return err
	}
	if err := checkLayout(i.dir); err != nil {
		return err
	}
	if err := rename(filepath.Join(i.dir, "bin"), i.dir, env.Dir); err != nil {
		return err
	}
	size, err := measure(i.dir)
	if err != nil {
		return err
	}
	shared, err := b.share(i.dir)
	if err != nil {
		return err
	}
	if err := localfile.Write(filepath.Join(i.dir, marker), []byte(strconv.FormatInt(size-shared, 10)), localfile.PrivateMode); err != nil {
		return err
	}
	if err := allowWorks(i.dir); err != nil {
		return err
	}
	// An environment without a list of works is never removed, see used.
	if err := os.MkdirAll(env.Dir+usesSuffix, 0o700); err != nil {
		return fmt.Errorf("create the list of works that use an environment: %w", err)
	}
	if err := os.Rename(i.dir, env.Dir); err != nil {
		return fmt.Errorf("rename the environment: %w", err)
	}
	return localfile.SyncDir(b.dir)
}

// allowWorks lets the users of works read a complete environment. The mode of the marker shows whether this has been
// done. It is done during the build, or later if an earlier version of the agent built the environment.
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
// this environment left behind. The caller holds the build lock, so no other builder is using them.
func discard(dir string) error {
	left, err := filepath.Glob(dir + buildInfix + "*")
	if err != nil {
		return fmt.Errorf("find unfinished builds: %w", err)
	}
	for _, path := range append(left, dir) {
		if err := localfile.RemoveTree(path); err != nil {
			return fmt.Errorf("remove an unfinished build: %w", err)
		}
	}
	return nil
}

// flock locks the file. It waits while another builder, in this process or in another one, holds the lock. The returned
// function releases the lock.
func (b *Builder) flock(ctx context.Context, path string, how int) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, localfile.PrivateMode)
	if err != nil {
		return nil, fmt.Errorf("open the build lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
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
