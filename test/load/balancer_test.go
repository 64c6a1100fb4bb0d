package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// pollBackends is how often the balancer checks which replicas are ready.
	pollBackends = 50 * time.Millisecond
	// callLimit is how long a call may take.
	callLimit = 30 * time.Second
	// attempts is how often a call is sent that was refused.
	attempts = 4
)

// backend is a replica behind the balancer.
type backend struct {
	process     *testenv.Process
	addr, admin string
	ready       atomic.Bool
	open        atomic.Int64 // calls in flight
	failed      atomic.Int64 // calls that were sent and have no response
	ended       atomic.Bool  // the process was killed, and has ended
	late        atomic.Int64 // those of the failed calls that were sent after the process had ended
}

// check finds out whether the replica is ready.
func (r *backend) check(ctx context.Context, c *http.Client) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+"/readyz", nil)
	if err != nil {
		return
	}
	resp, err := c.Do(req)
	if err != nil {
		r.ready.Store(false)
		return
	}
	_ = resp.Body.Close()
	r.ready.Store(resp.StatusCode == http.StatusOK)
}

// balancer sends each call to the replica with the fewest open calls, as a load balancer with health checks does: only to
// those whose /readyz returns 200. If it took turns, each caller would soon wait for a replica whose quota is used up for
// the moment, while the others have nothing to do. It sends a call again, to another replica, if no connection could be
// opened or the call was refused with 503. It is a part of the load generator, because a program of its own would need more
// CPU time.
type balancer struct {
	used   atomic.Pointer[[]*backend]
	next   atomic.Uint64
	active crowd // the callers that send calls

	sent     func(caller, number int) // is called for each call with the status 200
	ok       atomic.Int64
	repeated atomic.Int64 // refused and sent again
	refused  atomic.Int64 // refused by each replica that was tried
	wrong    atomic.Pointer[string]
}

// use sets the replicas.
func (l *balancer) use(replicas ...*backend) { l.used.Store(&replicas) }

// watch checks the replicas until ctx ends.
func (l *balancer) watch(ctx context.Context) {
	c := &http.Client{Timeout: time.Second}
	tick := time.NewTicker(pollBackends)
	defer tick.Stop()
	for {
		for _, r := range *l.used.Load() {
			r.check(ctx, c)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pick returns the replica with the fewest open calls of those that are ready, or nil. Of several such replicas it returns
// each in turn.
func (l *balancer) pick() (best *backend) {
	all, first := *l.used.Load(), l.next.Add(1)
	for i := range all {
		r := all[(first+uint64(i))%uint64(len(all))]
		if r.ready.Load() && (best == nil || r.open.Load() < best.open.Load()) {
			best = r
		}
	}
	return best
}

// start starts callers that each send one call after the other. The function request returns the bytes of a call. The
// function end stops the callers when their calls have ended.
func (l *balancer) start(ctx context.Context, callers int, request func(caller, number int) []byte) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.active.resize(callers)
	var running sync.WaitGroup
	running.Go(func() { l.watch(ctx) })
	for i := range callers {
		running.Go(func() {
			c := &caller{balancer: l, conns: map[*backend]*link{}}
			defer c.close()
			for n := 1; l.active.await(ctx, i); n++ {
				if c.call(request(i, n)) && l.sent != nil {
					l.sent(i, n)
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// caller sends one call at a time and keeps a connection to each replica.
type caller struct {
	*balancer
	conns map[*backend]*link
}

func (c *caller) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// call sends a call and reports whether its status is 200.
func (c *caller) call(request []byte) bool {
	for range attempts {
		to := c.pick()
		if to == nil {
			time.Sleep(pollBackends)
			continue
		}
		conn, err := c.connect(to)
		if err != nil {
			to.ready.Store(false) // until the next check
			c.repeated.Add(1)
			continue
		}
		ended := to.ended.Load()
		to.open.Add(1)
		status, err := conn.exchange(request)
		to.open.Add(-1)
		if err != nil {
			to.failed.Add(1)
			if ended {
				to.late.Add(1)
			}
			to.ready.Store(false) // until the next check: a process that was killed still accepts connections for a moment
			_ = conn.Close()
			delete(c.conns, to)
			return false
		}
		switch status {
		case http.StatusOK:
			c.ok.Add(1)
			return true
		case http.StatusServiceUnavailable:
			c.repeated.Add(1)
			_ = conn.Close()
			delete(c.conns, to)
		default:
			text := fmt.Sprint("status ", status)
			c.wrong.Store(&text)
			return false
		}
	}
	c.refused.Add(1)
	return false
}

// connect returns the connection to a replica. It opens a new one if the replica has closed the last one.
func (c *caller) connect(to *backend) (*link, error) {
	if conn := c.conns[to]; conn != nil {
		if conn.alive() {
			return conn, nil
		}
		_ = conn.Close()
		delete(c.conns, to)
	}
	raw, err := net.DialTimeout("tcp", to.addr, callLimit)
	if err != nil {
		return nil, err
	}
	conn := newLink(raw)
	c.conns[to] = conn
	return conn, nil
}

// rate returns the successful calls a second during the given time, after the replicas have had time to settle.
func (l *balancer) rate(b *testing.B, settle, period time.Duration) float64 {
	b.Helper()
	time.Sleep(settle)
	before, began := l.ok.Load(), time.Now()
	time.Sleep(period)
	return float64(l.ok.Load()-before) / time.Since(began).Seconds()
}
