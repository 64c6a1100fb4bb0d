package limits

import (
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// forgotten is how old an empty group must be before it is taken for one that nobody will enter any more:
// a shim enters its group as soon as it has made it.
const forgotten = 10 * time.Minute

// ofWork is how the groups of works are named: a work's key, and the folder of its agent.
func ofWork(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*\.[0-9]+\.[0-9]+-[0-9a-f]{8}$`).MatchString(name)
}

// Clean removes the groups of works that ended without anybody to remove them: their shim was killed, and
// their agent never came back or has lost its folder. It looks at those of all agents of the machine. The
// kernel itself refuses to remove a group that somebody is in.
func (h Holder) Clean(now time.Time) {
	for _, base := range h.bases {
		entries, err := os.ReadDir(base)
		if err != nil {
			continue // it is about tidiness only
		}
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && e.IsDir() && ofWork(e.Name()) && now.Sub(info.ModTime()) > forgotten {
				_ = os.Remove(filepath.Join(base, e.Name()))
			}
		}
	}
}
