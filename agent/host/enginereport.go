package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/agent/engine"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/objcache"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const loopback = "127.0.0.1"

// report changes the engine's report in the observation.
func (w *work) report(change func(*executor.EngineReport)) error {
	return w.see(func(o *executor.Observation) {
		if o.Engine == nil {
			o.Engine = &executor.EngineReport{Phase: executor.EngineStarting}
		}
		o.Engine.APIKey = secret.New(w.assignment.Key)
		change(o.Engine)
	})
}

func (w *work) beginEngine() error {
	err := w.see(func(o *executor.Observation) {
		if o.Phase == executor.PhasePending {
			o.Phase = executor.PhasePreparing
		}
		o.Detail = "fetching the model and building the engine's environment"
		if o.PreparingAt.IsZero() {
			o.PreparingAt = w.host.deps.Clock.Now()
		}
	})
	if err != nil {
		return err
	}
	return w.report(func(r *executor.EngineReport) {
		r.Phase, r.Ready, r.PID = executor.EngineStarting, false, 0
	})
}

// follow watches one start of the engine until its process has ended.
func (e *engineStart) follow(ctx context.Context) (executor.Exit, error) {
	type end struct {
		exit executor.Exit
		err  error
	}
	ended := make(chan end, 1)
	watching, cancel := context.WithCancel(ctx)
	go func() {
		exit, err := e.await(ctx, e.dir, engineGrace)
		ended <- end{exit, err}
		cancel()
	}()
	var leasing sync.WaitGroup
	leasing.Go(func() { e.lease(watching) })
	watchErr := e.watch(watching)
	if watchErr != nil && watching.Err() == nil {
		// The engine failed its probes or its report could not be saved: stop it.
		if err := e.host.control.Stop(e.dir, engineGrace); err != nil {
			watchErr = errors.Join(watchErr, err)
		}
	}
	got := <-ended
	cancel()
	leasing.Wait()
	if got.err != nil {
		return executor.Exit{}, got.err
	}
	var hopeless *probeError
	if e.lostPort(got.exit, watchErr) {
		return got.exit, e.reportEnd(got.exit, nil)
	}
	if watchErr != nil && !errors.As(watchErr, &hopeless) && !errors.Is(watchErr, context.Canceled) {
		return executor.Exit{}, watchErr
	}
	e.hopeless = hopeless != nil
	return got.exit, e.reportEnd(got.exit, hopeless)
}

// engineGrace is the time between SIGTERM and SIGKILL when an engine is stopped.
const engineGrace = 5 * time.Second

// probeError reports that a running engine has failed its probes.
type probeError struct{ result engine.Result }

func (p *probeError) Error() string { return string(p.result.Code) + ": " + p.result.Message }

// watch probes the engine, unless an earlier agent has found it ready, and then checks its port at each
// interval. If the port is closed, it probes the engine again. It returns when ctx ends or the probes fail.
func (e *engineStart) watch(ctx context.Context) error {
	if err := e.leavePort(); err != nil {
		return err
	}
	if !e.adopted() {
		if err := e.probe(ctx); err != nil {
			return err
		}
	}
	e.served = true
	tick := e.host.deps.Clock.NewTicker(e.host.cfg.ProbeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C():
		}
		if err := e.leavePort(); err != nil {
			return err
		}
		if e.host.prober.Bound(ctx, e.target.Address) == nil || ctx.Err() != nil {
			continue
		}
		err := e.report(func(r *executor.EngineReport) {
			r.Ready, r.Phase, r.Code, r.Message = false, executor.EngineProbing, executor.CodePortTimeout, "the port no longer accepts connections"
		})
		if err == nil {
			err = e.probe(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// adopted reports whether an earlier agent has already seen this process pass its probes.
func (e *engineStart) adopted() bool {
	r := e.observed().Engine
	running, err := e.host.control.Running(e.dir)
	return err == nil && r != nil && r.Ready && r.PID == running.Command.PID && r.Address == e.target.Address
}

// probe runs the probes and reports the result.
func (e *engineStart) probe(ctx context.Context) error {
	if err := e.probingStarted(ctx); err != nil {
		return err
	}
	result := e.host.prober.Run(ctx, e.target)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if result.Unsafe != nil {
		return result.Unsafe
	}
	err := e.report(func(r *executor.EngineReport) {
		r.Probes, r.Code, r.Message = result.JSON(), result.Code, result.Message
		if r.Ready = result.OK(); r.Ready {
			r.Phase, r.LogExcerpt, r.ReadyAt = executor.EngineReady, "", e.host.deps.Clock.Now()
		}
	})
	if err == nil && !result.OK() {
		err = &probeError{result: result}
	}
	return err
}

// probingStarted waits until the shim has recorded the process. It then reports the process and the
// address.
func (e *engineStart) probingStarted(ctx context.Context) error {
	runs, err := e.host.control.Running(e.dir)
	for err != nil || runs.Command.PID == 0 {
		if err := clock.Sleep(ctx, e.host.deps.Clock, startInterval); err != nil {
			return err
		}
		runs, err = e.host.control.Running(e.dir)
	}
	err = e.report(func(r *executor.EngineReport) {
		r.Address, r.PID, r.Ready, r.Phase = e.target.Address, runs.Command.PID, false, executor.EngineProbing
	})
	if err != nil {
		return err
	}
	// RunningAt is the start of this process, not of the first process of the work.
	return e.see(func(o *executor.Observation) { o.RunningAt = runs.StartedAt })
}

const startInterval = 10 * time.Millisecond

// reportEnd reports the end of the process and its cause, if it is known.
func (e *engineStart) reportEnd(exit executor.Exit, hopeless *probeError) error {
	return e.report(func(r *executor.EngineReport) {
		r.Ready, r.Phase, r.PID, r.Address = false, executor.EngineStarting, 0, ""
		r.LogExcerpt = logTail(e.path("log"))
		switch {
		case e.taken != nil:
			r.Code, r.Message = executor.CodePortTaken, e.taken.Error()
		case hopeless != nil:
			r.Code, r.Message = hopeless.result.Code, hopeless.result.Message
		case exit.Reason == executor.ReasonStopped:
			r.Code, r.Message = "", ""
		case exit.Reason == executor.ReasonOOM:
			r.Code, r.Message = executor.CodeOOMHost, exit.Message
		default:
			r.Code, r.Message = executor.CodeEngineExited, exitWords(exit)
		}
	})
}

func exitWords(exit executor.Exit) string {
	switch {
	case exit.Message != "":
		return exit.Message
	case exit.Signal != 0:
		return fmt.Sprintf("the engine was killed by signal %d", exit.Signal)
	default:
		return fmt.Sprintf("the engine exited with status %d", exit.Code)
	}
}

// hasServed reports whether any start of this work has been ready.
func (w *work) hasServed() bool {
	r := w.observed().Engine
	return r != nil && !r.ReadyAt.IsZero()
}

// engineEnded records the end of an engine that was stopped or that could not be started.
func (w *work) engineEnded(exit executor.Exit) error {
	err := w.report(func(r *executor.EngineReport) { r.Ready, r.PID, r.Address = false, 0, "" })
	if err != nil {
		return err
	}
	return w.exited(exit)
}

// engineFailed records the end of an engine that was never ready.
func (w *work) engineFailed(exit executor.Exit) error {
	err := w.report(func(r *executor.EngineReport) { r.Phase = executor.EngineFailed })
	if err != nil {
		return err
	}
	r := w.observed().Engine
	return w.exited(executor.Exit{
		Code: exit.Code, Signal: exit.Signal, Reason: executor.ReasonStart,
		Message: executor.Tail(string(r.Code)+": "+r.Message, executor.MaxMessage),
	})
}

// reportRefusal reports why the engine could not be started.
func (w *work) reportRefusal(exit executor.Exit, cause error) error {
	var build *pyenv.BuildError
	return w.report(func(r *executor.EngineReport) {
		r.Message = exit.Message
		switch {
		case exit.Reason == executor.ReasonStopped:
			return
		case errors.As(cause, &build):
			r.Code = executor.CodeEnvBuild
		case errors.Is(cause, objcache.ErrMismatch):
			r.Code = executor.CodeWeightsMismatch
		case exit.Reason == executor.ReasonFetch:
			r.Code = executor.CodeWeightsFetch
		default:
			r.Code = executor.CodeEngineExited
		}
		r.Phase = executor.EngineFailed
	})
}

const excerpt = 4096

// logTail returns the end of a log file, at most as many bytes as the constant excerpt. It returns an empty string if
// the file cannot be read.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	data := make([]byte, min(info.Size(), 2*excerpt))
	n, _ := f.ReadAt(data, info.Size()-int64(len(data)))
	return executor.Tail(string(data[:n]), excerpt)
}

// leaseURL returns the URL at which leases are renewed. The parameter ingest is the base URL of the ingest routes,
// which ends in /api/ingest.
func leaseURL(ingest string) string {
	return strings.TrimSuffix(strings.TrimRight(ingest, "/"), "/ingest") + "/cluster/leases/renew"
}

// saveLease gives the shim in the folder dir what it needs to renew the work's lease at the current address of the
// control plane. It does nothing until all of that is known. The caller holds w.mu.
func (w *work) saveLease(dir string) error {
	url, grace := w.assignment.LeaseURL, engineGrace
	if spec := w.assignment.Work.Attempt; spec != nil {
		url, grace = leaseURL(w.ingest()), spec.Grace
	}
	relayed := w.assignment.Work.Engine != nil && w.host.cfg.RelaysEngines
	// An earlier version of the control plane grants no leases, or does not send their address.
	if w.assignment.Lease == "" || url == "" || relayed && w.relay == "" {
		return nil
	}
	return shim.WriteLease(dir, shim.Lease{
		URL: url, WorkID: w.key.WorkID, Token: w.assignment.Lease, Grace: grace, Silence: w.assignment.Silence, Since: w.assignment.Leased,
		Relay: w.relay, Final: w.assignment.Work.Attempt != nil,
	})
}

// lease requests a lease for the engine until the control plane grants one, and gives the lease to the shim. If an
// earlier start has a lease, lease uses that one. Until then the engine serves without a lease, because the control
// plane may be unreachable.
func (e *engineStart) lease(ctx context.Context) {
	for try := 0; ; try++ {
		err := e.leaseOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		lasting := errors.Is(err, executor.ErrPermanent)
		if try == 0 || lasting {
			e.host.deps.Log.WarnContext(ctx, "cannot get a lease for the engine; the engine runs without a lease", "work", e.key.String(), "error", err.Error(), "again", !lasting)
		}
		if lasting || clock.Sleep(ctx, e.host.deps.Clock, e.host.retry.Wait(try)) != nil {
			return
		}
	}
}

func (e *engineStart) leaseOnce(ctx context.Context) error {
	e.mu.Lock()
	token := e.assignment.Lease
	e.mu.Unlock()
	if token != "" {
		return e.keepLease(func() {})
	}
	began := e.host.deps.Clock.Now()
	granted, err := e.host.deps.Tokens.GrantLease(ctx, e.key)
	if err != nil {
		return err
	}
	return e.keepLease(func() { e.assignment.Lease, e.assignment.Leased = granted.Reveal(), began })
}

// keepLease calls the function change, which changes the data of the engine's lease. It then saves the data and passes
// it to the shims of the engine's starts.
func (w *work) keepLease(change func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	starts, _ := filepath.Glob(w.path("starts", "*"))
	err := w.saveAssignment()
	for _, dir := range starts {
		err = errors.Join(err, w.saveLease(dir))
	}
	return err
}

// renewAt lets the shims of an engine renew its lease at a new URL.
func (w *work) renewAt(url string) error {
	w.mu.Lock()
	known := url == w.assignment.LeaseURL
	w.mu.Unlock()
	if known {
		return nil
	}
	return w.keepLease(func() { w.assignment.LeaseURL = url })
}

// Relayed records the address, host:port, at which the agent's relay accepts connections for an engine. From then on,
// the shim renews the engine's lease only while the relay responds.
func (h *Host) Relayed(key executor.Key, address string) {
	h.mu.Lock()
	w := h.works[key]
	h.mu.Unlock()
	if w == nil {
		return
	}
	if err := w.keepLease(func() { w.relay = address }); err != nil {
		ctx := context.Background()
		h.deps.Log.WarnContext(ctx, "cannot save the lease of the engine", "work", key.String(), "error", err.Error())
	}
}
