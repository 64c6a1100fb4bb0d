package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// nobody is the user id of Postgres if this process is root. In a user namespace, only Postgres itself sees this id.
const nobody = 65534

// capDACOverride lets a process bypass file permissions (linux/capability.h).
const capDACOverride = 1

// identity is the user under which the programs run. It is never root, because Postgres refuses to run as root.
type identity struct {
	name  string
	owner int // owner of the files, as seen by this process
	attr  func() *syscall.SysProcAttr
}

func asSelf() *identity {
	return &identity{name: "self", owner: os.Geteuid(), attr: func() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }}
}

// inNamespace runs the programs in a user namespace that maps root to nobody. It needs no account and no additional
// rights, and the files keep their owner.
func inNamespace() *identity {
	return &identity{name: "nobody in a user namespace", owner: 0, attr: func() *syscall.SysProcAttr {
		mapping := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
		return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping}
	}}
}

// asNobody runs the programs as nobody, for containers that forbid user namespaces. The programs may bypass file
// permissions, because this user may lack access to the parent folders of the data.
func asNobody() *identity {
	return &identity{name: "nobody", owner: nobody, attr: func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{
			Credential:  &syscall.Credential{Uid: nobody, Gid: nobody},
			AmbientCaps: []uintptr{capDACOverride},
		}
	}}
}

func chooseIdentity(ctx context.Context, binDir string) (*identity, error) {
	if os.Geteuid() != 0 {
		return asSelf(), nil
	}
	var errs []error
	for _, id := range []*identity{inNamespace(), asNobody()} {
		if _, err := output(command(ctx, id, binDir, "postgres", "--version")); err != nil {
			errs = append(errs, fmt.Errorf("as %s: %w", id.name, err))
			continue
		}
		return id, nil
	}
	return nil, fmt.Errorf("run Postgres as a user other than root: %w", errors.Join(errs...))
}

// command prepares one of the programs with a minimal environment. The program gets its own process group, so that
// Ctrl-C in the terminal reaches only this process.
func command(ctx context.Context, id *identity, binDir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, name), args...)
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + binDir + ":/usr/local/bin:/usr/bin:/bin"}
	lib := filepath.Join(filepath.Dir(binDir), "lib")
	if found, _ := filepath.Glob(filepath.Join(lib, "libpq.so*")); len(found) > 0 {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+lib)
	}
	cmd.SysProcAttr = id.attr()
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	cmd.Dir = "/"
	return cmd
}

// process is a running program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

// spawn starts cmd on a thread that lives as long as the program, because the kernel sends Pdeathsig when the thread
// that started the program ends, not only when this process ends.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// output runs a short program and returns its output.
func output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := spawn(cmd)
	if err != nil {
		return nil, err
	}
	<-p.done
	return out.Bytes(), p.err
}

func (p *process) failure() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop requests a fast shutdown and, when ctx is done, sends SIGQUIT and then SIGKILL.
func (p *process) stop(ctx context.Context) error {
	if p.exited() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(sig)
		limit := clock.Real().NewTimer(2 * time.Second)
		select {
		case <-p.done:
			limit.Stop()
			return fmt.Errorf("postgres did not stop in time and was ended with signal %q", sig)
		case <-limit.C():
		}
	}
	return errors.New("postgres did not exit after SIGKILL")
}
