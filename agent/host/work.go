package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/files"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// work is one execution: its folder, what is wanted of it, what is seen of it.
type work struct {
	host    *Host
	key     executor.Key
	dir     string
	started bool
	// before are the older executions that must be removed first.
	before []<-chan struct{}
	// stopping closes when the work shall end, killing when it shall end at once, leaving when it shall be
	// forgotten, quiet when none of its processes is left, removed when its folder is gone.
	stopping, killing, leaving, quiet, removed chan struct{}
	// moved is told of a deadline that moved.
	moved   chan struct{}
	quieted sync.Once

	mu         sync.Mutex
	assignment assignment
	seen       executor.Observation
}

// assignment is what the work was given: its file is private.
type assignment struct {
	Work executor.Work `json:"work"`
	// Ingest is where the ingest routes are now, where that is not as in the spec any more.
	Ingest string `json:"ingest,omitempty"`
	// Token is the attempt's ingest token, Key the engine's.
	Token string `json:"token,omitempty"`
	Key   string `json:"key,omitempty"`
	GPUs  []int  `json:"gpus,omitempty"`
}

func (w *work) path(name ...string) string {
	return filepath.Join(append([]string{w.dir}, name...)...)
}

func bareWork(h *Host, key executor.Key, dir string) *work {
	return &work{
		host: h, key: key, dir: dir,
		stopping: make(chan struct{}), killing: make(chan struct{}), leaving: make(chan struct{}),
		quiet: make(chan struct{}), removed: make(chan struct{}), moved: make(chan struct{}, 1),
	}
}

// newWork makes the folder of a new work; nothing runs before it is on disk.
func newWork(h *Host, d executor.Work) (*work, error) {
	w := bareWork(h, d.Key, filepath.Join(h.worksDir(), d.Key.String()))
	w.assignment = assignment{Work: d}
	w.seen = executor.Observation{Key: d.Key, Phase: executor.PhasePending}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	if err := files.WriteJSON(w.path("state.json"), w.seen, files.Private); err != nil {
		return nil, err
	}
	if err := w.saveAssignment(); err != nil {
		return nil, err
	}
	w.signalDesire()
	return w, nil
}

// loadWork reads a work that an earlier executor took.
func loadWork(h *Host, dir string) (*work, error) {
	w := bareWork(h, executor.Key{}, dir)
	if err := files.ReadJSON(w.path("assignment.json"), &w.assignment); err != nil {
		return nil, err
	}
	if err := files.ReadJSON(w.path("state.json"), &w.seen); err != nil {
		return nil, err
	}
	w.key = w.assignment.Work.Key
	if w.key.String() != filepath.Base(dir) {
		return nil, errors.New("the assignment is another work's")
	}
	if w.seen.Engine != nil {
		w.seen.Engine.APIKey = secret.New(w.assignment.Key)
	}
	w.signalDesire()
	return w, nil
}

func (w *work) saveAssignment() error {
	return files.WriteJSON(w.path("assignment.json"), w.assignment, files.Private)
}

// want takes a desire. It only ever goes from running to stopped to gone, and from grace to none.
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
		// It is told again with the next list; what counts now is that it ends.
		w.host.deps.Log.WarnContext(ctx, "desire not saved", "work", w.key.String(), "error", err.Error())
	}
	w.signalDesire()
}

// signalDesire tells the keeper; the caller holds the lock or owns the work.
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

// see changes what is seen, on disk first.
func (w *work) see(change func(*executor.Observation)) error {
	w.mu.Lock()
	next := w.seen
	if next.Engine != nil {
		report := *next.Engine
		next.Engine = &report
	}
	change(&next)
	err := files.WriteJSON(w.path("state.json"), next, files.Private)
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

// keep sees the work through to its end, or to the end of ctx.
func (w *work) keep(ctx context.Context) {
	defer w.hush()
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
		w.host.deps.Log.ErrorContext(ctx, "work failed on this node", "work", w.key.String(), "error", err.Error())
		w.abandon(ctx, err)
	}
	w.hush()
	select {
	case <-ctx.Done():
		return
	case <-w.leaving:
	}
	if err := w.remove(); err != nil {
		w.host.deps.Log.ErrorContext(ctx, "work folder not removed", "work", w.key.String(), "error", err.Error())
		return
	}
	close(w.removed)
	w.host.forget(w)
}

// hush tells Shutdown that no process of the work is left.
func (w *work) hush() { w.quieted.Do(func() { close(w.quiet) }) }

func (w *work) live(ctx context.Context) error {
	if w.observed().Phase == executor.PhaseExited {
		return nil
	}
	if w.assignment.Work.Kind == executor.KindEngine {
		return w.keepEngine(ctx)
	}
	return w.keepAttempt(ctx)
}

// abandon ends a work that the node itself could not go on with, a full disk
// for one.
func (w *work) abandon(ctx context.Context, cause error) {
	for _, dir := range w.runDirs() {
		if w.host.control.Stop(dir, 0) == nil {
			_, _, _ = w.host.control.Await(ctx, dir)
		}
	}
	err := w.exited(executor.Exit{Code: -1, Reason: executor.ReasonLost, Message: executor.Tail(cause.Error(), executor.MaxMessage)})
	if err != nil {
		w.host.deps.Log.ErrorContext(ctx, "end of work not saved", "work", w.key.String(), "error", err.Error())
	}
}

// exited is the last phase before gone.
func (w *work) exited(exit executor.Exit) error {
	exit = w.judged(exit)
	return w.see(func(o *executor.Observation) {
		o.Phase, o.Detail = executor.PhaseExited, ""
		if o.Exit == nil {
			o.Exit = &exit
		}
		if o.ExitedAt.IsZero() {
			o.ExitedAt = w.host.deps.Clock.Now()
		}
	})
}

// remove makes the folder vanish: first its name, so that a half removed work
// is not taken for one.
func (w *work) remove() error {
	// The shim does it unless the kernel refuses; where it refuses still, a later executor cleans up.
	_ = w.host.holder.Plan(w.groupName(), executor.Limits{}).Remove()
	trash := filepath.Join(filepath.Dir(w.dir), removing+filepath.Base(w.dir))
	if err := os.RemoveAll(trash); err != nil {
		return fmt.Errorf("clear the way: %w", err)
	}
	if err := os.Rename(w.dir, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rename the folder: %w", err)
	}
	if err := os.RemoveAll(trash); err != nil {
		return fmt.Errorf("remove the folder: %w", err)
	}
	return nil
}

// runDirs are the folders in which shims of this work may be.
func (w *work) runDirs() []string {
	starts, _ := filepath.Glob(w.path("starts", "*"))
	return append(starts, w.path("run"), w.path("flush"))
}

// shutdownGrace is what processes get when the whole agent stops, goneGrace when
// the work has been given to somebody else.
const (
	shutdownGrace = time.Second
	goneGrace     = 3 * time.Second
)

// await waits for the end of what runs in the folder and stops it when the work
// shall end.
func (w *work) await(ctx context.Context, dir string, grace time.Duration) (executor.Exit, error) {
	stopped, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.stopWhenTold(stopped, dir, grace) })
	exit, found, err := w.host.control.Await(ctx, dir)
	stop()
	watcher.Wait()
	if err != nil {
		return executor.Exit{}, err
	}
	return w.outcome(dir, exit, found), nil
}

// stopWhenTold passes on each reason to stop, the gentlest first.
func (w *work) stopWhenTold(ctx context.Context, dir string, grace time.Duration) {
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
		if err := w.host.control.Stop(dir, within); err != nil {
			w.host.deps.Log.WarnContext(ctx, "stop not passed on", "work", w.key.String(), "error", err.Error())
			_ = clock.Sleep(ctx, w.host.deps.Clock, w.host.retry.Wait(0))
			stopping, killing, leaving, shutdown = w.stopping, w.killing, w.leaving, w.host.shutdown
		}
	}
}

// outcome translates what the shim left.
func (w *work) outcome(dir string, exit shim.Exit, found bool) executor.Exit {
	e := executor.Exit{Code: exit.Code, Signal: exit.Signal}
	switch {
	case !found:
		e = executor.Exit{Code: -1, Reason: executor.ReasonLost, Message: "the processes went away without an exit status"}
		if w.host.control.StopRequested(dir) {
			e.Reason = executor.ReasonStopped
		}
	case exit.Stopped:
		e.Reason = executor.ReasonStopped
	case exit.Failure != "":
		e.Reason, e.Message = executor.ReasonStart, executor.Tail(exit.Failure, executor.MaxMessage)
	case exit.OOM && exit.Code != 0:
		e.Reason, e.Message = executor.ReasonOOM, "a process was killed at the memory limit of the work"
	}
	return e
}
