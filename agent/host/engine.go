package host

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/signalbox-dev/signalbox/agent/engine"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/objcache"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// maxFailures is the number of failed starts after which the agent gives up an engine that was never ready.
const maxFailures = 3

// keepEngine keeps the engine running and restarts it after a failure. It returns when the work must end or when it
// gives up the engine.
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
			failures, pause = 0, 0 // An earlier agent stopped the engine when it shut down: restart the engine without delay.
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
	// served is true if the engine has passed its probes in this start.
	served bool
	// hopeless is true if the process ran but failed its probes in this start.
	hopeless bool
	// taken is set if another process listens on the engine's port.
	taken *portTakenError
}

// address is the content of the file address.json. An agent that adopts a running engine reads the engine's address
// from this file.
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
	env, err := w.host.envs.Ensure(ctx, driver.Environment(spec), w.dir)
	if err != nil {
		return shim.Start{}, err
	}
	if err := os.MkdirAll(filesOf(dir), 0o700); err != nil {
		return shim.Start{}, fmt.Errorf("create a folder of the engine: %w", err)
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
	port, err := w.takePort(ctx, enginePorts())
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
	inside, err := w.isolation(ctx, dir, env, visible{readable: []string{w.path("model"), filesOf(dir)}, secret: []string{w.path("key")}})
	if err != nil {
		return shim.Start{}, err
	}
	inside.Network.Serve, inside.Ports.Own = port, uint16(port)
	v := w.baseEnv(env, 0)
	v["CUDA_VISIBLE_DEVICES"], v["HF_HUB_OFFLINE"] = gpus, "1"
	return shim.Start{
		Path: c.Args[0], Args: c.Args, Env: append(flat(v), c.Env...), Dir: w.path("work"), Log: w.path("log"), LogBounds: w.host.cfg.LogBounds,
		Limits: w.host.plan(w.groupName(), w.host.engineLimits(spec.Limits)), Isolation: inside, Mark: w.mark(),
		Hold: w.portLock,
	}, nil
}

// filesOf returns the folder, below the folder dir of one start, for the files that the engine itself reads. The engine
// does not see the other files in dir.
func filesOf(dir string) string { return filepath.Join(dir, "files") }

// fetchModel links the model's files into the folder `model` of the work. Some engines use the name of the
// model as a path, so fetchModel also creates a link to that folder for each served name that is a valid
// file name.
func (w *work) fetchModel(ctx context.Context, spec executor.EngineSpec) error {
	if len(spec.Model) == 1 && spec.ModelDigest != "" && spec.ModelDigest != "sha256:"+spec.Model[0].SHA256 {
		return errors.Join(objcache.ErrMismatch, fmt.Errorf("the model's file does not match the digest %s", spec.ModelDigest))
	}
	if err := w.createFolders(ctx, "work", "tmp"); err != nil {
		return err
	}
	err := w.inFolder(0, "work", func(dir string) error { return linkNames(dir, w.path("model"), spec.ServedNames) })
	if err != nil {
		return err
	}
	return w.fetch(ctx, spec.Model, w.path("model"), w.host.objects.Link)
}

// linkNames creates links in the folder dir, named after the default name and the served names, to the model's folder.
func linkNames(dir, model string, served []string) error {
	for _, name := range append([]string{engine.DefaultName}, served...) {
		if !plain(name) {
			continue
		}
		if err := os.Symlink(model, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("link the served name to the model: %w", err)
		}
	}
	return nil
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
	if start, err := shim.ReadStart(old); err == nil {
		w.lastNetwork = start.Isolation.Network
	}
	err := w.report(func(r *executor.EngineReport) { r.Restarts++ })
	if err != nil {
		return err
	}
	w.mu.Lock() // renewAt writes into the folders of the starts
	err = os.RemoveAll(old)
	w.mu.Unlock()
	if err != nil {
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

// The ports of engines are lower than the ports that Linux gives to outgoing connections (32768 and above by default)
// and than the node ports of Kubernetes. A connection could otherwise take the port before the engine listens on it. No
// other work may listen on the ports of engines.
const (
	firstPort = 20000
	ports     = 3000
)

func enginePorts() boundary.PortRange {
	return boundary.PortRange{First: firstPort, Last: firstPort + ports - 1}
}

// masterPorts are the ports that attempts on one node get for their main process. They follow those of engines.
func masterPorts() boundary.PortRange {
	return boundary.PortRange{First: firstPort + ports, Last: firstPort + 2*ports - 1}
}

// ports returns the ports on which a work with the given boundary must not listen: those of the installation and of all
// other programs on this node. Without this restriction, a work could receive requests that are meant for a program
// that is being restarted or that listens at another address of the node.
func (h *Host) ports(i boundary.Isolation) (p boundary.Ports, err error) {
	if i.Network.Kind == boundary.OwnNetwork {
		return p, nil
	}
	works := h.cfg.WorkUsers
	if i.Kind != boundary.OwnUser {
		works = boundary.Users{First: 1, Last: 0} // An empty range: works cannot be distinguished from other programs of the agent's user.
	}
	if p.Busy, err = boundary.Listening("/proc", works); err != nil {
		return p, err
	}
	p.Reserved = []boundary.PortRange{enginePorts()}
	reserve := func(port uint16) {
		if engines := enginePorts(); port < engines.First || port > engines.Last {
			p.Reserved = append(p.Reserved, boundary.PortRange{First: port, Last: port})
		}
	}
	for _, port := range h.cfg.ReservedPorts {
		reserve(port)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return p, fmt.Errorf("list the addresses of the node: %w", err)
	}
	for _, a := range i.Network.Reach {
		if isOwn(own, a.Addr()) {
			reserve(a.Port())
		}
	}
	for _, port := range h.olderEngines() {
		reserve(port)
	}
	return p, nil
}

func isOwn(node []net.Addr, a netip.Addr) bool {
	for _, one := range node {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil && prefix.Addr() == a {
			return true
		}
	}
	return a.IsLoopback()
}

// olderEngines returns the ports of running engines. An agent of an earlier version may have chosen ports outside
// enginePorts.
func (h *Host) olderEngines() []uint16 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []uint16
	for _, w := range h.works {
		r := w.observed().Engine
		if r == nil {
			continue
		}
		u, err := url.Parse(r.Address)
		if err != nil {
			continue
		}
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
			all = append(all, uint16(port))
		}
	}
	return all
}
