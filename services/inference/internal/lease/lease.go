package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Lease is the snapshot in force and how long it may be used.
type Lease struct {
	// mono is a clock that no one can set: a lease is a span, not a date.
	mono    func() time.Duration
	current atomic.Pointer[snapshot]
	until   atomic.Int64 // of mono

	mu    sync.Mutex
	calls map[string]map[*call]struct{} // by token id
}

// call is one that is being answered.
type call struct{ cut context.CancelCauseFunc }

// New makes a lease that has nothing yet.
func New(mono func() time.Duration) *Lease {
	return &Lease{mono: mono, calls: map[string]map[*call]struct{}{}}
}

// Valid reports whether this replica may serve now.
func (l *Lease) Valid() bool {
	return l.current.Load() != nil && int64(l.mono()) < l.until.Load()
}

// Epoch is that of the snapshot in force, 0 before the first.
func (l *Lease) Epoch() int64 {
	if s := l.current.Load(); s != nil {
		return s.epoch
	}
	return 0
}

// Token finds a live token by its SHA-256.
func (l *Lease) Token(sum []byte) (*Token, bool) {
	s := l.current.Load()
	if s == nil || len(sum) != len(hash{}) {
		return nil, false
	}
	t, ok := s.tokens[hash(sum)]
	return t, ok
}

// Deployment finds a deployment.
func (l *Lease) Deployment(id string) (*Deployment, bool) {
	s := l.current.Load()
	if s == nil {
		return nil, false
	}
	d, ok := s.deployments[id]
	return d, ok
}

// Enter registers a call of the token, so that a revocation can cut it; leave must be called. It answers
// false where the token died since it was looked up.
func (l *Lease) Enter(ctx context.Context, sum []byte, t *Token) (_ context.Context, leave func(), ok bool) {
	ctx, cut := context.WithCancelCause(ctx)
	c := &call{cut: cut}
	l.mu.Lock()
	defer l.mu.Unlock()
	// apply swaps the snapshot and cuts under this lock, so a call is either seen by it or sees its result.
	if _, live := l.Token(sum); !live {
		cut(nil)
		return ctx, func() {}, false
	}
	of := l.calls[t.ID]
	if of == nil {
		of = map[*call]struct{}{}
		l.calls[t.ID] = of
	}
	of[c] = struct{}{}
	return ctx, func() { l.leave(t.ID, c) }, true
}

func (l *Lease) leave(tokenID string, c *call) {
	c.cut(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls[tokenID], c)
	if len(l.calls[tokenID]) == 0 {
		delete(l.calls, tokenID)
	}
}

// apply puts a snapshot in force and cuts the calls of tokens that it lacks. An older one is ignored.
func (l *Lease) apply(s *snapshot) {
	live := make(map[string]bool, len(s.tokens))
	for _, t := range s.tokens {
		live[t.ID] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.current.Load(); old != nil && old.epoch > s.epoch {
		return
	}
	l.current.Store(s)
	for tokenID, calls := range l.calls {
		if live[tokenID] {
			continue
		}
		for c := range calls {
			c.cut(ErrRevoked)
		}
	}
}

// extend lets the lease run for span from when its renewal was asked for.
func (l *Lease) extend(asked, span time.Duration) { l.until.Store(int64(asked + span)) }
