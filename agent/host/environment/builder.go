package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/files"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Builder makes and finds environments below one folder.
type Builder struct {
	dir     string
	environ []string
	clock   clock.Clock

	mu          sync.Mutex
	interpreter *Interpreter
}

// NewBuilder makes a builder over the folder. environ is the environment of the
// agent's process: where programs are looked for, and the user's settings of
// pip and uv.
func NewBuilder(dir string, environ []string, clk clock.Clock) *Builder {
	return &Builder{dir: dir, environ: environ, clock: clk}
}

// Environment is a finished one.
type Environment struct {
	Dir    string
	Python string
	// Version is the interpreter's, `3.11.7`.
	Version string
}

// Bin is the folder of its programs.
func (e Environment) Bin() string { return filepath.Join(e.Dir, "bin") }

// BuildError is a build that failed on its own: what the user reads.
type BuildError struct{ Words string }

// Error is the installer's last words.
func (e *BuildError) Error() string { return e.Words }

func failed(format string, args ...any) error {
	return &BuildError{Words: executor.Tail(fmt.Sprintf(format, args...), executor.MaxMessage)}
}

const marker = ".signalbox-complete"

// Ensure answers the environment of the spec, building it where it is not there.
// A *BuildError is the environment's own fault; other errors are the agent's.
func (b *Builder) Ensure(ctx context.Context, spec executor.EnvironmentSpec) (Environment, error) {
	digest, err := checkDigest(spec)
	if err != nil {
		return Environment{}, err
	}
	python, err := b.python(ctx)
	if err != nil {
		return Environment{}, err
	}
	env := Environment{Dir: filepath.Join(b.dir, digest+"-"+python.Version), Version: python.Version}
	env.Python = filepath.Join(env.Bin(), "python")
	if complete(env.Dir) {
		return env, nil
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return Environment{}, fmt.Errorf("make the folder of environments: %w", err)
	}
	unlock, err := b.lock(ctx, env.Dir+".lock")
	if err != nil {
		return Environment{}, err
	}
	defer unlock()
	if complete(env.Dir) {
		return env, nil
	}
	return env, b.build(ctx, env, python, spec.Requirements)
}

// build makes the environment under another name and gives it its own at the end.
func (b *Builder) build(ctx context.Context, env Environment, python Interpreter, requirements string) error {
	if err := discard(env.Dir); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(b.dir, filepath.Base(env.Dir)+".build-")
	if err != nil {
		return fmt.Errorf("make the folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	list := filepath.Join(temp, "requirements.txt")
	if err := files.Write(list, []byte(requirements), files.Private); err != nil {
		return err
	}
	i := installer{builder: b, python: python, dir: filepath.Join(temp, "venv"), list: list}
	if err := i.run(ctx, strings.TrimSpace(requirements) != ""); err != nil {
		return err
	}
	if err := rename(filepath.Join(i.dir, "bin"), i.dir, env.Dir); err != nil {
		return err
	}
	if err := files.Write(filepath.Join(i.dir, marker), nil, files.Private); err != nil {
		return err
	}
	if err := os.Rename(i.dir, env.Dir); err != nil {
		return fmt.Errorf("put the environment in its place: %w", err)
	}
	return files.SyncDir(b.dir)
}

// discard removes what a killed builder of this environment left: nobody else
// builds it, for this one holds its lock.
func discard(dir string) error {
	left, err := filepath.Glob(dir + ".build-*")
	if err != nil {
		return fmt.Errorf("look for unfinished builds: %w", err)
	}
	for _, path := range append(left, dir) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove an unfinished build: %w", err)
		}
	}
	return nil
}

// lock waits for the other builders of the same environment, in any process.
func (b *Builder) lock(ctx context.Context, path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, files.Private)
	if err != nil {
		return nil, fmt.Errorf("open the build's lock: %w", err)
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
			return nil, fmt.Errorf("wait for the build's lock: %w", err)
		}
		return func() { _ = f.Close() }, nil
	}
}

// checkDigest makes sure that nobody gets the environment of other requirements.
func checkDigest(spec executor.EnvironmentSpec) (string, error) {
	sum := sha256.Sum256([]byte(spec.Requirements))
	digest := hex.EncodeToString(sum[:])
	if spec.Digest != "" && spec.Digest != "sha256:"+digest {
		return "", failed("the requirements do not have the digest %s that the recipe names", spec.Digest)
	}
	return digest, nil
}

func complete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, marker))
	if err != nil {
		return false
	}
	// The interpreter that it was made from may have been removed since.
	_, err = os.Stat(filepath.Join(dir, "bin", "python"))
	return err == nil
}
