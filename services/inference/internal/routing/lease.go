package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	mu sync.Mutex // held while a message of the registry is applied
	// next collects the parts of a new state until its last part has arrived. Otherwise it is nil.
	next *snapshot
	// touched is the set of shards with calls that the parts of the current message may cut.
	touched uint64

	calls [shards]shard
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
	return &Lease{mono: mono, extended: make(chan struct{}, 1)}
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

// apply applies one message of the registry. The last part of a state makes the state current. apply then cuts the
// calls of tokens that the new state does not contain, and of deployments that are suspended in it with Cut set. It
// returns a channel for each call that it cut, which is closed when the call has ended. If the epoch is older than the
// current one, apply returns errOlder and changes nothing.
func (l *Lease) apply(epoch int64, in *registrypeerv1.Snapshot) ([]<-chan struct{}, error) {
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
	l.touched |= touches(in)
	if err := s.change(in); err != nil || in.GetMore() {
		return nil, err
	}
	s.epoch.Store(epoch)
	l.current.Store(s)
	l.next = nil
	touched := l.touched
	l.touched = 0
	return l.cutCalls(touched, s.ends), nil
}

// touches returns the set of shards with calls that the message may cut. A whole state may cut any call.
func touches(in *registrypeerv1.Snapshot) uint64 {
	suspends := func(d *registrypeerv1.ServedDeployment) bool { return d.GetSuspended() && d.GetCut() }
	if !in.GetContinued() || slices.ContainsFunc(in.GetDeployments(), suspends) {
		return allShards
	}
	var touched uint64
	for _, h := range in.GetRevokedHashes() {
		if len(h) == len(hash{}) {
			touched |= 1 << shardOf(h)
		}
	}
	return touched
}

// ends returns the cause with which the snapshot cuts a call, or nil if the call may continue.
func (s *snapshot) ends(c *Call) error {
	if _, live := s.token(c.token); !live {
		return ErrRevoked
	}
	if d, _ := s.deployment(c.deployment); d != nil && d.Suspended && d.Cut {
		return ErrSuspended
	}
	return nil
}

// lapse ends the lease at once, cuts all open calls and returns a channel for each of them that is closed when the call
// has ended.
func (l *Lease) lapse() []<-chan struct{} {
	l.until.Store(0)
	return l.cutCalls(allShards, func(*Call) error { return ErrExpired })
}

// lapsed returns ErrExpired for every call unless the lease is valid.
func (l *Lease) lapsed(*Call) error {
	if l.Valid() {
		return nil
	}
	return ErrExpired
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
			l.cutCalls(allShards, l.lapsed)
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
