package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
)

const (
	// callEvery is the interval at which calls start: 50 per second.
	callEvery = 20 * time.Millisecond
	// stopGrace is how long a stopping process waits for its open calls: the default of SERVICE_STOP_GRACE.
	stopGrace = 8 * time.Second
	// mostCalls is the maximum number of open calls.
	mostCalls = 16
)

// load calls a deployment all the time. Each call must give the expected response or fail as if a process were down.
// Like a load balancer, load repeats a refused call at the next address.
type load struct {
	l                  *e2eflow.Loop
	urls               []string
	question, expected string

	mu        sync.Mutex
	next      int
	succeeded int
	refused   int // calls that every address refused
	cut       []cutCall
	wrong     []string
}

// cutCall is a call that was sent but got no response.
type cutCall struct {
	took time.Duration
	err  string
}

// withinGrace returns those cut calls that were shorter than the grace period. A planned stop must not cut them.
func withinGrace(cut []cutCall) []cutCall {
	return slices.DeleteFunc(cut, func(c cutCall) bool { return c.took >= stopGrace })
}

// start starts the calls. The returned function ends them.
func (d *load) start(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		open := make(chan struct{}, mostCalls)
		tick := time.NewTicker(callEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case open <- struct{}{}:
				running.Go(func() {
					d.call(ctx)
					<-open
				})
			default: // skip this call, because mostCalls calls are open
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func (d *load) call(ctx context.Context) {
	d.mu.Lock()
	first := d.next
	d.next++
	d.mu.Unlock()
	var text string
	var err error
	var began time.Time
	for n := range d.urls {
		began = time.Now()
		c := client.New(d.urls[(first+n)%len(d.urls)], nil).With(d.l.Token)
		if text, err = c.Chat(ctx, d.l.Deployment.ID, d.question); err == nil || !refused(err) {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil && text == d.expected:
		d.succeeded++
	case err == nil:
		d.wrong = append(d.wrong, fmt.Sprintf("%q instead of %q", text, d.expected))
	case refused(err):
		d.refused++
	case hasResponse(err):
		d.wrong = append(d.wrong, err.Error())
	default:
		d.cut = append(d.cut, cutCall{time.Since(began), err.Error()})
	}
}

// refused reports whether a call was not sent, or failed with a status that lets the client repeat it.
func refused(err error) bool {
	if failed, ok := errors.AsType[*client.Error](err); ok {
		return slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, failed.Status)
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func hasResponse(err error) bool {
	_, ok := errors.AsType[*client.Error](err)
	return ok
}

func (d *load) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.succeeded
}

// cuts returns the calls without a response.
func (d *load) cuts() []cutCall {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.cut)
}

func (d *load) requireNoneWrong(t *testing.T) {
	t.Helper()
	t.Logf("%d calls succeeded, %d refused, %d cut: %v", d.succeeded, d.refused, len(d.cut), d.cut[:min(len(d.cut), 3)])
	require.Empty(t, d.wrong, "no call may get a wrong response")
	require.Positive(t, d.succeeded)
}
