package metric

import (
	"maps"
	"slices"
	"sync"
)

// Keys caches the metric keys of runs that report, so that most requests need not load them.
type Keys struct {
	mu   sync.Mutex
	runs map[string]*dictionary
}

// NewKeys returns an empty cache.
func NewKeys() *Keys { return &Keys{runs: map[string]*dictionary{}} }

// dictionary holds the keys of a run. The key with id i is names[i-1].
type dictionary struct {
	names []string
	ids   map[string]int32
}

func newDictionary() *dictionary { return &dictionary{ids: map[string]int32{}} }

func (d *dictionary) add(names []string) {
	for _, name := range names {
		d.names = append(d.names, name)
		d.ids[name] = int32(len(d.names))
	}
}

// maxRemembered is the maximum number of runs in the cache.
const maxRemembered = 1024

// get returns a copy of the run's dictionary, which the caller may change. The copy is empty if the run is not in the
// cache.
func (k *Keys) get(runID string) *dictionary {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.runs[runID]
	if d == nil {
		return newDictionary()
	}
	return &dictionary{names: slices.Clone(d.names), ids: maps.Clone(d.ids)}
}

func (k *Keys) put(runID string, d *dictionary) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.runs) >= maxRemembered && k.runs[runID] == nil {
		for other := range k.runs { // any run may be removed: its keys are loaded again at its next report
			delete(k.runs, other)
			break
		}
	}
	k.runs[runID] = d
}
