package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
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
		Node:   w.host.cfg.Node,
	}
}

// prepareAttempt fetches the inputs, builds the environment and starts the shim. It returns an exit if the
// attempt ended before it was started.
func (w *work) prepareAttempt(ctx context.Context, dir string) (*executor.Exit, error) {
	prepared, cancel := w.whileWanted(ctx)
	defer cancel()
	defer w.releasePort()
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
	w.mu.Lock()
	err = w.saveLease(dir)
	w.mu.Unlock()
	if err != nil {
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
	env, err := w.environment(ctx, spec.Environment)
	if err != nil {
		return shim.Start{}, err
	}
	if err := w.detail("requesting the ingest token"); err != nil {
		return shim.Start{}, err
	}
	if err := w.mint(ctx); err != nil {
		return shim.Start{}, ended(executor.ReasonStart, err)
	}
	return w.attemptStart(ctx, *spec, env, dir)
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

// attemptStart returns the command of the attempt with its environment, limits and boundary. The parameter dir is the
// folder of the attempt's shim.
func (w *work) attemptStart(ctx context.Context, spec executor.AttemptSpec, env pyenv.Environment, dir string) (shim.Start, error) {
	if len(spec.Command) == 0 {
		return shim.Start{}, ended(executor.ReasonStart, errors.New("the attempt has no command"))
	}
	port := 0
	if spec.Env["SERVICE_JOB_NNODES"] == "1" {
		// Only the agent knows which ports of the node other programs use. The ranks of several nodes must agree on a port,
		// so it is the control plane that chooses theirs.
		var err error
		if port, err = w.takePort(ctx, masterPorts()); err != nil {
			return shim.Start{}, err
		}
	}
	variables, err := w.attemptEnv(spec, env, port)
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
	inside, err := w.isolation(ctx, dir, env, visible{writable: []string{"package", "spool"}, readable: readable})
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
		Path: path, Args: args, Env: variables, Dir: w.path("package"), Log: w.path("log"), LogBounds: w.host.cfg.LogBounds,
		Limits: w.host.plan(w.groupName(), spec.Limits), Isolation: inside, Mark: w.mark(),
		Hold: w.portLock,
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

// gpus returns the GPUs that works may get. There are none if the device files have changed so that the agent's
// CUDA_VISIBLE_DEVICES is no longer valid.
func (h *Host) gpus() []executor.GPU {
	found, _ := executor.PermittedGPUs(h.folders.List(), h.cfg.Environ) // New has checked the variable
	return found
}

// CountGPUs returns the number of GPUs that works may get.
func (h *Host) CountGPUs() int { return len(h.gpus()) }

// devices returns the devices of the work's GPUs, and the other files that the driver's libraries need.
func (w *work) devices() []boundary.Bind {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.assignment.GPUs) == 0 {
		return nil
	}
	// The libraries read the PCI address of each device there.
	binds := []boundary.Bind{{Path: "/sys", Access: boundary.ReadOnly}}
	for _, number := range w.assignment.GPUs {
		binds = append(binds, boundary.Bind{Path: w.host.folders.Device(number), Access: boundary.Device})
	}
	for _, name := range []string{"ctl", "-uvm", "-uvm-tools", "-modeset"} {
		binds = append(binds, boundary.Bind{Path: filepath.Join(w.host.folders.Dev, "nvidia"+name), Access: boundary.Device, Optional: true})
	}
	return binds
}

// takeGPUs assigns the given number of GPUs, which no other running work uses, to the work. It returns them in the
// format of CUDA_VISIBLE_DEVICES. An empty value hides all devices.
func (w *work) takeGPUs(count int) (string, error) {
	isolated, err := w.host.isolated()
	if err != nil {
		return "", err
	}
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	w.mu.Lock()
	have := len(w.assignment.GPUs)
	w.mu.Unlock()
	if have < count {
		taken := w.host.takenGPUs()
		var free []int
		for _, g := range w.host.gpus() {
			if !slices.Contains(taken, g.Number) {
				free = append(free, g.Number)
			}
		}
		if len(free) < count {
			return "", ended(executor.ReasonStart, fmt.Errorf("the work needs %d GPUs, but only %d are free on this node", count, len(free)))
		}
		w.mu.Lock()
		w.assignment.GPUs = free[:count]
		err := w.saveAssignment()
		w.mu.Unlock()
		if err != nil {
			return "", err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return visibleTo(w.assignment.GPUs, w.host.folders.List(), isolated)
}

// visibleTo returns the value of CUDA_VISIBLE_DEVICES for a work that has the GPUs with the given numbers. For an
// isolated work, the driver numbers only the devices that the work can open, so the value counts from 0. Otherwise the
// value lists the UUIDs of the GPUs; a GPU without a UUID is listed by its index among all GPUs.
func visibleTo(numbers []int, all []executor.GPU, isolated bool) (string, error) {
	var names []string
	for n, number := range numbers {
		if isolated {
			names = append(names, strconv.Itoa(n))
			continue
		}
		i := slices.IndexFunc(all, func(g executor.GPU) bool { return g.Number == number })
		if i < 0 {
			return "", ended(executor.ReasonStart, errors.New("a GPU that was assigned to the work no longer exists on this node"))
		}
		if all[i].UUID != "" {
			names = append(names, all[i].UUID)
		} else {
			names = append(names, strconv.Itoa(i))
		}
	}
	return strings.Join(names, ","), nil
}

// takenGPUs returns the devices of works whose processes may be running. The caller holds h.mu.
func (h *Host) takenGPUs() []int {
	var taken []int
	for _, w := range h.works {
		w.mu.Lock()
		if w.seen.Phase != executor.PhaseExited && w.seen.Phase != executor.PhaseCollecting {
			taken = append(taken, w.assignment.GPUs...)
		}
		w.mu.Unlock()
	}
	return taken
}
