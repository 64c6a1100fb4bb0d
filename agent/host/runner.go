package host

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// Runner runs the processes of attempts. The parameter dir is the folder `run` of an attempt. Its files are the
// complete state, so that the runner of the next agent continues. All methods are safe for concurrent use.
type Runner interface {
	// Launch begins to run the attempt. It must be called only in the state shim.Never.
	Launch(dir string, l Launch) error
	// State returns the state of the attempt. From Launch on it is not shim.Never.
	State(dir string) (shim.State, error)
	// Await waits until the attempt has ended. It calls progress after each change. Await returns shim.ErrNotStarted if
	// nothing was started, so that Launch can be called again.
	Await(ctx context.Context, dir string, progress func(Progress) error) (End, error)
	// Stop requests that the processes end, and be killed after the grace period. It may be called repeatedly; the
	// shortest grace period applies. An attempt that a batch system holds ends at once.
	Stop(dir string, grace time.Duration) error
	StopRequested(dir string) bool
	// Reach lets the running processes reach the ingest endpoint at a new address.
	Reach(dir, endpoint string) error
	// Discard is called before the folder is removed. It ends everything that is left of the attempt.
	Discard(ctx context.Context, dir string) error
}

// Launch is an attempt to run.
type Launch struct {
	Key     executor.Key
	Attempt executor.AttemptSpec
	// Starts are the commands of the ranks, in order.
	Starts []shim.Start
	// Place is what another machine needs to complete a start.
	Place Place
}

// Progress is the state of an attempt that has not ended.
type Progress struct {
	Report executor.BatchReport
	// Started is true once the batch system has started the attempt.
	Started bool
	// RunningAt is the time at which the commands of all ranks were running; zero before.
	RunningAt time.Time
	// Detail describes a state in words, such as that the batch system has suspended the attempt.
	Detail string
}

// End is how an attempt ended.
type End struct {
	// Exit is the exit of one rank: of the first that failed, or of rank 0 if none has. Found is false if it is unknown.
	Exit  shim.Exit `json:"exit"`
	Found bool      `json:"found"`
	Rank  int       `json:"rank"`
	// Reason and Message are set if the batch system ended the attempt or refused it.
	Reason  executor.Reason `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
}

// local is the Runner of a host: each attempt has one rank, which a shim on this machine runs.
type local struct{ shim.Control }

// Launch implements Runner.
func (l local) Launch(dir string, a Launch) error { return l.Control.Launch(dir, a.Starts[0]) }

// Await implements Runner. It reports no progress, because a local attempt is running from its launch on.
func (l local) Await(ctx context.Context, dir string, _ func(Progress) error) (End, error) {
	exit, found, err := l.Control.Await(ctx, dir)
	return End{Exit: exit, Found: found}, err
}

// Reach implements Runner. The host itself changes the networks of local attempts, see reachAgain.
func (l local) Reach(string, string) error { return nil }

// Discard implements Runner. None of the processes is left when the folder of a local attempt is removed.
func (l local) Discard(context.Context, string) error { return nil }

// runner returns the runner of the work's processes. Engines always run on this machine.
func (w *work) runner() Runner {
	if w.batched() {
		return w.host.deps.Runner
	}
	return local{w.host.control}
}

// batched reports whether the ranks of the work run elsewhere, in a batch system.
func (w *work) batched() bool {
	return w.host.deps.Runner != nil && w.assignment.Work.Attempt != nil && w.assignment.Work.Attempt.Batch != nil
}

// ranks returns the number of ranks of the work on this executor.
func (w *work) ranks() int {
	if !w.batched() {
		return 1
	}
	return w.assignment.Work.Attempt.Batch.Ranks()
}

// part returns the part of the gang to which a rank of a batched attempt belongs.
func (w *work) part(rank int) executor.BatchPart {
	for _, p := range w.assignment.Work.Attempt.Batch.Parts {
		if rank < p.Nodes {
			return p
		}
		rank -= p.Nodes
	}
	return executor.BatchPart{}
}

// folder returns the path of a file or folder of one rank. On a host, the only rank uses the folder of the work. The
// ranks of a batched attempt share the package, and each has its own other folders.
func (w *work) folder(rank int, name string) string {
	if !w.batched() || name == "package" {
		return w.path(name)
	}
	return w.path("ranks", strconv.Itoa(rank), name)
}

// runDir returns the folder of the shim of a rank.
func (w *work) runDir(rank int) string {
	if !w.batched() {
		return w.path("run")
	}
	return RankDir(w.path("run"), rank)
}

// RankDir returns the folder of the shim of a rank in a batch system. The parameter dir is the folder `run` of the attempt.
func RankDir(dir string, rank int) string { return filepath.Join(dir, "rank-"+strconv.Itoa(rank)) }

// saveLeases saves the lease for the shims of all ranks. The caller holds w.mu.
func (w *work) saveLeases() error {
	for n := range w.ranks() {
		if err := w.saveLease(w.runDir(n)); err != nil {
			return err
		}
	}
	return nil
}

// follow records the progress of a batched attempt.
func (w *work) follow(p Progress) error {
	err := w.see(func(o *executor.Observation) {
		report := p.Report
		o.Batch = &report
		if o.Phase != executor.PhasePending && o.Phase != executor.PhasePreparing && o.Phase != executor.PhaseRunning {
			return
		}
		o.Detail = p.Detail
		if p.Started && o.PreparingAt.IsZero() {
			o.PreparingAt = w.host.deps.Clock.Now()
		}
		switch {
		case !p.RunningAt.IsZero():
			o.Phase = executor.PhaseRunning
			if o.RunningAt.IsZero() {
				o.RunningAt = p.RunningAt
			}
			if o.RunningAt.Before(o.PreparingAt) { // the clock of the node may be behind
				o.RunningAt = o.PreparingAt
			}
		case p.Started && o.Phase == executor.PhasePending:
			o.Phase = executor.PhasePreparing
		}
	})
	if len(p.Report.Nodes) > 0 {
		w.markPlaced()
	}
	return err
}

// markPlaced closes the channel placed. It is called when the nodes of the ranks are known.
func (w *work) markPlaced() { w.placing.Do(func() { close(w.placed) }) }

// nodeOf returns the name of the node of a rank, for the lines of its log.
func (w *work) nodeOf(rank int) string {
	if !w.batched() {
		return w.host.cfg.Node
	}
	if b := w.observed().Batch; b != nil && rank < len(b.Nodes) {
		return b.Nodes[rank]
	}
	return ""
}
