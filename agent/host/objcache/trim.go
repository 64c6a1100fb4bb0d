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

// trim makes room for a new object of `need` bytes: it removes abandoned downloads and the least recently
// used objects. Works have their own links and copies, so they do not lose files.
func (s *Store) trim(need int64) {
	entries, err := os.ReadDir(s.dir)
	if err != nil || s.max <= 0 {
		return
	}
	var all []kept
	total := need
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		if strings.Contains(e.Name(), ".part-") {
			if s.clock.Now().Sub(info.ModTime()) > stale {
				_ = os.Remove(path)
			}
			continue
		}
		all = append(all, kept{path: path, size: info.Size(), used: info.ModTime()})
		total += info.Size()
	}
	sort.Slice(all, func(i, j int) bool { return all[i].used.Before(all[j].used) })
	for _, k := range all {
		if total <= s.max {
			return
		}
		if os.Remove(k.path) == nil {
			total -= k.size
		}
	}
}
