package boundary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mode is the way in which limits are enforced. The node reports it in its inventory.
type Mode string

// The modes, the strictest first.
const (
	Cgroup2 Mode = "cgroup2"
	Cgroup1 Mode = "cgroup1"
	Rlimit  Mode = "rlimit"
)

// folder is the name of the group that contains the groups of all works.
const folder = "signalbox"

// controllers returns the cgroup controllers that enforce limits. In cgroup version 1, each controller has its own
// hierarchy.
func controllers() [3]string { return [...]string{"memory", "pids", "cpu"} }

// Enforcer creates plans for works. The plans use the mode that this machine supports.
type Enforcer struct {
	mode Mode
	// bases are the folders in which groups are created: a single folder, or one for each controller.
	bases []string
	// noGroups is why works have no cgroups, or nil if they have them.
	noGroups error
}

// Mode returns the way in which limits are enforced.
func (h Enforcer) Mode() Mode { return h.mode }

// NoGroups returns why works have no cgroups, or nil if they have them.
func (h Enforcer) NoGroups() error { return h.noGroups }

// Detect finds the best mode that the machine supports, by trying to create groups. root is the path
// /sys/fs/cgroup; own is the content of /proc/self/cgroup.
func Detect(root, own string) Enforcer {
	base, err2 := detectV2(root)
	if err2 == nil {
		return Enforcer{mode: Cgroup2, bases: []string{base}}
	}
	bases, err1 := detectV1(root, own)
	if err1 == nil {
		return Enforcer{mode: Cgroup1, bases: bases}
	}
	why := err1
	if _, err := os.Stat(filepath.Join(root, controllersFile)); err == nil {
		why = err2 // The machine has version 2.
	}
	return Enforcer{mode: Rlimit, noGroups: fmt.Errorf("the agent cannot create cgroups: %w; run it as root, with %s writable", why, root)}
}

// controllersFile is a file that only version 2 has.
const controllersFile = "cgroup.controllers"

func detectV2(root string) (string, error) {
	offered, err := os.ReadFile(filepath.Join(root, controllersFile))
	if err != nil {
		return "", fmt.Errorf("read the controllers: %w", err)
	}
	var enable []string
	for _, c := range controllers() {
		if !slices.Contains(strings.Fields(string(offered)), c) {
			return "", fmt.Errorf("%s has no controller %s", root, c)
		}
		enable = append(enable, "+"+c)
	}
	base := filepath.Join(root, folder)
	if err := os.MkdirAll(base, 0o755); err != nil { //nolint:gosec // kernel folder
		return "", fmt.Errorf("create the folder of works: %w", err)
	}
	for _, dir := range []string{root, base} {
		if err := write(filepath.Join(dir, "cgroup.subtree_control"), strings.Join(enable, " ")); err != nil {
			return "", fmt.Errorf("enable the controllers: %w", err)
		}
	}
	return base, tryGroup(base)
}

func detectV1(root, own string) ([]string, error) {
	var bases []string
	for _, c := range controllers() {
		base, err := v1Base(filepath.Join(root, c), ownGroup(own, c))
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	return bases, nil
}

// v1Base returns the folder for groups in one hierarchy. It prefers a folder in the agent's own group, so
// that works stay within the agent's limits.
func v1Base(mount, own string) (base string, err error) {
	for _, parent := range []string{filepath.Join(mount, own), mount} {
		if _, err = os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil {
			continue
		}
		base = filepath.Join(parent, folder)
		if err = os.MkdirAll(base, 0o755); err != nil { //nolint:gosec // kernel folder
			continue
		}
		if err = tryGroup(base); err == nil {
			return base, nil
		}
	}
	return "", fmt.Errorf("create the folder of works: %w", err)
}

// ownGroup returns this process's group in the hierarchy of a version 1 controller. The parameter own is the content of
// /proc/self/cgroup. If it does not list the controller, ownGroup returns /.
func ownGroup(own, controller string) string {
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2]
		}
	}
	return "/"
}

// tryGroup creates and removes a group in the folder base.
func tryGroup(base string) error {
	trial := filepath.Join(base, ".trial-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(trial, 0o755); err != nil { //nolint:gosec // kernel folder
		return fmt.Errorf("create a group: %w", err)
	}
	_, err := os.Stat(filepath.Join(trial, "cgroup.procs"))
	return errors.Join(err, os.Remove(trial))
}

func write(path, value string) error { return os.WriteFile(path, []byte(value), 0o644) } //nolint:gosec // kernel file

// forgotten is the age above which an empty group is treated as abandoned. A shim enters a group right after
// it has created the group.
const forgotten = 10 * time.Minute

// ofWork reports whether the name has the form of a work's group: the key of the work and a hash that identifies the
// agent's folder.
func ofWork(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*\.[0-9]+\.[0-9]+-[0-9a-f]{8}$`).MatchString(name)
}

// Clean removes groups of works that are older than forgotten and contain no process. It also removes such groups of
// other agents on the machine. A group remains if its shim was killed and no agent has removed the group since. The
// kernel does not remove a group that contains a process.
func (h Enforcer) Clean(now time.Time) {
	for _, base := range h.bases {
		entries, err := os.ReadDir(base)
		if err != nil {
			continue // without the list there is nothing to clean
		}
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && e.IsDir() && ofWork(e.Name()) && now.Sub(info.ModTime()) > forgotten {
				_ = os.Remove(filepath.Join(base, e.Name()))
			}
		}
	}
}

// Create creates the groups and writes their settings. It may be called again for the same groups.
func (p Plan) Create() error {
	for _, group := range p.Groups {
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // kernel folder
			return fmt.Errorf("create the cgroup: %w", err)
		}
	}
	for _, s := range p.Settings {
		if err := write(s.Path, s.Value); err != nil && (!s.Optional || !missing(err)) {
			return fmt.Errorf("set %s: %w", filepath.Base(s.Path), err)
		}
	}
	return nil
}

// Enter moves the calling process into the groups of the plan and sets the process's rlimit. Future children of the
// process inherit both.
func (p Plan) Enter() error {
	for _, group := range p.Groups {
		if err := write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
			return fmt.Errorf("enter the cgroup: %w", err)
		}
	}
	return p.setRlimits()
}

func (p Plan) setRlimits() error {
	if p.Data > 0 {
		bound := unix.Rlimit{Cur: uint64(p.Data), Max: uint64(p.Data)}
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &bound); err != nil {
			return fmt.Errorf("set the memory limit: %w", err)
		}
	}
	return nil
}

// Open opens the files that Join needs to enter the groups.
func (p Plan) Open() ([]*os.File, error) {
	var files []*os.File
	for _, group := range p.Groups {
		f, err := os.OpenFile(filepath.Join(group, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, fmt.Errorf("enter the cgroup: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// Join is like Enter for a process that cannot see the groups' folders: it enters through the files that Open returned,
// and closes them. If the plan limits the processes of the work's user, Join also sets that limit.
func (p Plan) Join(files []*os.File) error {
	for _, f := range files {
		// 0 means the process that writes.
		if _, err := f.WriteString("0"); err != nil {
			return fmt.Errorf("enter the cgroup: %w", err)
		}
		_ = f.Close()
	}
	if p.Processes > 0 {
		bound := unix.Rlimit{Cur: uint64(p.Processes), Max: uint64(p.Processes)}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &bound); err != nil {
			return fmt.Errorf("set the limit of processes: %w", err)
		}
	}
	return p.setRlimits()
}

// Kill sends SIGKILL to all processes in the groups and reports whether there were any. The caller calls Kill again
// until it returns false, because a process may fork while it is killed.
func (p Plan) Kill() bool {
	found := false
	for _, group := range p.Groups {
		pids := members(group)
		if len(pids) == 0 {
			continue
		}
		found = true
		if write(filepath.Join(group, "cgroup.kill"), "1") == nil {
			continue
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return found
}

// OOMKilled reports whether the kernel killed a process in the groups because of the memory limit.
func (p Plan) OOMKilled() bool {
	for _, group := range p.Groups {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			raw, err := os.ReadFile(filepath.Join(group, file))
			if err == nil && counted(string(raw), "oom_kill") {
				return true
			}
		}
	}
	return false
}

// Remove removes the groups. It fails while a group contains a process.
func (p Plan) Remove() error {
	var errs []error
	for _, group := range p.Groups {
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

func members(group string) []int {
	raw, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(raw)) {
		// 0 means a process outside this pid namespace.
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func counted(text, name string) bool {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			return fields[1] != "0"
		}
	}
	return false
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) ||
		errors.Is(err, unix.EOPNOTSUPP)
}
