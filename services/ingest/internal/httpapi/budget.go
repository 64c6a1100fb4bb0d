package httpapi

import (
	"sync"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// maxInFlight is the maximum total size in bytes of all bodies that are being read or stored. maxOfRun is the maximum
	// for the bodies of one run.
	maxInFlight = 128 << 20
	maxOfRun    = maxInFlight / 8
)

// budget bounds the memory that bodies occupy. In its zero value, no memory is reserved.
type budget struct {
	mu    sync.Mutex
	total int64
	runs  map[string]int64 // reserved bytes by run; a run without bodies has no entry
}

// reserve reserves memory for a body of a run, until release is called with the same arguments. It returns an
// Unavailable fault if the body exceeds what is left, in total or for the run.
func (b *budget) reserve(runID string, size int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs[runID]+size > maxOfRun {
		return fault.New(fault.Unavailable, "ingest_busy", "too many reports of this run are being received; try again later")
	}
	if b.total+size > maxInFlight {
		return fault.New(fault.Unavailable, "ingest_busy", "too many reports are being stored; try again later")
	}
	if b.runs == nil {
		b.runs = map[string]int64{}
	}
	b.runs[runID] += size
	b.total += size
	return nil
}

func (b *budget) release(runID string, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= size
	if b.runs[runID] -= size; b.runs[runID] == 0 {
		delete(b.runs, runID)
	}
}
