package host

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// collect delivers the remaining reports and the rest of the log within the time limit, and then records
// the exit and whether everything was delivered.
func (w *work) collect(ctx context.Context, exit executor.Exit, s *shipment) error {
	err := w.deliverSpools(ctx)
	left, unknown := w.anyLeft()
	if err = errors.Join(err, unknown); err != nil && ctx.Err() == nil {
		w.host.deps.Log.WarnContext(ctx, "cannot deliver the remaining reports", "work", w.key.String(), "error", err.Error())
	}
	collected := err == nil && !left
	w.markQuiet()
	close(s.ended)
	within, err := w.collectTime()
	if err != nil {
		return err
	}
	timeout := w.host.deps.Clock.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-s.done:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.err != nil {
			collected = false
			w.host.deps.Log.WarnContext(ctx, "cannot deliver the rest of the log", "work", w.key.String(), "error", s.err.Error())
		}
	case <-timeout.C():
		collected = false
		w.host.deps.Log.WarnContext(ctx, "the time to deliver the rest of the log has passed", "work", w.key.String())
	case <-w.leaving:
		collected = false
	}
	s.join()
	return w.exitedAfter(exit, collected)
}

// collecting records when the delivery of the rest of the log began.
type collecting struct {
	Since time.Time `json:"since"`
}

// lastTry is the minimum time that an agent has after its start to deliver the rest of a log, unless
// CollectTimeout is shorter. It applies even if the machine was off for longer than CollectTimeout.
const lastTry = time.Minute

// collectTime returns the time left to deliver the rest of the log. CollectTimeout counts from the first
// call, even if the agent was restarted since. Each restart may extend the time by up to lastTry.
func (w *work) collectTime() (time.Duration, error) {
	var c collecting
	err := localfile.ReadJSON(w.path("collecting.json"), &c)
	if errors.Is(err, fs.ErrNotExist) {
		c.Since = w.host.deps.Clock.Now()
		err = localfile.WriteJSON(w.path("collecting.json"), c, localfile.PrivateMode)
	}
	whole := w.host.cfg.CollectTimeout
	left := whole - clock.Since(w.host.deps.Clock, c.Since)
	return min(whole, max(left, lastTry)), err
}

// exited records the exit, unless an exit is already recorded. Only the phase `gone` may follow.
func (w *work) exited(exit executor.Exit) error { return w.exitedAfter(exit, true) }

// exitedAfter is like exited. The parameter collected reports whether the log and the reports were delivered.
func (w *work) exitedAfter(exit executor.Exit, collected bool) error {
	exit = w.withDeadlineReason(exit)
	return w.see(func(o *executor.Observation) {
		o.Phase, o.Detail, o.Uncollected = executor.PhaseExited, "", !collected
		if o.Exit == nil {
			o.Exit = &exit
		}
		if o.ExitedAt.IsZero() {
			o.ExitedAt = w.host.deps.Clock.Now()
		}
	})
}
