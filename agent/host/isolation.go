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
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// trialTimeout limits the time that the trial run inside a boundary may take.
const trialTimeout = 30 * time.Second

// Isolation returns how works are isolated on this machine. If they are not isolated, the error contains the reason.
// Isolation waits until Run has tested the boundary.
func (h *Host) Isolation() (kind boundary.Kind, why error) {
	<-h.tried
	return h.kind, h.notIsolated
}

// tryIsolation determines and logs how works are isolated. To do so, it runs the program `true` inside a boundary.
func (h *Host) tryIsolation(ctx context.Context) {
	defer close(h.tried)
	h.kind, h.notIsolated = boundary.None, errors.New("SERVICE_AGENT_ISOLATION is set to none")
	h.net, h.notRestricted = boundary.Open, errors.New("works are not isolated")
	h.notLimited = h.notRestricted
	if h.cfg.Isolate {
		h.tryBoundary(ctx)
		if h.notIsolated != nil && ctx.Err() != nil {
			h.cutOff = fmt.Errorf("the agent stops: %w", h.notIsolated)
			return
		}
	}
	h.logBoundary(ctx)
}

// tryBoundary tries a boundary with all its parts. Only if that fails, it tries the parts one by one, to find out which of
// them this machine supports.
func (h *Host) tryBoundary(ctx context.Context) {
	dir, trials := h.trialDir(), 0
	defer func() { _ = os.RemoveAll(dir) }()
	kind, user := boundary.UserNamespace, os.Geteuid()
	if user == 0 {
		kind, user = boundary.OwnUser, h.cfg.WorkUsers.First
	}
	try := func(n boundary.Network, withDisk bool) error {
		trials++ // Each trial has a folder of its own, because a shim that cannot be ended may still use the last one.
		dir := filepath.Join(dir, strconv.Itoa(trials))
		i := boundary.Isolation{Kind: kind, UID: user, Root: filepath.Join(dir, "root"), Home: "/", Network: n}
		i.Ports = boundary.Ports{Reserved: []boundary.PortRange{enginePorts()}, ChosenOnly: true}
		if withDisk {
			i.Disks = []boundary.Disk{{Image: filepath.Join(dir, "disk.img"), Dir: filepath.Join(dir, "disk"), Purpose: boundary.Scratch}}
		}
		return h.try(ctx, dir, i)
	}
	network, noNetwork := h.trialNetwork(kind)
	noDisk := h.findDiskProgram(kind)
	if try(network, noDisk == nil) != nil {
		if h.notIsolated = try(boundary.Network{}, false); h.notIsolated != nil {
			h.mkfs = ""
			return
		}
		if noNetwork == nil {
			noNetwork = try(network, false)
		}
		if noDisk == nil {
			noDisk = try(boundary.Network{}, true)
		}
	}
	h.kind, h.notIsolated = kind, nil
	if h.notRestricted = noNetwork; noNetwork == nil {
		h.net = network.Kind
	}
	if h.notLimited = noDisk; noDisk != nil {
		h.mkfs = ""
	}
}

// logBoundary logs how works are isolated, how their network is restricted, how their limits are enforced, and what is
// missing.
func (h *Host) logBoundary(ctx context.Context) {
	r := h.report()
	if h.notIsolated != nil {
		h.deps.Log.WarnContext(ctx, "works are not isolated", "reason", r.Problem, "refused", r.Required,
			"network", string(r.Network), "limits", h.Limits(), "unlimited", r.Unlimited)
		return
	}
	h.deps.Log.InfoContext(ctx, "works are isolated", "by", string(r.Kind), "network", string(r.Network), "limits", h.Limits(), "unlimited", r.Unlimited)
	messages := map[string]string{
		"cpu":     "the processors of works are not limited",
		"disk":    "works have no disks of their own; attempts are stopped when they have used too much, engines are not limited",
		"memory":  "the memory of works is limited for single processes only",
		"network": "the network of works is not restricted",
		"ports":   "works can listen on ports of other programs",
		"sockets": "works can reach abstract Unix sockets of other works",

		"several_nodes": "the network of jobs on several nodes is not restricted",
	}
	for _, resource := range r.Unlimited {
		h.deps.Log.WarnContext(ctx, messages[resource], "reason", r.Reasons[resource])
	}
}

// trialDir returns the folder for a trial and removes the folders of earlier agents' trials. The name is new each
// time, because the shim of a killed agent's trial may still write to the folder of that trial.
func (h *Host) trialDir() string {
	folder := filepath.Join(h.cfg.Data, "trials")
	_ = os.RemoveAll(folder) // A shim that still writes may prevent this. The next agent removes the rest.
	return filepath.Join(folder, strconv.FormatInt(h.deps.Clock.Now().UnixNano(), 10))
}

// try runs the program `true` inside the boundary. It returns after the program has ended and the folder dir is
// removed.
func (h *Host) try(ctx context.Context, dir string, i boundary.Isolation) error {
	if err := os.MkdirAll(i.Root, 0o700); err != nil {
		return fmt.Errorf("create the folder of the boundary's trial: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, d := range i.Disks {
		if err := d.Create(ctx, h.mkfs, trialDisk); err != nil {
			return err
		}
	}
	err := h.control.Launch(dir, shim.Start{
		Path: "true", Args: []string{"true"}, Env: []string{"PATH=" + systemPath}, Dir: "/", Log: filepath.Join(dir, "log"),
		Isolation: i, Mark: "trial-" + strconv.Itoa(os.Getpid()),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = h.control.Stop(dir, 0) })
	defer stop()
	ending, end := context.WithTimeout(context.WithoutCancel(ctx), 2*trialTimeout)
	defer end()
	exit, found, err := h.control.Await(ending, dir)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("try the boundary: %w", ctx.Err())
	case err != nil:
		return fmt.Errorf("try the boundary: %w", err)
	case !found || exit.Failure != "" || exit.Code != 0:
		return fmt.Errorf("try the boundary: exit status %d %s", exit.Code, exit.Failure)
	}
	return nil
}

// trialDisk is the size of the disk in a trial.
const trialDisk = 4 << 20

// findDiskProgram finds the program that creates the disks of works. It returns an error if works have no disks of their
// own: only root can mount them.
func (h *Host) findDiskProgram(kind boundary.Kind) (err error) {
	if kind != boundary.OwnUser {
		return errors.New("the agent does not run as root")
	}
	h.mkfs, err = findProgram(h.cfg.Environ, "mkfs.ext4")
	return err
}

// isolated reports whether works run inside a boundary. It returns an error if isolation is required but impossible.
func (h *Host) isolated() (bool, error) {
	kind, why := h.Isolation()
	if kind == boundary.None && h.cfg.Isolate {
		return false, ended(executor.ReasonStart, fmt.Errorf(
			"this node cannot isolate works (%w); run the agent as root or allow user namespaces, see docs/reference/security.md", why))
	}
	return kind != boundary.None, nil
}

// visible lists the files and folders that a work sees besides its environment and its folders `work` and `tmp`.
type visible struct {
	readable []string
	// writable are the names of the work's own writable folders. A disk image may contain these folders.
	writable []string
	// rank is the rank of a batched attempt whose folders are meant.
	rank int
	// secret are files that only the work's user may read, even if other users can enter the work's folder.
	secret []string
}

// isolation returns the boundary for one start of the work. The parameter run is the folder of the shim for that start.
func (w *work) isolation(ctx context.Context, run string, env pyenv.Environment, v visible) (i boundary.Isolation, err error) {
	on, err := w.host.isolated()
	if err == nil && !on && w.closedNetwork() {
		_, why := w.host.Network()
		err = errOpenNetwork(why)
	}
	if err == nil {
		err = w.keepIsolated(on)
	}
	if err != nil || !on {
		return i, err
	}
	i.Kind, _ = w.host.Isolation()
	if i.UID, err = w.user(); err != nil {
		return i, err
	}
	if i.Network, err = w.awaitNetwork(ctx); err != nil {
		return i, err
	}
	if i.Ports, err = w.host.ports(i); err != nil {
		return i, err
	}
	i.Root, i.Home = filepath.Join(run, "root"), w.folder(v.rank, "work")
	i.SharedMemory = w.sharedMemory(v.rank)
	v.writable = append([]string{"work", "tmp"}, v.writable...)
	i.Disks = w.disks(v.writable)
	for _, name := range v.writable {
		i.Binds = append(i.Binds, boundary.Bind{Path: w.folder(v.rank, name), From: w.mounted(v.rank, name), Access: boundary.Writable})
	}
	for _, path := range []string{"/tmp", "/var/tmp"} {
		i.Binds = append(i.Binds, boundary.Bind{Path: path, From: w.mounted(v.rank, "tmp"), Access: boundary.Writable})
	}
	for _, path := range slices.Concat(env.Folders(), v.readable, v.secret) {
		if dir := w.host.uncovered(path); dir != "" {
			return i, fmt.Errorf("the folder %s of Python contains the data folder %s; move one of them", path, dir)
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
	return i, w.handOver(i, v)
}

// keepIsolated records that the work runs inside a boundary if on is set. It returns an error if the work has run inside
// one before but would now run without: the agent was started again with other settings.
func (w *work) keepIsolated(on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case on == w.assignment.Isolated:
		return nil
	case !on:
		return ended(executor.ReasonStart, errors.New("the work was started inside a boundary and is not continued without one; "+
			"its agent now has SERVICE_AGENT_ISOLATION=none"))
	}
	w.assignment.Isolated = true
	return w.saveAssignment()
}

// uncovered returns a private folder inside the path, or "" if there is none.
// A work that sees the path would also see the private folder.
func (h *Host) uncovered(path string) string {
	for _, dir := range append([]string{h.cfg.Data}, h.cfg.Private...) {
		if boundary.Uncovers(path, dir) {
			return dir
		}
	}
	return ""
}

// handOver makes the work's user the owner of the writable folders and the secret files, and lets that user read the
// readable ones. It must be called while none of the work's processes is running.
func (w *work) handOver(i boundary.Isolation, v visible) error {
	if i.Kind != boundary.OwnUser {
		return nil
	}
	for _, path := range v.readable {
		if err := boundary.MakeReadable(path); err != nil {
			return err
		}
	}
	for _, path := range v.secret {
		if err := boundary.Give(path, i.UID); err != nil {
			return err
		}
	}
	for _, name := range v.writable {
		if err := w.inFolder(v.rank, name, func(dir string) error { return boundary.Give(dir, i.UID) }); err != nil {
			return err
		}
	}
	return nil
}

// sharedMemory returns the size of the /dev/shm of a rank of the work.
func (w *work) sharedMemory(rank int) int64 {
	if w.batched() {
		return w.part(rank).MemoryBytes
	}
	if a := w.assignment.Work.Attempt; a != nil {
		return w.host.sharedMemory(a.Limits)
	}
	return w.host.sharedMemory(w.assignment.Work.Engine.Limits)
}

// sharedMemory returns the size of /dev/shm for a work with the given limits. It is the memory limit of the work, or
// the default limit if the work requests none. In a cgroup, the pages of /dev/shm count towards the work's memory.
func (h *Host) sharedMemory(l executor.Limits) int64 { return h.limits(l).MemoryBytes }

// user returns the user id of the work. The work keeps the id until the work is removed, and no other work has the id
// meanwhile. If works have no users of their own, user returns the agent's user id.
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

// borrowUser returns a user id for a build. The returned function gives the id back.
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
