package gateway

import (
	"context"
	"net/http"
	"sync"
)

// held counts the requests of raw routes that run: a connection that became a WebSocket has left net/http's
// care, which waits for all others.
type held struct {
	mu    sync.Mutex
	open  int
	empty chan struct{} // closed when nothing is open; nil while nobody waits
}

func (h *held) enter() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open++
}

func (h *held) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open--; h.open == 0 && h.empty != nil {
		close(h.empty)
		h.empty = nil
	}
}

// wait waits until nothing is held, or for as long as ctx allows.
func (h *held) wait(ctx context.Context) {
	h.mu.Lock()
	if h.open == 0 {
		h.mu.Unlock()
		return
	}
	if h.empty == nil {
		h.empty = make(chan struct{})
	}
	empty := h.empty
	h.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// drainer is a handler of this process that ends of its own what would not end for long.
type drainer interface{ Drain() }

func drain(handlers ...http.Handler) {
	for _, handler := range handlers {
		if d, ok := handler.(drainer); ok {
			d.Drain()
		}
	}
}
