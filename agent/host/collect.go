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

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

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

// deliverSpool delivers the reports that are still in the attempt's spool because the attempt was killed or
// the control plane was unreachable. It runs the Python reporter with the attempt's environment and limits;
// the reporter's output goes into the log. The reporter is stopped when the work must be removed, when
// Shutdown is called or when the time to collect has passed.
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
		cancel() // do not wait for a reporter that cannot be stopped
	}
	return errors.Join(err, <-ended)
}

// leftReports reports whether the spool may contain undelivered reports. A reporter that has delivered all
// its reports removes its folder with the lock file.
func (w *work) leftReports() bool {
	if !w.usesSDK() {
		return false
	}
	entries, _ := os.ReadDir(w.path("spool"))
	for _, e := range entries {
		lock, err := boundary.OpenRegular(w.path("spool"), filepath.Join(e.Name(), "lock"))
		if err == nil {
			_ = lock.Close()
			return true
		}
	}
	return false
}

// launchFlush starts the reporter with the attempt's environment, limits and boundary, but without its GPUs, because
// other works may be using them.
func (w *work) launchFlush(dir string) error {
	start, err := shim.ReadStart(w.path("run"))
	if err != nil {
		return err
	}
	start.Isolation = start.Isolation.WithoutDevices(filepath.Join(dir, "root"))
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o700); err != nil {
		return fmt.Errorf("create the folder of the reporter: %w", err)
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
