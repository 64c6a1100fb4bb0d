package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/logship"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// keepAttempt continues an attempt from its current state until it has exited.
func (w *work) keepAttempt(ctx context.Context) error {
	dir := w.path("run")
	state, err := w.runner().State(dir)
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
	if !w.batched() { // A batched attempt may be held first, see follow.
		if err := w.nowRunning(dir); err != nil {
			return err
		}
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
		o.ExitedAt = w.endedAt(dir, o.RunningAt)
	})
	if err != nil {
		return err
	}
	return w.collect(ctx, exit, s)
}

// shipment is a running delivery of a log.
type shipment struct {
	// ended is closed when the log is complete. done is closed when the shipper has returned; err is then the error of
	// the shipper.
	ended, done chan struct{}
	err         error
	cancel      context.CancelFunc
}

func (w *work) ship(ctx context.Context) *shipment {
	ctx, cancel := context.WithCancel(ctx)
	s := &shipment{ended: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		s.err = w.shipAll(ctx, s.ended)
	}()
	return s
}

// join cancels the shipper if it is still running, and waits until it has returned.
func (s *shipment) join() {
	s.cancel()
	<-s.done
}

// shipAll ships the logs of all ranks.
func (w *work) shipAll(ctx context.Context, ended <-chan struct{}) error {
	if w.batched() {
		// The lines have the names of the nodes, which are known when the batch system has started the attempt.
		select {
		case <-w.placed:
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	errs := make([]error, w.ranks())
	var shippers sync.WaitGroup
	for n := range errs {
		shippers.Go(func() { errs[n] = w.host.shipper.Run(ctx, w.log(n), ended) })
	}
	shippers.Wait()
	return errors.Join(errs...)
}

// log describes the log of a rank.
func (w *work) log(rank int) logship.Log {
	spec := w.assignment.Work.Attempt
	writer := fmt.Sprintf("agent-%s-%d-%d", w.key.WorkID, w.key.Generation, w.key.Fence)
	if w.batched() {
		writer += "-r" + strconv.Itoa(rank)
	}
	return logship.Log{
		Path: w.folder(rank, "log"), Journal: w.folder(rank, "ship.jsonl"),
		Endpoint: w.endpoint, Token: secret.New(w.assignment.Token), RunID: spec.RunID, Writer: writer, Node: w.nodeOf(rank),
	}
}

// prepareAttempt fetches the inputs, builds the environment and starts the shim. It returns an exit if the
// attempt ended before it was started.
func (w *work) prepareAttempt(ctx context.Context, dir string) (*executor.Exit, error) {
	prepared, cancel := w.whileWanted(ctx)
	defer cancel()
	defer w.releasePort()
	launch, err := w.readyAttempt(prepared)
	if err == nil {
		err = prepared.Err()
	}
	if err != nil {
		if exit := w.refusal(ctx, err); exit != nil {
			return exit, nil
		}
		return nil, err
	}
	w.mu.Lock()
	err = w.saveLeases()
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return nil, w.runner().Launch(dir, launch)
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

// readyAttempt fetches the inputs, builds the environment and returns what must be started.
func (w *work) readyAttempt(ctx context.Context) (Launch, error) {
	spec := w.assignment.Work.Attempt
	err := w.see(func(o *executor.Observation) {
		o.Detail = "fetching the package and the inputs"
		if w.batched() {
			return // The attempt is pending until the batch system starts it.
		}
		o.Phase = executor.PhasePreparing
		if o.PreparingAt.IsZero() {
			o.PreparingAt = w.host.deps.Clock.Now()
		}
	})
	if err != nil {
		return Launch{}, err
	}
	if err := w.fetchInputs(ctx, *spec); err != nil {
		return Launch{}, ended(executor.ReasonFetch, err)
	}
	if err := w.detail("building the Python environment"); err != nil {
		return Launch{}, err
	}
	env, err := w.environment(ctx, spec.Environment)
	if err != nil {
		return Launch{}, err
	}
	if err := w.detail("requesting the ingest token"); err != nil {
		return Launch{}, err
	}
	if err := w.mint(ctx); err != nil {
		return Launch{}, ended(executor.ReasonStart, err)
	}
	l := Launch{Key: w.key, Attempt: *spec}
	if w.batched() {
		l.Place = w.place()
	}
	for n := range w.ranks() {
		start, err := w.attemptStart(ctx, *spec, env, n)
		if err != nil {
			return Launch{}, err
		}
		l.Starts = append(l.Starts, start)
	}
	return l, nil
}

// mint requests the attempt's ingest token and saves it, unless an earlier call has done so.
func (w *work) mint(ctx context.Context) error {
	if w.assignment.Token != "" {
		return nil
	}
	var token executor.Token
	var leased time.Time
	err := w.retry(ctx, func(ctx context.Context) (err error) {
		leased = w.host.deps.Clock.Now()
		token, err = w.host.deps.Tokens.MintIngestToken(ctx, w.key)
		return err
	})
	if err != nil {
		return fmt.Errorf("get the ingest token: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.assignment.Token, w.assignment.Lease = token.Secret.Reveal(), token.Lease.Reveal()
	w.assignment.Leased, w.assignment.Silence = leased, token.Silence
	return w.saveAssignment()
}

// attemptStart returns the command of a rank of the attempt with its environment, limits and boundary.
func (w *work) attemptStart(ctx context.Context, spec executor.AttemptSpec, env pyenv.Environment, rank int) (shim.Start, error) {
	if len(spec.Command) == 0 {
		return shim.Start{}, ended(executor.ReasonStart, errors.New("the attempt has no command"))
	}
	port := 0
	if spec.Env["SERVICE_JOB_NNODES"] == "1" && !w.batched() {
		// Only the agent knows which ports of the node other programs use. The ranks of several nodes must agree on a port,
		// so it is the control plane that chooses theirs.
		var err error
		if port, err = w.takePort(ctx, masterPorts()); err != nil {
			return shim.Start{}, err
		}
	}
	variables, err := w.attemptEnv(spec, env, port, rank)
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
	inside, err := w.isolation(ctx, w.runDir(rank), env, visible{rank: rank, writable: []string{"package", spoolName}, readable: readable})
	if err != nil {
		return shim.Start{}, err
	}
	args := append([]string(nil), spec.Command...)
	path := args[0]
	if path == "python" {
		args[0] = env.Python
		path = env.Python
	}
	start := shim.Start{
		Path: path, Args: args, Env: variables, Dir: w.path("package"), Log: w.folder(rank, "log"), LogBounds: w.host.cfg.LogBounds,
		Isolation: inside, Mark: w.mark(), Hold: w.portLock,
	}
	if w.batched() {
		// The batch system limits what the processes use. It also sends signals without a grace period of their own.
		start.Grace, start.Queued = spec.Grace, true
		return start, nil
	}
	start.Limits = w.host.plan(w.groupName(), w.host.limits(spec.Limits))
	start.Disk, err = w.diskBounds("work", "tmp", "package", spoolName)
	return start, err
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
