package rpc

import (
	"sync"
	"sync/atomic"
)

// maxResting is the maximum number of idle workers that a server keeps.
const maxResting = 32

// directCalls runs the direct calls that a server handles. It runs them on worker goroutines that it reuses: the stack
// of a new goroutine is too small for most handlers, and is copied each time it grows.
type directCalls struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed when the server accepts no more calls and none is running

	tasks   chan func() // received by resting workers; closed together with idle
	resting atomic.Int32
	workers sync.WaitGroup
}

func newDirectCalls() *directCalls {
	return &directCalls{idle: make(chan struct{}), tasks: make(chan func())}
}

// enter counts a call until leave is called. It returns false if the call must use a connection.
func (c *directCalls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.running >= maxStreams {
		return false
	}
	c.running++
	return true
}

// start runs the task of a call on a resting worker or on a new one. enter must have counted the call.
func (c *directCalls) start(task func()) {
	select {
	case c.tasks <- task:
	default:
		c.workers.Go(func() { c.work(task) })
	}
}

// work runs a task. It then rests and runs each task that it receives, until tasks is closed. It returns early if
// maxResting other workers rest.
func (c *directCalls) work(task func()) {
	for more := true; more; {
		task()
		if c.resting.Add(1) > maxResting {
			c.resting.Add(-1)
			return
		}
		task, more = <-c.tasks
		c.resting.Add(-1)
	}
}

func (c *directCalls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.endIfIdle()
}

// close makes enter return false from now on.
func (c *directCalls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.endIfIdle()
	}
}

// endIfIdle ends the workers after the last call. No task can follow, because start is called only for counted calls.
func (c *directCalls) endIfIdle() {
	if c.closed && c.running == 0 {
		close(c.idle)
		close(c.tasks)
	}
}

// wait returns when close has been called and the last call and all workers have ended.
func (c *directCalls) wait() {
	<-c.idle
	c.workers.Wait()
}
