package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Lease is the snapshot in force and how long it may be used.
type Lease struct {
	// mono is a clock that no one can set: a lease is a span, not a date.
	mono    func() time.Duration
	current atomic.Pointer[snapshot]
	until   atomic.Int64 // of mono

	extended chan struct{} // told of each extension

	mu    sync.Mutex
	calls map[string]map[*call]struct{} // by token id
}

// call is one that is being answered.
type call struct {
	deployment string
	cut        context.CancelCauseFunc
	over       chan struct{} // closed when it has left
}

var (
	// ErrRevoked is why the open calls of a revoked token end.
	ErrRevoked = errors.New("the token was revoked")
	// ErrOver is why the open calls of a replica end that has lost the registry for too long: their
	// tokens may be dead by now.
	ErrOver = errors.New("the lease is over")
	// ErrSuspended is why the open calls of a deployment end that was suspended with a cut.
	ErrSuspended = errors.New("the deployment was suspended")
	// errOlder refuses a snapshot that would bring back what a later one took away.
	errOlder = errors.New("the snapshot is older than the one in force")
)

// New makes a lease that has nothing yet.
func New(mono func() time.Duration) *Lease {
	return &Lease{mono: mono, extended: make(chan struct{}, 1), calls: map[string]map[*call]struct{}{}}
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

// Enter registers a call of the token, so that a revocation or a suspension can cut it; leave must be called. It
// answers false where the token, the lease or the deployment ended since they were looked up.
func (l *Lease) Enter(ctx context.Context, sum []byte, t *Token) (_ context.Context, leave func(), ok bool) {
	ctx, cut := context.WithCancelCause(ctx)
	c := &call{deployment: t.DeploymentID, cut: cut, over: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	// apply swaps the snapshot and cuts under this lock, so a call is either seen by it or sees its result.
	_, live := l.Token(sum)
	if d, ok := l.Deployment(t.DeploymentID); !live || !l.Valid() || ok && d.Suspended {
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
	close(c.over)
	delete(l.calls[tokenID], c)
	if len(l.calls[tokenID]) == 0 {
		delete(l.calls, tokenID)
	}
}

// apply puts a snapshot in force and cuts the calls of tokens that it lacks; it answers those calls, for
// they take a moment to end.
func (l *Lease) apply(s *snapshot) ([]*call, error) {
	live := make(map[string]bool, len(s.tokens))
	for _, t := range s.tokens {
		live[t.ID] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.current.Load(); old != nil && old.epoch > s.epoch {
		return nil, fmt.Errorf("%w: %d after %d", errOlder, s.epoch, old.epoch)
	}
	l.current.Store(s)
	return l.cutAll(func(tokenID string, c *call) error {
		switch d := s.deployments[c.deployment]; {
		case !live[tokenID]:
			return ErrRevoked
		case d != nil && d.Suspended && d.Cut:
			return ErrSuspended
		}
		return nil
	}), nil
}

// cutAll cuts the calls for which why has a reason. It needs the lock.
func (l *Lease) cutAll(why func(tokenID string, c *call) error) []*call {
	var gone []*call
	for tokenID, calls := range l.calls {
		for c := range calls {
			if err := why(tokenID, c); err != nil {
				c.cut(err)
				gone = append(gone, c)
			}
		}
	}
	return gone
}

// lost is why every call ends when the lease does.
func lost(string, *call) error { return ErrOver }

// lapse ends the lease at once and cuts all open calls; it answers those, for they take a moment to end.
func (l *Lease) lapse() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until.Store(0)
	return l.cutAll(lost)
}

// extend lets the lease run for span from when its renewal was asked for.
func (l *Lease) extend(asked, span time.Duration) {
	l.until.Store(int64(asked + span))
	select {
	case l.extended <- struct{}{}:
	default: // the guard has not looked at the last one yet
	}
}

// Guard cuts all open calls when the lease is over, until ctx ends: once it is, a revocation is answered
// without this replica.
func (l *Lease) Guard(ctx context.Context, clk clock.Clock) error {
	for ctx.Err() == nil {
		left := time.Duration(l.until.Load()) - l.mono()
		if left <= 0 {
			l.mu.Lock()
			if !l.Valid() {
				l.cutAll(lost)
			}
			l.mu.Unlock()
			select {
			case <-l.extended:
			case <-ctx.Done():
			}
			continue
		}
		timer := clk.NewTimer(left)
		select {
		case <-timer.C():
		case <-l.extended:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}
