package limits

import (
	"os"
	"path/filepath"
	"regexp"
	"time"
)

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
