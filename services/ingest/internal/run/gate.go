package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The maximum numbers of concurrent calls within a gate: in total, per reader, for all searches together, and for all
// readers of share links together, because these readers are anonymous. Each call occupies memory and a connection
// while it reads, so charts and searches share one gate.
const (
	maxReads       = 4
	maxOfReader    = 2
	maxSearches    = 2
	maxSharedReads = 1
)

// The maximum numbers of waiting calls of one reader, and how long a call waits.
const (
	maxWaiting       = 64
	maxSharedWaiting = 4
	readWait         = 20 * time.Second
)

// Gate admits calls that read much of a run's data, within the maximum numbers above. It prefers the readers with the
// fewest calls in progress, and among these it admits calls in the order of their arrival. So readers with many waiting
// calls delay a reader with one call by at most one call.
type Gate struct {
	wait time.Duration

	mu       sync.Mutex
	reads    int
	searches int
	shared   int
	active   map[Reader]int // number of reads by reader; a reader without reads has no entry
	waiting  []*ticket
}

// ticket is a waiting call.
type ticket struct {
	reader   Reader
	admitted chan struct{} // closed when the call may read
}

// NewGate returns a gate.
func NewGate() *Gate {
	return &Gate{wait: readWait, active: map[Reader]int{}}
}

// Load returns how many calls read and how many wait.
func (g *Gate) Load() (reading, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reads, len(g.waiting)
}

// Enter waits until a call of the given reader may read. The caller must call leave afterwards. Enter returns an error
// of the kind Unavailable if too many calls of the reader wait, or if the call has waited for too long.
func (g *Gate) Enter(ctx context.Context, r Reader) (leave func(), err error) {
	t, err := g.queue(r)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	select {
	case <-t.admitted:
	case <-waiting.Done():
		switch {
		case !g.cancel(t): // the call was admitted at the same time
		case ctx.Err() != nil:
			return nil, fault.FromContext(ctx.Err())
		default:
			return nil, r.busy()
		}
	}
	return func() { g.leave(r) }, nil
}

func (g *Gate) queue(r Reader) (*ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most, waiting := maxWaiting, 0
	if r.shared {
		most = maxSharedWaiting
	}
	for _, t := range g.waiting {
		if t.reader == r {
			waiting++
		}
	}
	if waiting >= most {
		return nil, r.busy()
	}
	t := &ticket{reader: r, admitted: make(chan struct{})}
	g.waiting = append(g.waiting, t)
	g.admit()
	return t, nil
}

// admit admits all waiting calls that may read now. The caller holds the lock.
func (g *Gate) admit() {
	for {
		next := -1
		for i, t := range g.waiting {
			if g.fits(t.reader) && (next < 0 || g.active[t.reader] < g.active[g.waiting[next].reader]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		t := g.waiting[next]
		g.waiting = slices.Delete(g.waiting, next, next+1)
		g.count(t.reader, 1)
		close(t.admitted)
	}
}

// fits reports whether one more call of the reader may read. The caller holds the lock.
func (g *Gate) fits(r Reader) bool {
	return g.reads < maxReads && g.active[r] < maxOfReader && (!r.searches || g.searches < maxSearches) && (!r.shared || g.shared < maxSharedReads)
}

// count adds n calls in progress of the reader. The caller holds the lock.
func (g *Gate) count(r Reader, n int) {
	g.reads += n
	if r.searches {
		g.searches += n
	}
	if r.shared {
		g.shared += n
	}
	if g.active[r] += n; g.active[r] == 0 {
		delete(g.active, r)
	}
}

// cancel removes a waiting call. It returns false if the call has been admitted meanwhile.
func (g *Gate) cancel(t *ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.waiting, t)
	if at < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, at, at+1)
	return true
}

func (g *Gate) leave(r Reader) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count(r, -1)
	g.admit()
}
