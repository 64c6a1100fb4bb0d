package edge

import "sync"

// Hold counts the requests that are held, tunnels that left net/http's care among them, so that a gateway that
// drains knows when the last one is finished.
type Hold struct {
	mu       sync.Mutex
	held     int
	draining bool
	empty    chan struct{} // closed when it drains and nothing is held any more
}

// NewHold makes one that takes everything.
func NewHold() *Hold { return &Hold{empty: make(chan struct{})} }

// Enter holds a request; Leave lets it go. It answers false, and holds nothing, once draining has begun.
func (h *Hold) Enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.held++
	}
	return !h.draining
}

// Leave lets a request go that Enter held.
func (h *Hold) Leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held--; h.draining && h.held == 0 {
		close(h.empty)
	}
}

// Drain takes nothing from now on.
func (h *Hold) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining && h.held == 0 {
		close(h.empty)
	}
	h.draining = true
}

// Empty is closed once draining has begun and nothing is held.
func (h *Hold) Empty() <-chan struct{} { return h.empty }
