package boot

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// OpenRevocations opens the journal of what is revoked in the Env's schema.
func (e *Env) OpenRevocations(closers *process.Closers) (err error) {
	e.revocations, err = audit.OpenRevocations(audit.RevocationsConfig{
		Service: e.Name, Pool: e.Pool, Clock: e.Clock, Log: e.Log, Meter: e.Obs.Meter,
		Dir: e.Sealing.Dir, Heads: e.heads(), Age: e.Sealing.RevocationAge,
	})
	if err != nil {
		return err
	}
	closers.Add(e.Name+" revocation journal", func(context.Context) error { return e.revocations.Close() })
	return nil
}

// journaled returns a registrar that wraps the methods of each service that is registered: a method returns only when
// everything that it revoked is in the journal.
func (e *Env) journaled(r grpc.ServiceRegistrar) grpc.ServiceRegistrar {
	if e.revocations == nil {
		return r
	}
	return rpc.Settled(r, e.revocations.Settle)
}

func (e *Env) revocationWorkers() []process.Worker {
	if e.revocations == nil {
		return nil
	}
	return []process.Worker{{Name: e.Name + ".revocations", Run: e.revocations.Run}}
}

// restoreCheck is how often a process in maintenance checks whether the restore was completed.
const restoreCheck = time.Second

// ErrMaintenance returns the error for all calls while `signalbox-setup restored` has not yet completed the restore of
// a database.
func ErrMaintenance() error {
	return fault.New(fault.Unavailable, fault.CodeMaintenance,
		"the database was restored; an administrator of the machine must run signalbox-setup restored").WithRetryAfter(time.Minute)
}

// AwaitRestore compares the databases of all envs with the last state that this installation used. If a database was
// restored, AwaitRestore runs the function refuse, which must refuse all calls until its context is done. AwaitRestore
// ends that context and returns when signalbox-setup has completed the restore. Until then nothing in the database is
// used. The result stopped is true if a signal arrives first.
func AwaitRestore(ctx context.Context, clk clock.Clock, log *slog.Logger, refuse func(context.Context) error, envs ...*Env) (stopped bool, err error) {
	err = resumeAll(ctx, envs)
	if !errors.Is(err, audit.ErrRestored) {
		return false, err
	}
	log.ErrorContext(ctx, "started in maintenance; run signalbox-setup restored, see docs/reference/operating.md", "error", err.Error())
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	refusing, end := context.WithCancel(ctx)
	refused := make(chan error, 1)
	go func() {
		err := refuse(refusing)
		end() // If refuse has failed, there is nothing to wait for.
		refused <- err
	}()
	waited := awaitRestore(refusing, clk, log, envs)
	end()
	err = <-refused
	switch {
	case ctx.Err() != nil:
		return true, nil
	case err != nil:
		return false, err
	case waited == nil:
		log.InfoContext(ctx, "the restore was completed; serving")
	}
	return false, waited
}

// awaitRestore waits until the databases have been settled. Other errors do not end the wait, because the database may be
// stopped and started while it is restored.
func awaitRestore(ctx context.Context, clk clock.Clock, log *slog.Logger, envs []*Env) error {
	for {
		if err := clock.Sleep(ctx, clk, restoreCheck); err != nil {
			return err
		}
		err := resumeAll(ctx, envs)
		if err == nil {
			return nil
		}
		if !errors.Is(err, audit.ErrRestored) && ctx.Err() == nil {
			log.WarnContext(ctx, "cannot look up whether the restore was completed; trying again", "error", err.Error())
		}
	}
}

func resumeAll(ctx context.Context, envs []*Env) error {
	for _, e := range envs {
		if err := e.revocations.Resume(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitRestore calls AwaitRestore for the process's service. Calls from other services are refused in the meantime, and
// the admin listener reports that the process runs and why it is not ready.
func (p *Process) awaitRestore(ctx context.Context, spec Spec) (stopped bool, err error) {
	files, err := spec.Migrations()
	if err != nil {
		return false, err
	}
	if err := migrate.Check(ctx, p.Pool, spec.Name, files); err != nil {
		return false, err
	}
	if err := p.OpenRevocations(p.Closers); err != nil {
		return false, err
	}
	return AwaitRestore(ctx, p.Clock, p.Log, func(ctx context.Context) error {
		l, err := p.Wire.Listen(spec.Name) //nolint:contextcheck // the internal listeners take no context.
		if err != nil {
			return err
		}
		refused := process.Worker{
			Name:  spec.Name + ".maintenance",
			Run:   func(ctx context.Context) error { return rpc.Refuse(ctx, l, ErrMaintenance()) },
			Ready: func(context.Context) error { return ErrMaintenance() },
		}
		return p.runRefusing(ctx, refused)
	}, p.Env)
}

// runRefusing runs the worker that refuses calls until ctx is done, beside an admin listener if there is one. The worker is
// never ready, so the admin listener reports its reason.
func (p *Process) runRefusing(ctx context.Context, refusing process.Worker) error {
	if p.Settings.Obs.AdminListen == "" {
		return refusing.Run(ctx)
	}
	admin, err := OpenAdmin(ctx, p.Settings.Obs.AdminListen, p.Obs, p.Clock, p.Loaded, 0, refusing)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- admin.Run(ctx)
		end() // Without its admin listener, the process would be killed by probes.
	}()
	err = refusing.Run(ctx)
	end()
	return errors.Join(err, <-served)
}
