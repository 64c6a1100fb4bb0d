package objcache

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// stale is the age above which a partial download is treated as abandoned.
const stale = 24 * time.Hour

type kept struct {
	path string
	size int64
	used time.Time
}

// scanAgain is the time after which the folder is read again, to find abandoned downloads. Between two scans
// the total is never too low, because it includes each download. The folder is not read more often, because that takes
// seconds if it has very many objects, and each download waits meanwhile.
const scanAgain = 10 * time.Minute

// trim makes room for a new object of `need` bytes: it removes abandoned downloads and the least recently used objects.
// It returns the total size of the removed objects. Works have their own links and copies, so they do not lose files.
func (s *Store) trim(need int64) (freed int64) {
	if s.max <= 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if fresh := !s.scanned.IsZero() && now.Sub(s.scanned) < scanAgain; fresh && s.total+need <= s.max {
		s.total += need
		return 0
	}
	all := s.scan(now)
	s.total += need
	if s.total <= s.max {
		return 0
	}
	sort.Slice(all, func(i, j int) bool { return all[i].used.Before(all[j].used) })
	// Free more room than the new object needs, so that the next downloads need not read the folder again.
	least := s.max - s.max/16
	for _, k := range all {
		if s.total <= least {
			break
		}
		if os.Remove(k.path) == nil {
			s.total -= k.size
			freed += k.size
		}
	}
	return freed
}

// scan removes abandoned downloads, counts the cached objects and returns them. The caller holds s.mu.
func (s *Store) scan(now time.Time) []kept {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil
	}
	s.total, s.scanned = 0, now
	all := make([]kept, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		if strings.Contains(e.Name(), ".part-") {
			if now.Sub(info.ModTime()) > stale {
				_ = os.Remove(path)
			}
			continue
		}
		all = append(all, kept{path: path, size: info.Size(), used: info.ModTime()})
		s.total += info.Size()
	}
	return all
}
