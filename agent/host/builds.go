package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// runBuildStep runs one step of the build of an environment under a shim, inside a boundary of its own.
func (h *Host) runBuildStep(ctx context.Context, s pyenv.Step) (output string, err error) {
	on, err := h.isolated()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(h.buildsDir(), 0o700); err != nil {
		return "", fmt.Errorf("create the folder of builds: %w", err)
	}
	dir, err := os.MkdirTemp(h.buildsDir(), "step-")
	if err != nil {
		return "", fmt.Errorf("create the folder of a build: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	start := shim.Start{
		Path: s.Args[0], Args: s.Args, Env: s.Env, Dir: s.Dir, Log: filepath.Join(dir, "log"), LogBounds: h.cfg.LogBounds,
		Limits: h.plan(h.groupOf(filepath.Base(dir)+".0.0"), h.limits(executor.Limits{})), Mark: filepath.Base(dir),
	}
	if on {
		id, giveBack, err := h.borrowUser()
		if err != nil {
			return "", err
		}
		defer giveBack()
		start.Isolation = h.buildIsolation(dir, id, s)
		if start.Isolation.Network, err = h.network(ctx, urlsIn(s.Env)...); err != nil {
			return "", err
		}
		if start.Isolation.Ports, err = h.ports(start.Isolation); err != nil {
			return "", err
		}
		start.Isolation.Ports.ChosenOnly = start.Isolation.Network.Kind != boundary.OwnNetwork // nothing has to find a build
		if err := h.own(s.Dir, id); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, h.own(s.Dir, os.Geteuid())) }()
		if err := os.Mkdir(start.Isolation.Root, 0o700); err != nil {
			return "", fmt.Errorf("create the folder of a build's root: %w", err)
		}
	}
	if err := h.control.Launch(dir, start); err != nil {
		return "", err
	}
	err = h.awaitBuildStep(ctx, dir)
	return logTail(start.Log), err
}

func (h *Host) buildsDir() string { return filepath.Join(h.cfg.Data, "builds") }

// endBuilds ends the build steps that a killed agent has left running. The builds themselves are repeated later.
func (h *Host) endBuilds(ctx context.Context) {
	steps, _ := filepath.Glob(filepath.Join(h.buildsDir(), "step-*"))
	for _, dir := range steps {
		err := h.control.Stop(dir, 0)
		if err == nil {
			_, _, err = h.control.Await(ctx, dir)
		}
		if err != nil && !errors.Is(err, shim.ErrNotStarted) {
			h.deps.Log.WarnContext(ctx, "cannot end a build of an earlier agent", "folder", dir, "error", err.Error())
			continue
		}
		_ = os.RemoveAll(dir)
	}
}

// own makes the user with the given id the owner of the folder, if works have users of their own.
func (h *Host) own(dir string, id int) error {
	if h.kind != boundary.OwnUser {
		return nil
	}
	return boundary.Give(dir, id)
}

func (h *Host) buildIsolation(dir string, id int, s pyenv.Step) boundary.Isolation {
	i := boundary.Isolation{Kind: h.kind, UID: id, Root: filepath.Join(dir, "root"), Home: s.Dir, SharedMemory: h.sharedMemory(h.limits(executor.Limits{}))}
	i.Binds = []boundary.Bind{{Path: s.Dir, Access: boundary.Writable}, {Path: "/tmp", From: s.Dir, Access: boundary.Writable}}
	for _, path := range slices.Concat(s.Readable, h.cfg.WorkPaths) {
		if h.uncovered(path) == "" {
			i.Binds = append(i.Binds, boundary.Bind{Path: path, Access: boundary.ReadOnly, Optional: true})
		}
	}
	return i
}

// awaitBuildStep waits until the step has ended. It ends the step when ctx ends.
func (h *Host) awaitBuildStep(ctx context.Context, dir string) error {
	stop := context.AfterFunc(ctx, func() { _ = h.control.Stop(dir, 0) })
	defer stop()
	// The step must have ended before its folder is removed.
	exit, found, err := h.control.Await(context.WithoutCancel(ctx), dir)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case !found:
		return errors.New("the processes of the build ended without an exit status")
	case exit.Stopped:
		return fmt.Errorf("%w; the agent's log states the reason", pyenv.ErrInterrupted)
	case exit.Failure != "":
		return fmt.Errorf("start the build: %s", exit.Failure)
	case exit.Signal != 0:
		return &pyenv.StepError{Reason: fmt.Sprintf("the build was killed by signal %d", exit.Signal)}
	case exit.Code != 0:
		return &pyenv.StepError{Reason: fmt.Sprintf("the build exited with status %d", exit.Code)}
	}
	return nil
}
