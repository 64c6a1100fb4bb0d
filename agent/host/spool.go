package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// deliverSpools delivers the reports that are still in the spools of the attempt's ranks.
func (w *work) deliverSpools(ctx context.Context) error {
	errs := make([]error, 0, w.ranks())
	for rank := range w.ranks() {
		errs = append(errs, w.deliverSpool(ctx, rank))
	}
	return errors.Join(errs...)
}

// deliverSpool delivers the reports that are still in the spool of a rank because the attempt was killed or the control
// plane was unreachable. It runs the Python reporter with the attempt's environment and limits; the reporter's output
// goes into the log. The reporter is stopped when the work must be removed, when Shutdown is called or when the time of
// collectTime has passed.
func (w *work) deliverSpool(ctx context.Context, rank int) error {
	dir := w.folder(rank, "flush")
	state, err := w.host.control.State(dir)
	if err != nil {
		return err
	}
	if state == shim.Never {
		left, err := w.leftReports(rank)
		if err != nil || !left || closed(w.leaving) || closed(w.host.shutdown) {
			return err
		}
		if err := w.launchFlush(ctx, dir, rank); err != nil {
			return err
		}
	}
	left, err := w.collectTime()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	awaiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _, err := w.host.control.Await(awaiting, dir)
		ended <- err
	}()
	timeout := w.host.deps.Clock.NewTimer(left)
	defer timeout.Stop()
	select {
	case err := <-ended:
		return err
	case <-w.leaving:
	case <-w.host.shutdown:
	case <-timeout.C():
	}
	err = w.host.control.Stop(dir, 0)
	if err != nil {
		cancel() // do not wait for a reporter that cannot be stopped
	}
	return errors.Join(err, <-ended)
}

// anyLeft reports whether the spool of any rank may contain undelivered reports.
func (w *work) anyLeft() (left bool, err error) {
	for rank := 0; rank < w.ranks() && !left && err == nil; rank++ {
		left, err = w.leftReports(rank)
	}
	return left, err
}

// leftReports reports whether the spool of a rank may contain undelivered reports. A reporter that has delivered all
// its reports removes its folder with the lock file.
func (w *work) leftReports(rank int) (left bool, err error) {
	if !w.usesSDK() {
		return false, nil
	}
	err = w.inFolder(rank, spoolName, func(dir string) error {
		left = anyReporter(dir)
		return nil
	})
	return left, err
}

// anyReporter reports whether a folder in the spool has a lock file.
func anyReporter(spool string) bool {
	folder, err := os.Open(spool)
	if err != nil {
		return false
	}
	defer func() { _ = folder.Close() }()
	const page = 1000 // the work may have left any number of files
	for {
		names, err := folder.Readdirnames(page)
		for _, name := range names {
			if lock, err := boundary.OpenRegular(spool, filepath.Join(name, "lock")); err == nil {
				_ = lock.Close()
				return true
			}
		}
		if err != nil {
			return false
		}
	}
}

// flushStart returns the start on which that of the reporter is based. It is the start of the rank, with limits for this
// machine.
func (w *work) flushStart(rank int) (shim.Start, error) {
	if !w.batched() {
		return shim.ReadStart(w.path("run"))
	}
	t, err := ReadTemplate(w.runDir(rank))
	t.Start.Limits = w.host.plan(w.groupName(), w.host.limits(executor.Limits{}))
	return t.Start, err
}

// launchFlush starts the reporter with the attempt's environment, limits and boundary, but without its GPUs, because
// other works may be using them.
func (w *work) launchFlush(ctx context.Context, dir string, rank int) error {
	start, err := w.flushStart(rank)
	if err != nil {
		return err
	}
	start.Disk = shim.DiskBounds{} // the reporter must deliver what the work has left, even if the work used too much
	start.Isolation = start.Isolation.WithoutDevices(filepath.Join(dir, "root"))
	if start.Isolation.On() {
		// The control plane may have another address now.
		if start.Isolation.Network, err = w.network(ctx, start.Isolation.Network); err != nil {
			return err
		}
	}
	for _, d := range w.disks([]string{spoolName}) {
		if err := d.Release(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o700); err != nil {
		return fmt.Errorf("create the folder of the reporter: %w", err)
	}
	left, err := w.collectTime()
	if err != nil {
		return err
	}
	env, python := []string{"CUDA_VISIBLE_DEVICES="}, w.host.cfg.Pythons[w.assignment.Work.Attempt.Environment.Python]
	for _, v := range start.Env {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "CUDA_VISIBLE_DEVICES", shim.MarkName:
			continue
		case "VIRTUAL_ENV":
			python = filepath.Join(value, "bin", "python")
		}
		env = append(env, v)
		if bin, _, ok := strings.Cut(value, ":"); ok && name == "PATH" && python == "" {
			python = filepath.Join(bin, "python3") // the node may have offered the interpreter before and not now
		}
	}
	// Python first looks for modules in the working folder and in the user's folder. The work could have put its own
	// modules into both, so use neither.
	start.Env, start.Path, start.Dir = env, python, "/"
	start.Args = []string{python, "-s", "-m", "signalbox", "flush", "--timeout", strconv.Itoa(int(left / time.Second)), w.folder(rank, spoolName)}
	return w.host.control.Launch(dir, start)
}
