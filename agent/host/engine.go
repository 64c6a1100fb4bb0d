package host

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/signalbox-dev/signalbox/agent/engine"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/objcache"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// maxFailures is the number of failed starts after which an engine that was never ready is given up.
const maxFailures = 3

// keepEngine keeps the engine running and restarts it after a failure, until the work must end or the
// engine is given up.
func (w *work) keepEngine(ctx context.Context) error {
	for failures, taken := 0, 0; ; {
		e, exit, err := w.currentStart(ctx)
		if err != nil {
			return err
		}
		if exit != nil {
			return w.engineEnded(*exit)
		}
		end, err := e.follow(ctx)
		switch {
		case errors.Is(err, shim.ErrNotStarted):
			continue
		case err != nil:
			return err
		case closed(w.stopping):
			return w.engineEnded(end)
		case closed(w.host.shutdown):
			return w.suspend(ctx)
		}
		if e.served {
			failures, taken = 0, 0
		}
		pause := taken // The first time that the port is taken, restart the engine without delay.
		if e.taken != nil {
			taken++
		} else {
			failures++
			pause = failures
		}
		if !w.hasServed() && (e.hopeless || failures >= maxFailures || taken >= maxTaken) {
			return w.engineFailed(end)
		}
		if e.taken == nil && end.Reason == executor.ReasonStopped && !e.hopeless {
			failures, pause = 0, 0 // An earlier agent stopped the engine at its shutdown: restart it without delay.
		}
		if err := w.nextStart(ctx, pause); err != nil {
			return err
		}
	}
}

// engineStart is one start of the engine's process.
type engineStart struct {
	*work
	dir    string
	target engine.Target
	// served is true if this start has passed its probes.
	served bool
	// hopeless is true if the process ran but failed its probes.
	hopeless bool
	// taken is set if another process listens on the engine's port.
	taken *portTakenError
}

// address is the content of the file address.json. An agent that adopts a start reads the engine's address
// from it.
type address struct {
	Address string `json:"address"`
}

// currentStart returns the current start of the engine. It starts the process unless that has already been
// done. It returns an exit if the engine ended before it was started.
func (w *work) currentStart(ctx context.Context) (*engineStart, *executor.Exit, error) {
	n := 0
	if r := w.observed().Engine; r != nil {
		n = r.Restarts
	}
	dir := w.path("starts", strconv.Itoa(n))
	state, err := w.host.control.State(dir)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			return nil, nil, err
		}
		state = shim.Never
	}
	if state == shim.Never {
		exit, err := w.launchEngine(ctx, dir)
		if err != nil || exit != nil {
			return nil, exit, err
		}
	}
	var a address
	if err := localfile.ReadJSON(filepath.Join(dir, "address.json"), &a); err != nil {
		return nil, nil, err
	}
	spec := *w.assignment.Work.Engine
	e := &engineStart{work: w, dir: dir, target: engine.Target{
		Address: a.Address, Key: secret.New(w.assignment.Key), Model: engine.ServedName(spec),
		Names: append([]string{engine.DefaultName}, spec.ServedNames...), Task: spec.Task, Deadline: engine.Deadline(spec),
	}}
	e.target.Guard = e.leavePort
	return e, nil, w.nowRunning(dir)
}

// launchEngine fetches the model, builds the environment and starts the shim. It returns an exit if the
// engine cannot be started.
func (w *work) launchEngine(ctx context.Context, dir string) (*executor.Exit, error) {
	prepared, cancel := w.whileWanted(ctx)
	defer cancel()
	defer w.releasePort()
	start, err := w.readyEngine(prepared, dir)
	if err == nil {
		err = prepared.Err()
	}
	if err == nil {
		return nil, w.host.control.Launch(dir, start)
	}
	if ctx.Err() == nil && !closed(w.stopping) && closed(w.host.shutdown) {
		return nil, w.suspend(ctx)
	}
	if exit := w.refusal(ctx, err); exit != nil {
		return exit, w.reportRefusal(*exit, err)
	}
	return nil, err
}

func (w *work) readyEngine(ctx context.Context, dir string) (shim.Start, error) {
	spec := *w.assignment.Work.Engine
	driver, err := engine.Find(spec)
	if err != nil {
		return shim.Start{}, ended(executor.ReasonStart, err)
	}
	if err := w.beginEngine(); err != nil {
		return shim.Start{}, err
	}
	if err := w.fetchModel(ctx, spec); err != nil {
		return shim.Start{}, ended(executor.ReasonFetch, err)
	}
	env, err := w.host.envs.Ensure(ctx, driver.Environment(spec))
	if err != nil {
		return shim.Start{}, err
	}
	for _, folder := range []string{filesOf(dir), w.path("work"), w.path("tmp")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return shim.Start{}, fmt.Errorf("create a folder of the engine: %w", err)
		}
	}
	if err := w.makeKey(); err != nil {
		return shim.Start{}, err
	}
	return w.engineCommand(ctx, spec, driver, env, dir)
}

// engineCommand writes the files of one start of the engine and returns its command. Each start uses a new
// port.
func (w *work) engineCommand(
	ctx context.Context, spec executor.EngineSpec, driver engine.Driver, env pyenv.Environment, dir string,
) (shim.Start, error) {
	port, err := w.takePort(ctx)
	if err != nil {
		return shim.Start{}, err
	}
	c, err := driver.Plan(spec, engine.Place{
		Dir: filesOf(dir), ModelDir: w.path("model"), Host: loopback, Port: port, KeyFile: w.path("key"), Python: env.Python, Bin: env.Bin(),
	})
	if err != nil {
		return shim.Start{}, ended(executor.ReasonStart, err)
	}
	for name, data := range c.Files {
		if err := localfile.Write(filepath.Join(filesOf(dir), name), data, localfile.PrivateMode); err != nil {
			return shim.Start{}, err
		}
	}
	err = localfile.WriteJSON(filepath.Join(dir, "address.json"), address{Address: "http://" + loopback + ":" + strconv.Itoa(port)}, localfile.PrivateMode)
	if err != nil {
		return shim.Start{}, err
	}
	gpus, err := w.takeGPUs(spec.Limits.GPUs)
	if err != nil {
		return shim.Start{}, err
	}
	inside, err := w.isolation(dir, env, visible{readable: []string{w.path("model"), filesOf(dir)}, secret: []string{w.path("key")}})
	if err != nil {
		return shim.Start{}, err
	}
	v := w.baseEnv(env)
	v["CUDA_VISIBLE_DEVICES"], v["HF_HUB_OFFLINE"] = gpus, "1"
	return shim.Start{
		Path: c.Args[0], Args: c.Args, Env: append(flat(v), c.Env...), Dir: w.path("work"), Log: w.path("log"),
		Limits: w.host.holder.Plan(w.groupName(), spec.Limits), Isolation: inside, Mark: w.mark(),
		Hold: w.portLock,
	}, nil
}

// filesOf returns the folder for the files of one start. Unlike the other files in the start's folder, the engine
// reads them.
func filesOf(dir string) string { return filepath.Join(dir, "files") }

// fetchModel links the model's files into the folder `model` of the work. Some engines use the name of the
// model as a path, so fetchModel also creates a link to that folder for each served name that is a valid
// file name.
func (w *work) fetchModel(ctx context.Context, spec executor.EngineSpec) error {
	if len(spec.Model) == 1 && spec.ModelDigest != "" && spec.ModelDigest != "sha256:"+spec.Model[0].SHA256 {
		return errors.Join(objcache.ErrMismatch, fmt.Errorf("the model's file does not match the digest %s", spec.ModelDigest))
	}
	if err := os.MkdirAll(w.path("work"), 0o700); err != nil {
		return fmt.Errorf("create the engine's folder: %w", err)
	}
	for _, name := range append([]string{engine.DefaultName}, spec.ServedNames...) {
		link := w.path("work", name)
		if !plain(name) {
			continue
		}
		if err := os.Symlink(w.path("model"), link); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("link the served name to the model: %w", err)
		}
	}
	return w.fetch(ctx, spec.Model, w.path("model"), w.host.objects.Link)
}

// makeKey writes the file with the API key that callers of this engine must send. It generates the key at
// the first start.
func (w *work) makeKey() error {
	if w.assignment.Key == "" {
		random := make([]byte, 32)
		if _, err := io.ReadFull(w.host.deps.Rand, random); err != nil {
			return fmt.Errorf("generate the engine's key: %w", err)
		}
		w.mu.Lock()
		w.assignment.Key = hex.EncodeToString(random)
		err := w.saveAssignment()
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return localfile.Write(w.path("key"), []byte(w.assignment.Key+"\n"), localfile.PrivateMode)
}

// nextStart waits before the next start, longer after each failure. It then counts the restart and removes
// the folder of the previous start.
func (w *work) nextStart(ctx context.Context, failures int) error {
	wanted, cancel := w.whileWanted(ctx)
	defer cancel()
	if failures > 0 {
		_ = clock.Sleep(wanted, w.host.deps.Clock, w.host.restart.Wait(failures-1))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	old := w.path("starts", strconv.Itoa(w.observed().Engine.Restarts))
	err := w.report(func(r *executor.EngineReport) { r.Restarts++ })
	if err != nil {
		return err
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("remove the folder of the previous start: %w", err)
	}
	return w.forgetLeft()
}

// suspend waits until the work must be removed or ctx ends. It is used when the agent stops its engines at
// shutdown; the next agent starts this engine again.
func (w *work) suspend(ctx context.Context) error {
	w.markQuiet()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.leaving:
		return w.engineEnded(executor.Exit{Code: -1, Reason: executor.ReasonStopped})
	}
}
