package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Commands runs Slurm's commands.
type Commands interface {
	// Run runs a command and returns its standard output. If the command fails, the error is a *CommandError with what it
	// has written to standard error. If the command takes too long, the error is ErrTimeout, and what it has done is
	// unknown.
	Run(ctx context.Context, name string, args ...string) ([]byte, error)
}

// ErrTimeout reports that a command took too long.
var ErrTimeout = errors.New("the command did not end in time")

// errTooLong reports that a command has written too much.
var errTooLong = errors.New("the output of the command is too long")

// CommandError is the failure of a command.
type CommandError struct {
	Name   string
	Status int
	Output string
}

// Error implements error.
func (e *CommandError) Error() string {
	return fmt.Sprintf("%s ended with status %d: %s", e.Name, e.Status, e.Output)
}

// The limits of one command.
const (
	commandTime   = 30 * time.Second
	commandOutput = 32 << 20
	commandErrors = 4 << 10
)

type commands struct{ environ []string }

// NewCommands returns the real commands of the host. They run with the given environment, except for the variables that set
// options of Slurm's commands: SQUEUE_STATES, for example, would hide jobs that run.
func NewCommands(environ []string) Commands {
	options := []string{"SBATCH_", "SQUEUE_", "SCANCEL_", "SINFO_", "SLURM_"}
	return commands{slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return !strings.HasPrefix(v, "SLURM_CONF=") && slices.ContainsFunc(options, func(prefix string) bool { return strings.HasPrefix(v, prefix) })
	})}
}

// Run implements Commands.
func (c commands) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := c.find(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out, errs := &bounded{most: commandOutput}, &bounded{most: commandErrors, drop: true}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = c.environ, out, errs, "/"
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: %w", name, ErrTimeout)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.over:
		return nil, fmt.Errorf("%s: %w", name, errTooLong)
	case errors.As(err, &exit):
		return out.Bytes(), &CommandError{Name: name, Status: exit.ExitCode(), Output: executor.Tail(errs.String(), commandErrors)}
	case err != nil:
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// find looks up a command in the PATH of the environment.
func (c commands) find(name string) (string, error) {
	for _, v := range slices.Backward(c.environ) { // the last value counts
		path, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(path, ":") {
			if found, err := exec.LookPath(dir + "/" + name); err == nil && strings.HasPrefix(dir, "/") {
				return found, nil
			}
		}
		break
	}
	return "", fmt.Errorf("the command %s is not in PATH; install Slurm's commands on the host of the agent", name)
}

// bounded keeps at most the given number of bytes. With drop, it drops the rest; otherwise writing more fails.
type bounded struct {
	bytes.Buffer

	most int
	drop bool
	over bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if left := b.most - b.Len(); len(p) > left {
		b.over = !b.drop
		if b.over {
			return 0, errTooLong
		}
		b.Buffer.Write(p[:left])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
