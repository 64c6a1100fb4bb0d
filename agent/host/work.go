package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// work is one execution: its folder, its desired state and its observation.
type work struct {
	host    *Host
	key     executor.Key
	dir     string
	started bool
	// before contains a channel for each older execution of the work. Each is closed when that execution is removed.
	before []<-chan struct{}
	// Each channel is closed when its condition becomes true. stopping: the work must end. killing: it must end at once.
	// leaving: it must be removed. quiet: none of its processes is left. removed: its folder was removed.
	stopping, killing, leaving, quiet, removed chan struct{}
	// moved receives a value when the work's deadline has changed.
	moved chan struct{}
	// rerouted receives a value when the ingest endpoint of an attempt has moved.
	rerouted chan struct{}
	quieted  sync.Once
	// placed is closed when the nodes of a batched attempt are known.
	placed  chan struct{}
	placing sync.Once
	// lastNetwork is the network of the engine's previous start. Only the goroutine that keeps the work uses it.
	lastNetwork boundary.Network
	// portLock is the lock of the port that takePort has chosen. Only the goroutine that keeps the work uses it.
	portLock *os.File
	// reaching is held while the network of the work is changed. It is locked before mu.
	reaching sync.Mutex

	mu         sync.Mutex
	assignment assignment
	seen       executor.Observation
	// relay is the address at which the agent's relay accepts connections for the engine. It is empty until the relay
	// has opened a port.
	relay string
}

// assignment is the desired work with its secrets. Only the agent's user can read its file.
type assignment struct {
	Work executor.Work `json:"work"`
	// Ingest is the current ingest endpoint if it differs from the endpoint in the spec.
	Ingest string `json:"ingest,omitempty"`
	// Token is the attempt's ingest token; Key is the engine's API key.
	Token string `json:"token,omitempty"`
	Key   string `json:"key,omitempty"`
	// Lease is the token of the work's lease, Leased the time at which the lease was requested, and Silence the time
	// without a renewal after which an attempt must end. LeaseURL is the URL for renewals of an engine's lease.
	Lease    string        `json:"lease,omitempty"`
	Leased   time.Time     `json:"leased,omitzero"`
	Silence  time.Duration `json:"silence,omitempty"`
	LeaseURL string        `json:"lease_url,omitempty"`
	GPUs     []int         `json:"gpus,omitempty"`
	// User is the user id of the work's processes; 0 if the work has no user of its own.
	User int `json:"user,omitempty"`
	// Isolated is true once the work has been started inside a boundary. From then on it never runs without one.
	Isolated bool `json:"isolated,omitempty"`
}

func (w *work) path(name ...string) string {
	return filepath.Join(append([]string{w.dir}, name...)...)
}

func bareWork(h *Host, key executor.Key, dir string) *work {
	return &work{
		host: h, key: key, dir: dir,
		stopping: make(chan struct{}), killing: make(chan struct{}), leaving: make(chan struct{}),
		quiet: make(chan struct{}), removed: make(chan struct{}), moved: make(chan struct{}, 1), rerouted: make(chan struct{}, 1),
		placed: make(chan struct{}),
	}
}

// newWork creates the folder of a new work. No process of the work may start before the folder is on disk.
func newWork(h *Host, d executor.Work) (*work, error) {
	w := bareWork(h, d.Key, filepath.Join(h.worksDir(), d.Key.String()))
	w.assignment = assignment{Work: d}
	if d.Engine != nil && d.IngestEndpoint != "" {
		w.assignment.LeaseURL = leaseURL(d.IngestEndpoint)
	}
	w.seen = executor.Observation{Key: d.Key, Phase: executor.PhasePending}
	if err := os.MkdirAll(w.path(live), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder: %w", err)
	}
	if err := localfile.WriteJSON(w.path("state.json"), w.seen, localfile.PrivateMode); err != nil {
		return nil, err
	}
	if err := w.saveAssignment(); err != nil {
		return nil, err
	}
	w.signalDesire()
	return w, nil
}

// loadWork reads a work that an earlier executor created.
func loadWork(h *Host, dir string) (*work, error) {
	w := bareWork(h, executor.Key{}, dir)
	if err := localfile.ReadJSON(w.path("assignment.json"), &w.assignment); err != nil {
		return nil, err
	}
	if err := localfile.ReadJSON(w.path("state.json"), &w.seen); err != nil {
		return nil, err
	}
	for _, dir := range w.runDirs() {
		if err := shim.CheckVersion(dir); err != nil {
			return nil, err
		}
	}
	w.key = w.assignment.Work.Key
	if w.key.String() != filepath.Base(dir) {
		return nil, fmt.Errorf("the folder contains the assignment of another work, %s", w.key)
	}
	if w.seen.Engine != nil {
		w.seen.Engine.APIKey = secret.New(w.assignment.Key)
	}
	if b := w.seen.Batch; b != nil && len(b.Nodes) > 0 {
		w.markPlaced()
	}
	w.signalDesire()
	return w, nil
}

func (w *work) saveAssignment() error {
	return localfile.WriteJSON(w.path("assignment.json"), w.assignment, localfile.PrivateMode)
}

// want sets the desired state. The order of the states is running, stopped, gone. want never moves the state
// backwards and never clears Force.
func (w *work) want(ctx context.Context, d executor.Desired, force bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rank := map[executor.Desired]int{executor.DesiredRunning: 0, executor.DesiredStopped: 1, executor.DesiredGone: 2}
	now := &w.assignment.Work
	force = force && d != executor.DesiredRunning && !now.Force
	if rank[d] <= rank[now.Desired] && !force {
		return
	}
	if rank[d] > rank[now.Desired] {
		now.Desired = d
	}
	now.Force = now.Force || force
	if err := w.saveAssignment(); err != nil {
		// The next list of desired works contains the state again. The work must end now in any case.
		w.host.deps.Log.WarnContext(ctx, "cannot save the desired state", "work", w.key.String(), "error", err.Error())
	}
	w.signalDesire()
}

// signalDesire closes the channels that correspond to the desired state. The caller holds w.mu or is the
// only user of the work.
func (w *work) signalDesire() {
	d := w.assignment.Work.Desired
	if d != executor.DesiredRunning && !closed(w.stopping) {
		close(w.stopping)
	}
	if w.assignment.Work.Force && !closed(w.killing) {
		close(w.killing)
	}
	if d == executor.DesiredGone && !closed(w.leaving) {
		close(w.leaving)
	}
}

func (w *work) observed() executor.Observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	if seen.Engine != nil {
		report := *seen.Engine
		seen.Engine = &report
	}
	return seen
}

// see changes the observation on disk and then in memory.
func (w *work) see(change func(*executor.Observation)) error {
	w.mu.Lock()
	next := w.seen
	if next.Engine != nil {
		report := *next.Engine
		next.Engine = &report
	}
	change(&next)
	err := localfile.WriteJSON(w.path("state.json"), next, localfile.PrivateMode)
	if err == nil {
		w.seen = next
	}
	w.mu.Unlock()
	w.host.changed()
	return err
}

func (w *work) detail(words string) error {
	return w.see(func(o *executor.Observation) { o.Detail = words })
}

// keep runs the work until it is removed or ctx ends.
func (w *work) keep(ctx context.Context) {
	defer w.markQuiet()
	for _, removed := range w.before {
		select {
		case <-removed:
		case <-ctx.Done():
			return
		}
	}
	if err := w.live(ctx); err != nil {
		if ctx.Err() != nil {
			return
		}
		w.host.deps.Log.ErrorContext(ctx, "cannot continue the work on this node; ending it", "work", w.key.String(), "error", err.Error())
		w.abandon(ctx, err)
	}
	w.markQuiet()
	select {
	case <-ctx.Done():
		return
	case <-w.leaving:
	}
	if !w.removeAtLast(ctx) {
		return
	}
	close(w.removed)
	w.host.forget(w)
}

// markQuiet closes the channel quiet, so that Shutdown does not wait for the work. It is called when no process of the
// work is left, or when the executor ends.
func (w *work) markQuiet() { w.quieted.Do(func() { close(w.quiet) }) }

func (w *work) live(ctx context.Context) error {
	if w.observed().Phase == executor.PhaseExited {
		return nil
	}
	if err := w.takeBack(); err != nil {
		return err
	}
	if refusal := w.unsuitable(); refusal != "" {
		return w.exited(executor.Exit{Code: -1, Reason: executor.ReasonStart, Message: refusal})
	}
	if w.assignment.Work.Kind == executor.KindEngine {
		return w.keepEngine(ctx)
	}
	return w.keepAttempt(ctx)
}

// abandon ends a work that the node cannot continue, for example because the disk is full.
func (w *work) abandon(ctx context.Context, cause error) {
	if w.batched() {
		if err := w.runner().Discard(ctx, w.path("run")); err != nil {
			w.host.deps.Log.ErrorContext(ctx, "cannot end the work", "work", w.key.String(), "error", err.Error())
		}
	}
	for _, dir := range w.runDirs() {
		if w.host.control.Stop(dir, 0) == nil {
			_, _, _ = w.host.control.Await(ctx, dir)
		}
	}
	lost := executor.Exit{Code: -1, Reason: executor.ReasonLost, Message: executor.Tail(cause.Error(), executor.MaxMessage)}
	err := w.exitedAfter(lost, w.assignment.Work.Kind == executor.KindEngine)
	if err != nil {
		w.host.deps.Log.ErrorContext(ctx, "cannot save the end of the work", "work", w.key.String(), "error", err.Error())
	}
}

// runDirs returns the folders in which shims of this work may run on this machine.
func (w *work) runDirs() []string {
	if w.batched() {
		flushes, _ := filepath.Glob(w.path("ranks", "*", "flush"))
		return flushes
	}
	starts, _ := filepath.Glob(w.path("starts", "*"))
	return append(starts, w.path("run"), w.path("flush"))
}

// shutdownGrace is the grace period when the agent stops its works. goneGrace is the grace period when a work
// must be removed.
const (
	shutdownGrace = time.Second
	goneGrace     = 3 * time.Second
)

// await waits until the command in the folder has ended. It stops the command when the work must end.
func (w *work) await(ctx context.Context, dir string, grace time.Duration) (executor.Exit, error) {
	stopped, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.passOnStops(stopped, dir, grace) })
	end, err := w.runner().Await(ctx, dir, w.follow)
	stop()
	watcher.Wait()
	if err != nil {
		return executor.Exit{}, err
	}
	return w.outcome(dir, end), nil
}

// passOnStops requests a stop from the shim each time a reason to stop arises.
func (w *work) passOnStops(ctx context.Context, dir string, grace time.Duration) {
	stopping, killing, leaving, shutdown := w.stopping, w.killing, w.leaving, w.host.shutdown
	for {
		var within time.Duration
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			stopping, within = nil, grace
		case <-killing:
			killing, within = nil, 0
		case <-leaving:
			leaving, within = nil, min(grace, goneGrace)
		case <-shutdown:
			shutdown, within = nil, min(grace, shutdownGrace)
		}
		if err := w.runner().Stop(dir, within); err != nil {
			w.host.deps.Log.WarnContext(ctx, "cannot request the stop; trying again", "work", w.key.String(), "error", err.Error())
			_ = clock.Sleep(ctx, w.host.deps.Clock, w.host.retry.Wait(0))
			stopping, killing, leaving, shutdown = w.stopping, w.killing, w.leaving, w.host.shutdown
		}
	}
}

// outcome converts the end of the processes to an exit of the work.
func (w *work) outcome(dir string, end End) executor.Exit {
	exit, found := end.Exit, end.Found
	e := executor.Exit{Code: exit.Code, Signal: exit.Signal}
	switch {
	case end.Reason != "" && !w.planned(dir):
		if !found {
			e.Code = -1
		}
		e.Reason, e.Message = end.Reason, executor.Tail(end.Message, executor.MaxMessage)
	case !found && w.planned(dir):
		e = executor.Exit{Code: -1, Reason: executor.ReasonStopped, Message: "the processes ended while the agent was stopped"}
	case !found:
		e = executor.Exit{Code: -1, Reason: executor.ReasonLost, Message: "the processes ended without an exit status"}
	case exit.Stopped && (w.planned(dir) || exit.Cause == shim.CauseOrder):
		e.Reason = executor.ReasonStopped
	case exit.Cause == shim.CauseSilence:
		e.Reason, e.Message = executor.ReasonLost, executor.Tail(exit.Message, executor.MaxMessage)
	case exit.Cause == shim.CauseFiles, exit.Cause == shim.CauseDisk:
		// The work itself caused its end. This is a failure even if the command exited with 0 after SIGTERM.
		e = executor.Exit{Code: -1, Signal: int(syscall.SIGKILL), Message: executor.Tail(exit.Message, executor.MaxMessage)}
	case exit.Stopped:
		e.Reason, e.Message = executor.ReasonLost, "a signal to the shim stopped the processes"
	case exit.Failure != "":
		e.Reason, e.Message = executor.ReasonStart, executor.Tail(exit.Failure, executor.MaxMessage)
	case exit.OOM && exit.Code != 0:
		e.Reason, e.Message = executor.ReasonOOM, "a process was killed at the work's memory limit"
	case exit.Code != 0:
		e.Message = w.why(end)
	}
	return e
}
