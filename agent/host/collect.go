package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/files"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// collecting is since when the rest of the log is being delivered.
type collecting struct {
	Since time.Time `json:"since"`
}

// lastTry is what every executor gives a log, however long the machine was off: what lies ready is
// tried once more before it is given up.
const lastTry = time.Minute

// collectTime is how long the rest of the log may still be delivered. It counts from the first time that
// this was asked, by whichever executor: restarts make it no longer but for a last try.
func (w *work) collectTime() (time.Duration, error) {
	var c collecting
	err := files.ReadJSON(w.path("collecting.json"), &c)
	if errors.Is(err, fs.ErrNotExist) {
		c.Since = w.host.deps.Clock.Now()
		err = files.WriteJSON(w.path("collecting.json"), c, files.Private)
	}
	whole := w.host.cfg.CollectTimeout
	left := whole - clock.Since(w.host.deps.Clock, c.Since)
	return min(whole, max(left, lastTry)), err
}

// deliverSpool has the reports delivered that the attempt left behind: of a process that was killed, or
// that gave up on a control plane that was away. The reporter itself does it, as the attempt that it speaks
// for and within its limits; what it says goes into the log. It can take until the work shall be forgotten,
// the agent's processes shall end, or the time to collect is over.
func (w *work) deliverSpool(ctx context.Context) error {
	dir := w.path("flush")
	state, err := w.host.control.State(dir)
	if err != nil {
		return err
	}
	if state == shim.Never {
		if !w.leftReports() || closed(w.leaving) || closed(w.host.shutdown) {
			return nil
		}
		if err := w.launchFlush(dir); err != nil {
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
		cancel() // nobody would end it
	}
	return errors.Join(err, <-ended)
}

// leftReports tells that the spool holds what some writer of the attempt owes.
func (w *work) leftReports() bool {
	spec := w.assignment.Work.Attempt
	locks, _ := filepath.Glob(w.path("spool", "*", "lock"))
	return spec.Environment.SDK && w.host.deps.SDK != nil && len(locks) > 0
}

// launchFlush starts the reporter with what the attempt was started with, but for its GPUs, which others may
// have by now.
func (w *work) launchFlush(dir string) error {
	start, err := shim.ReadStart(w.path("run"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	left, err := w.collectTime()
	if err != nil {
		return err
	}
	env, python := []string{"CUDA_VISIBLE_DEVICES="}, ""
	for _, v := range start.Env {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "CUDA_VISIBLE_DEVICES", shim.MarkName:
			continue
		case "VIRTUAL_ENV":
			python = filepath.Join(value, "bin", "python")
		}
		env = append(env, v)
	}
	start.Env, start.Path, start.Dir = env, python, w.path("work")
	start.Args = []string{python, "-m", "signalbox", "flush", "--timeout", strconv.Itoa(int(left / time.Second)), w.path("spool")}
	return w.host.control.Launch(dir, start)
}
