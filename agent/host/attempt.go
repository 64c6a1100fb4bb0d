package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/logship"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// keepAttempt continues an attempt from its current state until it has exited.
func (w *work) keepAttempt(ctx context.Context) error {
	dir := w.path("run")
	state, err := w.host.control.State(dir)
	if err != nil {
		return err
	}
	if state == shim.Never {
		exit, err := w.prepareAttempt(ctx, dir)
		if err != nil {
			return err
		}
		if exit != nil {
			return w.exited(*exit)
		}
	}
	if err := w.nowRunning(dir); err != nil {
		return err
	}
	return w.attend(ctx, dir)
}

// attend follows the running attempt and ships its log. After the attempt has ended, it delivers the
// remaining reports and the rest of the log.
func (w *work) attend(ctx context.Context, dir string) error {
	s := w.ship(ctx)
	// attend must not return before the shipper has ended.
	defer s.join()
	exit, err := w.await(ctx, dir, w.assignment.Work.Attempt.Grace)
	if errors.Is(err, shim.ErrNotStarted) {
		// The shim was killed before it started the command.
		s.join()
		return w.keepAttempt(ctx)
	}
	if err != nil {
		return err
	}
	exit = w.withDeadlineReason(exit)
	err = w.see(func(o *executor.Observation) {
		o.Phase, o.Exit, o.Detail = executor.PhaseCollecting, &exit, "delivering the log and the reports"
		o.ExitedAt = w.endedAt(dir)
	})
	if err != nil {
		return err
	}
	return w.collect(ctx, exit, s)
}

// collect delivers the remaining reports and the rest of the log within the time limit, and then records
// the exit.
func (w *work) collect(ctx context.Context, exit executor.Exit, s *shipment) error {
	if err := w.deliverSpool(ctx); err != nil && ctx.Err() == nil {
		w.host.deps.Log.WarnContext(ctx, "cannot deliver the remaining reports", "work", w.key.String(), "error", err.Error())
	}
	w.markQuiet()
	close(s.ended)
	left, err := w.collectTime()
	if err != nil {
		return err
	}
	timeout := w.host.deps.Clock.NewTimer(left)
	defer timeout.Stop()
	select {
	case <-s.done:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.err != nil {
			w.host.deps.Log.WarnContext(ctx, "cannot deliver the rest of the log", "work", w.key.String(), "error", s.err.Error())
		}
	case <-timeout.C():
		w.host.deps.Log.WarnContext(ctx, "the time to deliver the rest of the log has passed", "work", w.key.String())
	case <-w.leaving:
	}
	s.join()
	return w.exited(exit)
}

// shipment is a running delivery of a log.
type shipment struct {
	// ended is closed when the log is complete. done is closed when the shipper has returned; err is then its
	// error.
	ended, done chan struct{}
	err         error
	cancel      context.CancelFunc
}

func (w *work) ship(ctx context.Context) *shipment {
	ctx, cancel := context.WithCancel(ctx)
	s := &shipment{ended: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		s.err = w.host.shipper.Run(ctx, w.log(), s.ended)
	}()
	return s
}

// join cancels the shipper if it is still running, and waits until it has returned.
func (s *shipment) join() {
	s.cancel()
	<-s.done
}

func (w *work) log() logship.Log {
	spec := w.assignment.Work.Attempt
	return logship.Log{
		Path: w.path("log"), Journal: w.path("ship.jsonl"),
		Endpoint: w.endpoint, Token: secret.New(w.assignment.Token), RunID: spec.RunID,
		Writer: fmt.Sprintf("agent-%s-%d-%d", w.key.WorkID, w.key.Generation, w.key.Fence),
	}
}

// prepareAttempt fetches the inputs, builds the environment and starts the shim. It returns an exit if the
// attempt ended before it was started.
func (w *work) prepareAttempt(ctx context.Context, dir string) (*executor.Exit, error) {
	prepared, cancel := w.whileWanted(ctx)
	defer cancel()
	start, err := w.readyAttempt(prepared, dir)
	if err == nil {
		err = prepared.Err()
	}
	if err != nil {
		if exit := w.refusal(ctx, err); exit != nil {
			return exit, nil
		}
		return nil, err
	}
	return nil, w.host.control.Launch(dir, start)
}

// whileWanted returns a context that ends when ctx ends or when the work or the agent must stop.
func (w *work) whileWanted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.stopping:
		case <-w.host.shutdown:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel
}

// readyAttempt fetches the inputs, builds the environment and returns what the shim must start.
func (w *work) readyAttempt(ctx context.Context, dir string) (shim.Start, error) {
	spec := w.assignment.Work.Attempt
	err := w.see(func(o *executor.Observation) {
		o.Phase, o.Detail = executor.PhasePreparing, "fetching the package and the inputs"
		if o.PreparingAt.IsZero() {
			o.PreparingAt = w.host.deps.Clock.Now()
		}
	})
	if err != nil {
		return shim.Start{}, err
	}
	if err := w.fetchInputs(ctx, *spec); err != nil {
		return shim.Start{}, ended(executor.ReasonFetch, err)
	}
	if err := w.detail("building the Python environment"); err != nil {
		return shim.Start{}, err
	}
	env, err := w.host.envs.Ensure(ctx, spec.Environment)
	if err != nil {
		return shim.Start{}, err
	}
	if err := w.detail("requesting the ingest token"); err != nil {
		return shim.Start{}, err
	}
	if err := w.mint(ctx); err != nil {
		return shim.Start{}, ended(executor.ReasonStart, err)
	}
	return w.attemptStart(*spec, env, dir)
}

// mint requests the attempt's ingest token and saves it, unless an earlier call has done so.
func (w *work) mint(ctx context.Context) error {
	if w.assignment.Token != "" {
		return nil
	}
	var token executor.Token
	err := w.retry(ctx, func(ctx context.Context) (err error) {
		token, err = w.host.deps.Tokens.MintIngestToken(ctx, w.key)
		return err
	})
	if err != nil {
		return fmt.Errorf("get the ingest token: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.assignment.Token = token.Secret.Reveal()
	return w.saveAssignment()
}

// attemptStart returns the command of the attempt with its environment, limits and boundary. dir is the folder of its
// shim.
func (w *work) attemptStart(spec executor.AttemptSpec, env pyenv.Environment, dir string) (shim.Start, error) {
	if len(spec.Command) == 0 {
		return shim.Start{}, ended(executor.ReasonStart, errors.New("the attempt has no command"))
	}
	variables, err := w.attemptEnv(spec, env)
	if err != nil {
		return shim.Start{}, err
	}
	readable := []string{w.path("inputs"), w.path(live)}
	if w.usesSDK() {
		sdk, err := w.sdkDir()
		if err != nil {
			return shim.Start{}, err
		}
		readable = append(readable, sdk)
	}
	inside, err := w.isolation(dir, env, visible{writable: []string{w.path("package"), w.path("spool")}, readable: readable})
	if err != nil {
		return shim.Start{}, err
	}
	args := append([]string(nil), spec.Command...)
	path := args[0]
	if path == "python" {
		args[0] = env.Python
		path = env.Python
	}
	return shim.Start{
		Path: path, Args: args, Env: variables, Dir: w.path("package"), Log: w.path("log"),
		Limits: w.host.holder.Plan(w.groupName(), spec.Limits), Isolation: inside, Mark: w.mark(),
	}, nil
}

// nowRunning records that the command is running, unless that is already recorded.
func (w *work) nowRunning(dir string) error {
	if w.observed().Phase != executor.PhasePending && w.observed().Phase != executor.PhasePreparing {
		return nil
	}
	return w.see(func(o *executor.Observation) {
		o.Phase, o.Detail = executor.PhaseRunning, ""
		if r, err := w.host.control.Running(dir); err == nil {
			o.RunningAt = r.StartedAt
		} else {
			o.RunningAt = w.host.deps.Clock.Now()
		}
	})
}

// mark returns a name that identifies this execution among the executions of all agents on the machine.
func (w *work) mark() string { return filepath.Base(w.groupName()) }
