package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Apply sets the complete list of desired works. A work that cannot be applied does not block the others;
// Apply returns its error. Apply ignores the list after a Shutdown that stops the works.
func (h *Host) Apply(ctx context.Context, desired []executor.Work) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.changed()
	if closed(h.shutdown) {
		return nil // The next executor receives the list again.
	}
	h.gone, h.listed = nil, map[executor.Key]bool{}
	var errs []error
	named := map[string]executor.Key{}
	for _, d := range desired {
		// Even a work that this agent rejects below is in the list, so it must not be removed.
		h.listed[d.Key] = true
		if newest, ok := named[d.WorkID]; !ok || newest.Before(d.Key) {
			named[d.WorkID] = d.Key
		}
		if err := errors.Join(d.Validate(), h.checkSpec(d)); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := h.want(ctx, d); err != nil {
			errs = append(errs, err)
		}
	}
	for key, w := range h.works {
		// If the list contains only an older execution of this work, the list is outdated.
		if newest, ok := named[key.WorkID]; !ok || key.Before(newest) {
			w.want(ctx, executor.DesiredGone, false)
		}
	}
	return errors.Join(errs...)
}

// want applies one desired work. The caller holds h.mu.
func (h *Host) want(ctx context.Context, d executor.Work) error {
	for key := range h.works {
		if key.WorkID == d.WorkID && d.Key.Before(key) {
			return nil
		}
	}
	if w, ok := h.works[d.Key]; ok {
		w.reportTo(ctx, endpointOf(d))
		w.until(ctx, d.Deadline)
		w.want(ctx, d.Desired, d.Force)
		return nil
	}
	if d.Desired != executor.DesiredRunning {
		// The work does not exist on this host and must not be created. Report it as gone.
		h.gone = append(h.gone, d.Key)
		return nil
	}
	w, err := newWork(h, d)
	if err != nil {
		return fmt.Errorf("create work %s: %w", d.Key, err)
	}
	for key, older := range h.works {
		if key.WorkID == d.WorkID {
			older.want(ctx, executor.DesiredGone, false)
			w.before = append(w.before, older.removed)
		}
	}
	h.works[d.Key] = w
	h.start(w)
	return nil
}

// checkSpec returns an error if a work that must run does not have the spec of its kind. A work that the host already
// has may be listed without a spec: it keeps the spec with which it was created. The caller holds h.mu.
func (h *Host) checkSpec(d executor.Work) error {
	if _, known := h.works[d.Key]; known && d.Attempt == nil && d.Engine == nil || d.Desired != executor.DesiredRunning {
		return nil
	}
	if (d.Kind == executor.KindAttempt) != (d.Attempt != nil) || (d.Kind == executor.KindEngine) != (d.Engine != nil) ||
		(d.Attempt == nil && d.Engine == nil) {
		return fmt.Errorf("work %s: the spec does not match kind %q", d.Key, d.Kind)
	}
	return nil
}

// forget drops a removed work. The host reports the work as gone as long as the list contains it.
func (h *Host) forget(w *work) {
	h.mu.Lock()
	delete(h.works, w.key)
	if h.listed[w.key] {
		h.gone = append(h.gone, w.key)
	}
	h.mu.Unlock()
	h.changed()
}

// until sets the deadline, which may replace an earlier one. A work that was stopped at the earlier deadline
// does not continue.
func (w *work) until(ctx context.Context, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.Equal(w.assignment.Work.Deadline) {
		return
	}
	w.assignment.Work.Deadline = at
	if err := w.saveAssignment(); err != nil {
		// The next list contains the deadline again. Until then it is only in memory.
		w.host.deps.Log.WarnContext(ctx, "cannot save the deadline; keeping it in memory", "work", w.key.String(), "error", err.Error())
	}
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// deadline returns the time at which the work must have ended, or zero if there is no deadline.
func (w *work) deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.assignment.Work.Deadline
}

// late reports whether the deadline has passed, by this host's clock.
func (w *work) late() bool {
	at := w.deadline()
	return !at.IsZero() && !w.host.deps.Clock.Now().Before(at)
}

// withDeadlineReason changes the reason of a stop to ReasonDeadline if the deadline has passed. The control
// plane must not start such a work again on another node.
func (w *work) withDeadlineReason(exit executor.Exit) executor.Exit {
	if exit.Reason == executor.ReasonStopped && w.late() {
		exit.Reason, exit.Message = executor.ReasonDeadline, "the deadline has passed"
	}
	return exit
}

// expire stops the work at its deadline, even if the control plane is unreachable.
func (w *work) expire(ctx context.Context) {
	for !w.late() {
		if !w.wait(ctx) {
			return
		}
	}
	w.want(ctx, executor.DesiredStopped, false)
}

// wait waits until the deadline passes or changes. It returns false if the work or ctx ends first.
func (w *work) wait(ctx context.Context) bool {
	var over <-chan time.Time
	if at := w.deadline(); !at.IsZero() {
		timer := w.host.deps.Clock.NewTimer(at.Sub(w.host.deps.Clock.Now()))
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.quiet:
		return false
	case <-w.moved:
	case <-over:
	}
	return true
}

// leftFile is the path of the file that marks the work as left to its shim when the agent was stopped. If the next
// agent finds that the work's processes have ended without a result, their end was part of that planned stop: a
// container was stopped, or the machine was shut down.
func (w *work) leftFile() string { return w.path("left.json") }

// leave marks the work as left to its shim, see leftFile, unless the work has ended.
func (w *work) leave() error {
	if p := w.observed().Phase; p == executor.PhaseCollecting || p == executor.PhaseExited || w.batched() {
		return nil // The stop of the agent's machine does not affect a batch system.
	}
	return localfile.WriteJSON(w.leftFile(), struct {
		At time.Time `json:"at"`
	}{w.host.deps.Clock.Now()}, localfile.PrivateMode)
}

// takeBack removes the mark that leave has written, if the processes of the work are still running or were never
// started. A later end is then not part of the planned stop.
func (w *work) takeBack() error {
	for _, dir := range w.runDirs() {
		state, err := w.host.control.State(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if state == shim.Ended || state == shim.Lost {
			return nil
		}
	}
	return w.forgetLeft()
}

func (w *work) forgetLeft() error {
	if err := os.Remove(w.leftFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the mark of a planned stop: %w", err)
	}
	return nil
}

// planned reports whether the end of the processes in dir was intended: the agent requested it, or the agent itself was
// stopped before.
func (w *work) planned(dir string) bool {
	_, err := os.Stat(w.leftFile())
	return err == nil || w.runner().StopRequested(dir)
}

// followEndpoint gives a running attempt its endpoint after the endpoint has moved. It does so outside of Apply, because it
// looks up names, and each of these can take seconds while the control plane moves.
func (w *work) followEndpoint(ctx context.Context) {
	if w.assignment.Work.Attempt == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-w.quiet:
		}
	}()
	for {
		for try := 0; ; try++ {
			err := w.moveEndpoint(ctx)
			if err == nil {
				break
			}
			if try == 0 && ctx.Err() == nil {
				w.host.deps.Log.WarnContext(ctx, "cannot give the work its new ingest endpoint; trying again", "work", w.key.String(), "error", err.Error())
			}
			if clock.Sleep(ctx, w.host.deps.Clock, w.host.retry.Wait(try)) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-w.rerouted:
		}
	}
}

// moveEndpoint gives the attempt its current endpoint, unless its endpoint file already contains that endpoint or does
// not exist yet.
func (w *work) moveEndpoint(ctx context.Context) error {
	w.reaching.Lock()
	defer w.reaching.Unlock()
	endpoint := w.endpoint()
	known, err := os.ReadFile(w.endpointFile())
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(known) == endpointText(endpoint) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the endpoint file: %w", err)
	}
	// Open the network to the new address before the attempt can read that address.
	if err := w.reachAgain(ctx, endpoint); err != nil {
		return err
	}
	return writeEndpoint(w.endpointFile(), endpoint)
}

// reachAgain lets the running processes of the attempt reach the ingest endpoint at another address. It does not wait
// until Run has tried the boundary, because these processes already run inside one. The caller holds w.reaching.
func (w *work) reachAgain(ctx context.Context, endpoint string) error {
	if w.batched() {
		return w.runner().Reach(w.path("run"), endpoint)
	}
	for _, dir := range []string{w.path("run"), w.path("flush")} {
		start, err := shim.ReadStart(dir)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && !start.Isolation.Network.On()) {
			continue
		}
		if err != nil {
			return err
		}
		n, err := w.changed(ctx, start.Isolation.Network, endpoint)
		if err != nil {
			return err
		}
		if err := w.host.control.Reach(dir, n); err != nil {
			return err
		}
	}
	return nil
}

// changed returns a network of the same kind as the network before, in which the work reaches the given endpoint. If
// the network is closed, changed also saves the names that the work can look up.
func (w *work) changed(ctx context.Context, before boundary.Network, endpoint string) (boundary.Network, error) {
	n := boundary.Network{Kind: before.Kind, Program: before.Program, Closed: before.Closed}
	if !n.Closed {
		return w.host.within(ctx, n, endpoint)
	}
	n, hosts, err := w.closedTo(ctx, n, endpoint)
	if err != nil {
		return n, err
	}
	return n, w.saveHosts(n, hosts)
}

// lookupInterval is the time after which the addresses of a closed work's endpoint are looked up again. The work cannot
// look them up itself.
const lookupInterval = 30 * time.Second

// followNames lets a closed work reach its endpoint even after the addresses of the endpoint's host name have changed.
func (w *work) followNames(ctx context.Context) {
	if !w.closedNetwork() || w.batched() {
		return // The nodes of a batch system look up the names themselves.
	}
	ticks := w.host.deps.Clock.NewTicker(lookupInterval)
	defer ticks.Stop()
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-w.quiet:
			return
		case <-ticks.C():
		}
		now, err := w.lookAgain(ctx, last)
		if err != nil && ctx.Err() == nil {
			w.host.deps.Log.WarnContext(ctx, "cannot look up the ingest endpoint of a work again", "work", w.key.String(), "error", err.Error())
		}
		last = now
	}
}

// lookAgain looks up the endpoint and lets the work reach it, unless the addresses are the same as in last. It returns
// the addresses that the work now reaches.
func (w *work) lookAgain(ctx context.Context, last string) (string, error) {
	w.reaching.Lock()
	defer w.reaching.Unlock()
	endpoint := w.endpoint()
	n, _, err := w.closedTo(ctx, boundary.Network{}, endpoint)
	now := fmt.Sprint(n.Reach)
	if err != nil || now == last {
		return last, err
	}
	if err := w.reachAgain(ctx, endpoint); err != nil {
		return last, err
	}
	return now, nil
}
