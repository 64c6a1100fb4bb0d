package routing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Lease holds the current snapshot and how long it may be used.
type Lease struct {
	// mono is a monotonic clock, because a lease is a duration and not a date.
	mono    func() time.Duration
	current atomic.Pointer[snapshot]
	until   atomic.Int64 // the time of mono at which the lease expires

	extended chan struct{} // holds a value if Guard has not seen the last extension

	mu sync.Mutex
	// next collects the parts of a new state until its last part has arrived. Otherwise it is nil.
	next  *snapshot
	calls map[string]map[*call]struct{} // keyed by token id
}

// call is an open call.
type call struct {
	token      hash
	deployment string
	cut        context.CancelCauseFunc
	over       chan struct{} // closed when the call has ended
}

var (
	// ErrRevoked is the cause with which the open calls of a revoked token are cut.
	ErrRevoked = errors.New("the token was revoked")
	// ErrExpired is the cause with which all open calls are cut when the lease has expired or was given up. Without
	// a lease, it is unknown whether their tokens were revoked.
	ErrExpired = errors.New("the lease has expired")
	// ErrSuspended is the cause with which the open calls of a suspended deployment are cut if its field Cut is set.
	ErrSuspended = errors.New("the deployment was suspended")
	// errOlder rejects an older snapshot, because it would bring back revoked tokens.
	errOlder = errors.New("the snapshot is older than the current one")
	// errNoState rejects changes that arrive before a complete state.
	errNoState = errors.New("the registry sent changes before a complete state")
)

// New returns a lease without a snapshot.
func New(mono func() time.Duration) *Lease {
	return &Lease{mono: mono, extended: make(chan struct{}, 1), calls: map[string]map[*call]struct{}{}}
}

// Valid reports whether this replica may serve now.
func (l *Lease) Valid() bool {
	return l.current.Load() != nil && int64(l.mono()) < l.until.Load()
}

// Epoch returns the epoch of the current snapshot, 0 before the first one.
func (l *Lease) Epoch() int64 {
	if s := l.current.Load(); s != nil {
		return s.epoch.Load()
	}
	return 0
}

// Token returns the token of the current snapshot that has the given SHA-256 hash.
func (l *Lease) Token(sum []byte) (*Token, bool) {
	s := l.current.Load()
	if s == nil || len(sum) != len(hash{}) {
		return nil, false
	}
	return s.token(hash(sum))
}

// Deployment returns the deployment of the current snapshot that has this id.
func (l *Lease) Deployment(id string) (*Deployment, bool) {
	s := l.current.Load()
	if s == nil {
		return nil, false
	}
	return s.deployment(id)
}

// Each calls fn for every deployment of the current snapshot, in no particular order.
func (l *Lease) Each(fn func(*Deployment)) {
	if s := l.current.Load(); s != nil {
		s.each(fn)
	}
}

// Enter registers a call that uses the token, so that a revocation or a suspension can cut it. The function leave must
// be run when the call has ended. Enter returns false if the token has been revoked, the lease has expired or the
// deployment has been suspended.
func (l *Lease) Enter(ctx context.Context, sum []byte, t *Token) (_ context.Context, leave func(), ok bool) {
	ctx, cut := context.WithCancelCause(ctx)
	c := &call{deployment: t.DeploymentID, cut: cut, over: make(chan struct{})}
	copy(c.token[:], sum)
	l.mu.Lock()
	defer l.mu.Unlock()
	// apply changes the snapshot and cuts calls under this lock. So either the call is registered before apply runs,
	// and apply can cut it, or the call sees the new snapshot.
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

// apply applies one message of the registry. The last part of a state makes the state current. apply then cuts the
// calls of tokens that the new state does not contain, and of deployments that are suspended in it with Cut set. It
// returns the calls that it cut; they take a moment to end. If the epoch is older than the current one, apply returns
// errOlder and changes nothing.
func (l *Lease) apply(epoch int64, in *registrypeerv1.Snapshot) ([]*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	current := l.current.Load()
	if current != nil && current.epoch.Load() > epoch {
		return nil, fmt.Errorf("%w: epoch %d after epoch %d", errOlder, epoch, current.epoch.Load())
	}
	s := l.next
	switch {
	case !in.GetContinued():
		s = &snapshot{}
		l.next = s
	case s == nil:
		s = current
	}
	if s == nil {
		return nil, errNoState
	}
	if err := s.change(in); err != nil || in.GetMore() {
		return nil, err
	}
	s.epoch.Store(epoch)
	l.current.Store(s)
	l.next = nil
	return l.cutAll(func(c *call) error {
		_, live := s.token(c.token)
		switch d, _ := s.deployment(c.deployment); {
		case !live:
			return ErrRevoked
		case d != nil && d.Suspended && d.Cut:
			return ErrSuspended
		}
		return nil
	}), nil
}

// cutAll cuts and returns the calls for which the function why returns an error. The caller must hold l.mu.
func (l *Lease) cutAll(why func(*call) error) []*call {
	var gone []*call
	for _, calls := range l.calls {
		for c := range calls {
			if err := why(c); err != nil {
				c.cut(err)
				gone = append(gone, c)
			}
		}
	}
	return gone
}

// whyOver returns ErrExpired for every call. With it, cutAll cuts all calls.
func whyOver(*call) error { return ErrExpired }

// lapse ends the lease at once, cuts all open calls and returns them; they take a moment to end.
func (l *Lease) lapse() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until.Store(0)
	return l.cutAll(whyOver)
}

// extend makes the lease valid for the given span, counted from the time at which its renewal was requested.
func (l *Lease) extend(requested, span time.Duration) {
	l.until.Store(int64(requested + span))
	select {
	case l.extended <- struct{}{}:
	default: // Guard has not received the last value yet
	}
}

// Guard cuts all open calls whenever the lease expires, until ctx ends. This is necessary because the registry
// completes a revocation without waiting for a replica whose lease has expired.
func (l *Lease) Guard(ctx context.Context, clk clock.Clock) error {
	for ctx.Err() == nil {
		left := time.Duration(l.until.Load()) - l.mono()
		if left <= 0 {
			l.mu.Lock()
			if !l.Valid() {
				l.cutAll(whyOver)
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
