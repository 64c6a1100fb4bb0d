package engineclient

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// maxAbandoned is the maximum number of abandoned calls of one engine whose connections stay open. The oldest stay,
	// because an engine usually works on them first.
	maxAbandoned = 256
	// reaction is the time after the end of a call within which the engine may send an error, because it notices that
	// the caller has left. A byte that arrives within this time does not show that the engine works.
	reaction = time.Second
	// readable limits the time to read a byte that has arrived on a TLS connection.
	readable = time.Millisecond
)

// abandoned keeps the connections of calls that ended before the engine began its response, because the caller has left
// or did not want to wait longer. The connections are closed for writing: most engines notice that and drop the call.
// Other engines work on the call to its end and then respond. The first byte of the response shows that the engine does
// not hang, although no caller receives it. The connection is then closed.
type abandoned struct {
	mu   sync.Mutex
	open map[Engine][]leftover
}

// leftover is the connection of one abandoned call.
type leftover struct {
	conn         *link
	since, until time.Time // the connection is closed at until
	waits        bool      // no byte arrived within the time reaction
}

// add takes over the connection and closes it after the given time at the latest.
func (a *abandoned) add(conn *link, now time.Time, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	half, ok := conn.raw.(interface{ CloseWrite() error })
	if !ok || len(a.open[conn.to]) >= maxAbandoned || half.CloseWrite() != nil {
		_ = conn.Close()
		return
	}
	if a.open == nil {
		a.open = map[Engine][]leftover{}
	}
	a.open[conn.to] = append(a.open[conn.to], leftover{conn: conn, since: now, until: now.Add(after)})
}

// heard returns the engines that have sent a byte to an abandoned call. It closes the connections on which a byte has
// arrived, those that the engine has closed, and those that are too old. It does not wait for the engines.
func (a *abandoned) heard(now time.Time) []Engine {
	a.mu.Lock()
	defer a.mu.Unlock()
	var engines []Engine
	for to, all := range a.open {
		kept := all[:0]
		sent := false
		for _, one := range all {
			switch found := one.conn.arrived(); {
			case found == nothing && now.Before(one.until):
				one.waits = one.waits || now.Sub(one.since) >= reaction
				kept = append(kept, one)
				continue
			case found == data && one.waits:
				sent = true
			}
			_ = one.conn.Close()
		}
		clear(all[len(kept):])
		if a.open[to] = kept; len(kept) == 0 {
			delete(a.open, to)
		}
		if sent {
			engines = append(engines, to)
		}
	}
	return engines
}

// closeAll closes all connections.
func (a *abandoned) closeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, all := range a.open {
		for _, one := range all {
			_ = one.conn.Close()
		}
	}
	a.open = nil
}

// arrival is what has arrived on a connection.
type arrival int

const (
	nothing arrival = iota
	data
	end
)

// arrived returns what has arrived on an abandoned connection. It waits at most readable.
func (l *link) arrived() arrival {
	found := l.peek()
	if found != data || l.to.Node == "" {
		return found
	}
	// TLS also sends records without data.
	if l.Conn.SetReadDeadline(deadline(readable)) != nil {
		return end
	}
	var one [1]byte
	switch n, err := l.Conn.Read(one[:]); {
	case n > 0:
		return data
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nothing
	}
	return end
}

// peek returns what is in the socket's receive buffer.
func (l *link) peek() arrival {
	found := end
	if l.fd == nil {
		return end
	}
	err := l.fd.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
			found = nothing
		case err == nil && n > 0:
			found = data
		}
	})
	if err != nil {
		return end
	}
	return found
}
