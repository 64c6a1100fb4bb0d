package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// trialTimeout limits the trial of the boundary.
const trialTimeout = 30 * time.Second

// Isolation returns how works are isolated on this machine. If they are not, why states the reason. It waits until
// Run has tried the boundary.
func (h *Host) Isolation() (kind boundary.Kind, why error) {
	<-h.tried
	return h.kind, h.notIsolated
}

// tryIsolation determines and logs how works are isolated. It runs a program that does nothing inside a boundary.
func (h *Host) tryIsolation(ctx context.Context) {
	defer close(h.tried)
	h.kind, h.notIsolated = boundary.None, errors.New("SERVICE_AGENT_ISOLATION is set to none")
	if h.cfg.Isolate {
		dir := filepath.Join(h.cfg.Data, "trial")
		i := boundary.Isolation{Kind: boundary.UserNamespace, UID: os.Geteuid(), Root: filepath.Join(dir, "root"), Home: "/"}
		if os.Geteuid() == 0 {
			i.Kind, i.UID = boundary.OwnUser, h.cfg.WorkUsers.First
		}
		if h.notIsolated = h.try(ctx, dir, i); h.notIsolated == nil {
			h.kind = i.Kind
		}
	}
	if h.notIsolated != nil {
		h.deps.Log.WarnContext(ctx, "works are not isolated", "reason", h.notIsolated.Error(), "refused", h.cfg.Isolate)
		return
	}
	h.deps.Log.InfoContext(ctx, "works are isolated", "by", string(h.kind))
}

func (h *Host) try(ctx context.Context, dir string, i boundary.Isolation) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the last trial of the boundary: %w", err)
	}
	if err := os.MkdirAll(i.Root, 0o700); err != nil {
		return fmt.Errorf("create the folder of the boundary's trial: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	err := h.control.Launch(dir, shim.Start{
		Path: "true", Args: []string{"true"}, Env: []string{"PATH=" + systemPath}, Dir: "/", Log: filepath.Join(dir, "log"),
		Isolation: i, Mark: "trial-" + strconv.Itoa(os.Getpid()),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	exit, found, err := h.control.Await(ctx, dir)
	switch {
	case err != nil:
		return fmt.Errorf("try the boundary: %w", err)
	case !found || exit.Failure != "" || exit.Code != 0:
		return fmt.Errorf("try the boundary: exit status %d %s", exit.Code, exit.Failure)
	}
	return nil
}

// isolated reports whether works run inside a boundary. It returns an error if they must, but cannot.
func (h *Host) isolated() (bool, error) {
	kind, why := h.Isolation()
	if kind == boundary.None && h.cfg.Isolate {
		return false, ended(executor.ReasonStart, fmt.Errorf(
			"this node cannot isolate works (%w); run the agent as root or allow user namespaces, see docs/reference/security.md", why))
	}
	return kind != boundary.None, nil
}

// visible are the files and folders that a work sees in addition to its environment and its folders work and tmp.
type visible struct {
	writable, readable []string
	// secret are files that no other user may read, even one that could enter the work's folder.
	secret []string
}

// isolation returns the boundary of one start of the work, whose shim has the folder run.
func (w *work) isolation(run string, env pyenv.Environment, v visible) (i boundary.Isolation, err error) {
	if on, err := w.host.isolated(); err != nil || !on {
		return i, err
	}
	i.Kind, _ = w.host.Isolation()
	if i.UID, err = w.user(); err != nil {
		return i, err
	}
	i.Root, i.Home = filepath.Join(run, "root"), w.path("work")
	i.SharedMemory = w.sharedMemory()
	v.writable = append([]string{w.path("work"), w.path("tmp")}, v.writable...)
	for _, path := range v.writable {
		i.Binds = append(i.Binds, boundary.Bind{Path: path, Access: boundary.Writable})
	}
	for _, path := range []string{"/tmp", "/var/tmp"} {
		i.Binds = append(i.Binds, boundary.Bind{Path: path, From: w.path("tmp"), Access: boundary.Writable})
	}
	for _, path := range slices.Concat(env.Folders(), v.readable, v.secret) {
		if boundary.Contains(path, w.host.cfg.Data) {
			return i, fmt.Errorf("the folder %s of Python contains the agent's data folder; move one of them", path)
		}
		i.Binds = append(i.Binds, boundary.Bind{Path: path, Access: boundary.ReadOnly})
	}
	for _, path := range w.host.cfg.WorkPaths {
		i.Binds = append(i.Binds, boundary.Bind{Path: path, Access: boundary.ReadOnly, Optional: true})
	}
	i.Binds = append(i.Binds, w.devices()...)
	if err := os.MkdirAll(i.Root, 0o700); err != nil {
		return i, fmt.Errorf("create the folder of the work's root: %w", err)
	}
	return i, v.handOver(i)
}

// handOver makes the work's user the owner of its folders and lets it read the others. None of the work's processes
// is running.
func (v visible) handOver(i boundary.Isolation) error {
	if i.Kind != boundary.OwnUser {
		return nil
	}
	for _, path := range v.readable {
		if err := boundary.MakeReadable(path); err != nil {
			return err
		}
	}
	for _, path := range slices.Concat(v.writable, v.secret) {
		if err := boundary.Give(path, i.UID); err != nil {
			return err
		}
	}
	return nil
}

// sharedMemory returns the size of the work's /dev/shm, whose pages count towards the work's memory.
func (w *work) sharedMemory() int64 {
	if a := w.assignment.Work.Attempt; a != nil {
		return a.Limits.MemoryBytes
	}
	return w.assignment.Work.Engine.Limits.MemoryBytes
}

// user returns the user id of the work. The work keeps it until it is removed, and no other work has it meanwhile.
// Without users of their own, works run as the agent's user.
func (w *work) user() (int, error) {
	if kind, _ := w.host.Isolation(); kind != boundary.OwnUser {
		return os.Geteuid(), nil
	}
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	taken := w.host.takenUsers()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.assignment.User != 0 {
		return w.assignment.User, nil
	}
	id, err := w.host.cfg.WorkUsers.Pick(w.host.deps.Rand, taken)
	if err != nil {
		return 0, err
	}
	w.assignment.User = id
	return id, w.saveAssignment()
}

// takenUsers returns the user ids of works and builds. The caller holds h.mu.
func (h *Host) takenUsers() map[int]bool {
	taken := maps.Clone(h.lent)
	for _, w := range h.works {
		w.mu.Lock()
		taken[w.assignment.User] = true
		w.mu.Unlock()
	}
	return taken
}

// borrowUser returns a user id for a build. The returned function gives it back.
func (h *Host) borrowUser() (id int, giveBack func(), err error) {
	if h.kind != boundary.OwnUser {
		return os.Geteuid(), func() {}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if id, err = h.cfg.WorkUsers.Pick(h.deps.Rand, h.takenUsers()); err != nil {
		return 0, nil, err
	}
	h.lent[id] = true
	return id, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.lent, id)
	}, nil
}

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
	start := shim.Start{Path: s.Args[0], Args: s.Args, Env: s.Env, Dir: s.Dir, Log: filepath.Join(dir, "log"), Mark: filepath.Base(dir)}
	if on {
		id, giveBack, err := h.borrowUser()
		if err != nil {
			return "", err
		}
		defer giveBack()
		start.Isolation = h.buildIsolation(dir, id, s)
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

// endBuilds ends the steps that a killed agent has left. Their builds are repeated.
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

// own makes the user the owner of the folder, if works have users of their own.
func (h *Host) own(dir string, id int) error {
	if h.kind != boundary.OwnUser {
		return nil
	}
	return boundary.Give(dir, id)
}

func (h *Host) buildIsolation(dir string, id int, s pyenv.Step) boundary.Isolation {
	i := boundary.Isolation{Kind: h.kind, UID: id, Root: filepath.Join(dir, "root"), Home: s.Dir}
	i.Binds = []boundary.Bind{{Path: s.Dir, Access: boundary.Writable}, {Path: "/tmp", From: s.Dir, Access: boundary.Writable}}
	for _, path := range slices.Concat(s.Readable, h.cfg.WorkPaths) {
		if !boundary.Contains(path, h.cfg.Data) {
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
	case exit.Failure != "":
		return fmt.Errorf("start the build: %s", exit.Failure)
	case exit.Signal != 0:
		return fmt.Errorf("the build was killed by signal %d", exit.Signal)
	case exit.Code != 0:
		return fmt.Errorf("the build exited with status %d", exit.Code)
	}
	return nil
}

const gpuDevice = "/dev/nvidia"

// CountGPUs returns the number of NVIDIA devices of the machine.
func CountGPUs() int {
	found, _ := filepath.Glob(gpuDevice + "[0-9]*")
	return len(found)
}

// devices returns the devices of the work's GPUs, and what the driver's libraries need to use them.
func (w *work) devices() []boundary.Bind {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.assignment.GPUs) == 0 {
		return nil
	}
	// The libraries read the place of each device on the bus.
	binds := []boundary.Bind{{Path: "/sys", Access: boundary.ReadOnly}}
	for _, gpu := range w.assignment.GPUs {
		binds = append(binds, boundary.Bind{Path: gpuDevice + strconv.Itoa(gpu), Access: boundary.Device})
	}
	for _, name := range []string{"ctl", "-uvm", "-uvm-tools", "-modeset"} {
		binds = append(binds, boundary.Bind{Path: gpuDevice + name, Access: boundary.Device, Optional: true})
	}
	return binds
}

// takeGPUs assigns devices that no other running work uses. It returns their numbers in the format of
// CUDA_VISIBLE_DEVICES. An empty value hides all devices.
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
		for i := range CountGPUs() {
			if !slices.Contains(taken, i) {
				free = append(free, i)
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
	var numbers []string
	for n, gpu := range w.assignment.GPUs {
		if isolated {
			gpu = n // The driver numbers the devices that a process can open.
		}
		numbers = append(numbers, strconv.Itoa(gpu))
	}
	return strings.Join(numbers, ","), nil
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
