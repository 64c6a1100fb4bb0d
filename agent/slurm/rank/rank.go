// Package rank owns the process that Slurm starts on each node of an attempt: the subcommand `rank` of the agent's
// program. It makes sure that only one Slurm job runs the attempt, finds out which rank it is, agrees with the other ranks
// on the address of the main process, completes the command for its node, and becomes the shim of the command.
//
// The folder `run` of the attempt is on a file system that the agent and all nodes share. Its files are: claim.json (the
// Slurm job that runs the attempt), master.json (the address of the main process), endpoint (a new ingest endpoint), and a
// folder of a shim for each rank with template.json (what the agent wants started) and node.json (the node of the rank).
//
// The subcommand `rank --probe FOLDER` tries how a node isolates works and writes the report to the folder.
package rank

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Environment variables that the batch script sets: the id of the Slurm job, which is that of the first one for a
// heterogeneous job, and the number of ranks in earlier parts of the gang.
const (
	JobVariable    = "SERVICE_BATCH_JOB"
	OffsetVariable = "SERVICE_BATCH_OFFSET"
)

// look is the time between two checks of the files that the agent or another rank may write.
const look = 500 * time.Millisecond

// Process is the process of one rank.
type Process struct {
	// Args are the arguments of the subcommand. Environ is the environment of the process.
	Args    []string
	Environ []string
	Clock   clock.Clock
	Err     io.Writer
}

// Main runs the subcommand and returns the exit status: that of the command, or 1 if it could not be started.
func (p Process) Main() int {
	const probeWord = "--probe"
	ctx := context.Background()
	var status int
	var err error
	switch {
	case len(p.Args) == 2 && p.Args[0] == probeWord:
		err = p.probe(ctx, p.Args[1])
	case len(p.Args) == 1:
		status, err = p.run(ctx, p.Args[0])
	default:
		err = errors.New("usage: rank FOLDER, or rank --probe FOLDER")
	}
	if err != nil {
		_, _ = fmt.Fprintln(p.Err, "rank:", err)
		return 1
	}
	return status
}

// run runs the rank of this process.
func (p Process) run(ctx context.Context, dir string) (status int, err error) {
	job, rank, err := p.identity()
	if err != nil {
		return 0, err
	}
	mine, err := Take(dir, job)
	if err != nil {
		return 0, err
	}
	if !mine {
		_, _ = fmt.Fprintf(p.Err, "rank: another Slurm job runs the attempt; job %s starts nothing\n", job)
		return 0, nil
	}
	r := &rankProcess{Process: p, dir: dir, own: host.RankDir(dir, rank), rank: rank}
	if _, err := (shim.Control{}).Running(r.own); !errors.Is(err, fs.ErrNotExist) {
		_, _ = fmt.Fprintln(p.Err, "rank: the rank was started before; starting nothing")
		return 0, err
	}
	// The shim reads the signals after that. Until then, nothing is lost if a signal ends the start.
	starting, done := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer done()
	if err := r.start(starting); err != nil {
		_, _ = fmt.Fprintln(p.Err, "rank:", err)
		if starting.Err() != nil {
			err = &shim.UnconfirmedError{Message: "a signal stopped the attempt before its command started"}
		}
		if unconfirmed, ok := errors.AsType[*shim.UnconfirmedError](err); ok {
			return 1, unconfirmed.Abstain(r.own, p.Clock.Now())
		}
		return 1, shim.Fail(r.own, p.Clock.Now(), err)
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.watch(watching)                                       // until this process ends
	if err := shim.Own(p.exec(), r.own, p.Clock); err != nil { //nolint:contextcheck // the shim runs until the command has ended
		return 0, err
	}
	return r.status()
}

// identity returns the id of the Slurm job and the number of the rank.
func (p Process) identity() (job string, rank int, err error) {
	if job = p.variable(JobVariable); job == "" {
		return "", 0, fmt.Errorf("%s is not set; the batch script of the agent starts this program", JobVariable)
	}
	if restarts := p.variable("SLURM_RESTART_COUNT"); restarts != "" && restarts != "0" {
		job += "/" + restarts // A job that Slurm has started again must not run the attempt a second time.
	}
	for _, name := range []string{"SLURM_PROCID", OffsetVariable} {
		text := p.variable(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return "", 0, fmt.Errorf("%s has no number: %q", name, text)
		}
		rank += n
	}
	return job, rank, nil
}

// variable returns the value of an environment variable, or "".
func (p Process) variable(name string) string {
	for _, v := range p.Environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// exec returns the command line that runs shim.Main in this program.
func (p Process) exec() []string { return []string{"/proc/self/exe", "shim"} }

// node tries how this node isolates works. The returned function removes the working folder.
func (p Process) node(ctx context.Context, place host.Place) (n *host.Node, remove func(), err error) {
	self, err := os.MkdirTemp("", "signalbox-rank-")
	if err != nil {
		return nil, nil, fmt.Errorf("create the working folder of the node: %w", err)
	}
	remove = func() { _ = os.RemoveAll(self) } // A shim that still writes may prevent this.
	program, err := os.Executable()
	if err != nil {
		return nil, remove, fmt.Errorf("find the path of the running program: %w", err)
	}
	var environ []string
	for _, v := range p.Environ {
		if !strings.HasPrefix(v, "CUDA_VISIBLE_DEVICES=") { // Slurm's own choice, which complete reads
			environ = append(environ, v)
		}
	}
	n, err = host.NewNode(ctx, self, []string{program, "shim"}, environ, place, host.Deps{
		Clock: p.Clock, Rand: rand.Reader, Jitter: func() float64 { return 0 }, Log: slog.New(slog.NewTextHandler(p.Err, nil)),
	})
	return n, remove, err
}

// rankProcess is the process of a rank that runs.
type rankProcess struct {
	Process

	dir, own string // the folder `run` of the attempt, and the folder of the rank's shim
	rank     int
	node     *host.Node
	template host.Template
}

// status returns the exit status of the command.
func (r *rankProcess) status() (int, error) {
	var exit shim.Exit
	if err := shim.ReadExit(r.own, &exit); err != nil {
		return 0, err
	}
	if exit.Code < 0 {
		return 1, nil
	}
	return exit.Code, nil
}

// hostname returns the name of the node: Slurm's name, or that of the machine.
func (r *rankProcess) hostname() (string, error) {
	if name := r.variable("SLURMD_NODENAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host name: %w", err)
	}
	return name, nil
}

// gpus returns the numbers of the devices that Slurm has assigned to the job on this node, as far as Slurm names them.
func (r *rankProcess) gpus() (numbers []int) {
	list := r.variable("SLURM_STEP_GPUS")
	if list == "" {
		list = r.variable("SLURM_JOB_GPUS")
	}
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// nodeFile is the path of the file with the name of the rank's node.
func nodeFile(rankDir string) string { return filepath.Join(rankDir, "node.json") }
