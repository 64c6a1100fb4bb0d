package httpguard

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// settleTime is how long the queue of connections to be accepted must stay empty before Settle continues. Handshakes
// that had already begun complete in this time, even on a busy machine.
const settleTime = 150 * time.Millisecond

// minSettle is how long Settle waits for connections to be accepted even if its context has ended. It is less than the
// second that a process has to exit after its grace period.
const minSettle = 500 * time.Millisecond

// Listen listens on the TCP address. It turns off Multipath TCP, the default of package net, because the kernel
// attaches no filters to Multipath TCP sockets.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	return c.Listen(ctx, "tcp", addr) //nolint:wrapcheck // the caller names the setting
}

// Settle prepares a server that already refuses new requests for a shutdown that cuts off no request. It makes the
// kernel ignore attempts to open new connections, and waits until the server has accepted the connections that clients
// have already opened. It then waits until each idle connection has been idle for minIdle since the call, or until ctx
// ends.
//
// Without Settle, the kernel resets connections that wait to be accepted when the listener is closed, although their
// clients may have sent requests already. A client repeats an ignored attempt after about a second. It then reaches the
// process that listens next, or is refused.
//
// The server must be running. After Settle, the listener can only be closed. The kernel ignores attempts only if the
// listener was opened by Listen.
func (l *Listener) Settle(ctx context.Context) {
	began := l.connections.elapsed()
	if tcp, ok := l.Listener.(*net.TCPListener); ok && l.settling.CompareAndSwap(false, true) {
		l.acceptWaiting(ctx, tcp)
	}
	l.connections.awaitIdle(ctx, began)
}

// acceptWaiting waits until the server has accepted all waiting connections. It gives up when ctx has ended and at least
// minSettle has passed: a busy machine may need longer than that, but a server whose grace period is over must exit.
func (l *Listener) acceptWaiting(ctx context.Context, tcp *net.TCPListener) {
	if ignoreAttempts(tcp) != nil || setSettleTime(tcp) != nil {
		return // Without the filter, there might always be another connection to accept.
	}
	least, cancel := context.WithTimeout(context.WithoutCancel(ctx), minSettle)
	defer cancel()
	for _, over := range []<-chan struct{}{least.Done(), ctx.Done()} {
		select {
		case <-l.settled:
			return
		case <-l.closed:
			return
		case <-over:
		}
	}
}

// settle handles an Accept that found no connection for settleTime. If no connection is waiting now, it lets acceptWaiting
// continue. Accept then tries again, until the listener is closed: on a busy machine, a handshake may complete later.
func (l *Listener) settle() error {
	tcp, ok := l.Listener.(*net.TCPListener)
	if !ok {
		return net.ErrClosed
	}
	if waiting, err := waiting(tcp); err != nil || waiting == 0 {
		l.settledOnce.Do(func() { close(l.settled) })
	}
	return setSettleTime(tcp)
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close() //nolint:wrapcheck // net/http inspects it
}

func setSettleTime(l *net.TCPListener) error {
	if err := l.SetDeadline(clock.Real().Now().Add(settleTime)); err != nil { // The kernel knows no other clock.
		return fmt.Errorf("set how long to wait for connections: %w", err)
	}
	return nil
}
