package boundary

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
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

// controllers returns the controllers that limits need. In cgroup version 1 each controller has its own
// hierarchy.
func controllers() [3]string { return [...]string{"memory", "pids", "cpu"} }

// Enforcer creates plans for works. The plans use the mode that this machine supports.
type Enforcer struct {
	mode Mode
	// bases are the folders in which groups are created: a single folder, or one for each controller.
	bases []string
}

// Mode returns the way in which limits are enforced.
func (h Enforcer) Mode() Mode { return h.mode }

// Detect finds the best mode that the machine supports, by trying to create groups. root is the path
// /sys/fs/cgroup; own is the content of /proc/self/cgroup.
func Detect(root, own string) Enforcer {
	if base, ok := detectV2(root); ok {
		return Enforcer{mode: Cgroup2, bases: []string{base}}
	}
	if bases, ok := detectV1(root, own); ok {
		return Enforcer{mode: Cgroup1, bases: bases}
	}
	return Enforcer{mode: Rlimit}
}

func detectV2(root string) (string, bool) {
	offered, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return "", false
	}
	var enable []string
	for _, c := range controllers() {
		if !slices.Contains(strings.Fields(string(offered)), c) {
			return "", false
		}
		enable = append(enable, "+"+c)
	}
	base := filepath.Join(root, folder)
	if os.MkdirAll(base, 0o755) != nil { //nolint:gosec // kernel folder
		return "", false
	}
	for _, dir := range []string{root, base} {
		if write(filepath.Join(dir, "cgroup.subtree_control"), strings.Join(enable, " ")) != nil {
			return "", false
		}
	}
	return base, canMake(base)
}

func detectV1(root, own string) ([]string, bool) {
	var bases []string
	for _, c := range controllers() {
		base, ok := v1Base(filepath.Join(root, c), ownGroup(own, c))
		if !ok {
			return nil, false
		}
		bases = append(bases, base)
	}
	return bases, true
}

// v1Base returns the folder for groups in one hierarchy. It prefers a folder in the agent's own group, so
// that works stay within the agent's limits.
func v1Base(mount, own string) (string, bool) {
	for _, parent := range []string{filepath.Join(mount, own), mount} {
		if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil {
			continue
		}
		base := filepath.Join(parent, folder)
		if os.MkdirAll(base, 0o755) == nil && canMake(base) { //nolint:gosec // kernel folder
			return base, true
		}
	}
	return "", false
}

// ownGroup returns this process's group in the hierarchy of a version 1 controller, or / if own does not list
// the controller.
func ownGroup(own, controller string) string {
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2]
		}
	}
	return "/"
}

func canMake(base string) bool {
	trial := filepath.Join(base, ".trial-"+strconv.Itoa(os.Getpid()))
	if os.Mkdir(trial, 0o755) != nil { //nolint:gosec // kernel folder
		return false
	}
	_, err := os.Stat(filepath.Join(trial, "cgroup.procs"))
	return os.Remove(trial) == nil && err == nil
}

func write(path, value string) error { return os.WriteFile(path, []byte(value), 0o644) } //nolint:gosec // kernel file

// forgotten is the age above which an empty group is treated as abandoned. A shim enters a group right after
// it has created the group.
const forgotten = 10 * time.Minute

// ofWork reports whether name is the name of a work's group: the work's key and a hash that identifies the
// agent's folder.
func ofWork(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*\.[0-9]+\.[0-9]+-[0-9a-f]{8}$`).MatchString(name)
}

// Clean removes the groups of works that are older than forgotten and contain no process, including those of
// other agents on the machine. Such a group remains if its shim was killed and no agent has removed it
// since. The kernel does not remove a group that contains a process.
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
