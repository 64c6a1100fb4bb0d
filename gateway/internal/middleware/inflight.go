package middleware

import "sync"

// InFlight counts the running requests, including tunnels that net/http no longer tracks, so that a draining
// gateway knows when the last one has finished.
type InFlight struct {
	mu       sync.Mutex
	held     int
	draining bool
	empty    chan struct{} // closed when draining has begun and no request is running
}

// NewInFlight returns a counter of zero that is not draining.
func NewInFlight() *InFlight { return &InFlight{empty: make(chan struct{})} }

// Enter counts a request until Leave is called. Once draining has begun, Enter does not count it and returns false.
func (h *InFlight) Enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.held++
	}
	return !h.draining
}

// Leave ends a request that Enter counted.
func (h *InFlight) Leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held--; h.draining && h.held == 0 {
		close(h.empty)
	}
}

// Drain makes Enter return false from now on.
func (h *InFlight) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining && h.held == 0 {
		close(h.empty)
	}
	h.draining = true
}

// Empty returns a channel that is closed once draining has begun and no request is running.
func (h *InFlight) Empty() <-chan struct{} { return h.empty }
