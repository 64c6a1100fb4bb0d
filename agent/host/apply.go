package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
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
		if err := check(d); err != nil {
			errs = append(errs, err)
			continue
		}
		h.listed[d.Key] = true
		if newest, ok := named[d.WorkID]; !ok || newest.Before(d.Key) {
			named[d.WorkID] = d.Key
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
		w.reportTo(ctx, d.Attempt)
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

func check(d executor.Work) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if d.Desired != executor.DesiredRunning {
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
