package routing

import "sync"

// shards is the number of shards of the open calls. A set of shards is a uint64, so there are exactly 64.
const shards = 64

// allShards is the set of all shards.
const allShards = ^uint64(0)

// Call is an open call, so that a revocation or a suspension can cut it. Its zero value is ready for Lease.Enter. After
// Lease.Leave it may be used for another call. It must not be copied while it is open.
type Call struct {
	token      hash
	deployment string
	cut        func(cause error)
	over       chan struct{} // nil until the call is cut; closed when it has ended
	next, prev *Call         // the neighbors in the list of the shard
}

// shard holds the open calls of the tokens whose hashes begin with certain bits. Calls with tokens of different shards do
// not wait for each other.
type shard struct {
	mu    sync.Mutex
	first *Call
	_     [112]byte // fills two cache lines, which processors load together, so that cores do not share them
}

// shardOf returns the number of the shard for a token.
func shardOf(token []byte) int { return int(token[0] % shards) }

// add adds a call. The caller must hold s.mu.
func (s *shard) add(c *Call) {
	c.prev, c.next = nil, s.first
	if s.first != nil {
		s.first.prev = c
	}
	s.first = c
}

// remove removes a call. The caller must hold s.mu.
func (s *shard) remove(c *Call) {
	if c.prev == nil {
		s.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
}

// cutCalls cuts the calls for which the function why returns an error. It appends to gone, for each of them, a channel
// that is closed when the call has ended. A call that was cut earlier is not cut again.
func (s *shard) cutCalls(gone []<-chan struct{}, why func(*Call) error) []<-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.first; c != nil; c = c.next {
		err := why(c)
		if err == nil {
			continue
		}
		if c.over == nil {
			c.over = make(chan struct{})
			c.cut(err)
		}
		gone = append(gone, c.over)
	}
	return gone
}

// Enter registers a call that uses the token with the given hash. It returns false if the token has been revoked, the
// lease has expired or the deployment has been suspended. Otherwise the caller must call Leave when the call has ended.
// Until then, the function cut may be called once, by another goroutine, with ErrRevoked, ErrSuspended or ErrExpired. It
// must make the call end soon. It must not block or use the lease, because other calls wait for it.
func (l *Lease) Enter(c *Call, sum []byte, t *Token, cut func(cause error)) bool {
	if len(sum) != len(hash{}) {
		return false
	}
	s := &l.calls[shardOf(sum)]
	s.mu.Lock()
	defer s.mu.Unlock()
	// Whatever ends calls changes the snapshot or the lease first, and then looks at the calls of this shard under its
	// lock. So either it finds this call, or the call finds the change.
	if !l.admits(sum, t.DeploymentID) {
		return false
	}
	c.token, c.deployment, c.cut = hash(sum), t.DeploymentID, cut
	s.add(c)
	return true
}

// admits reports whether a new call may use the token with the given hash.
func (l *Lease) admits(sum []byte, deployment string) bool {
	if _, live := l.Token(sum); !live || !l.Valid() {
		return false
	}
	d, ok := l.Deployment(deployment)
	return !ok || !d.Suspended
}

// Leave removes a call that has ended. Afterwards, its function cut is not called, and the acknowledgement of what cut it
// no longer waits for it. If the call is not open, Leave does nothing.
func (l *Lease) Leave(c *Call) {
	if c.cut == nil {
		return
	}
	s := &l.calls[shardOf(c.token[:])]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
	if c.over != nil {
		close(c.over)
	}
	*c = Call{}
}

// cutCalls cuts the calls of a set of shards for which the function why returns an error. It returns a channel for each
// of them that is closed when the call has ended.
func (l *Lease) cutCalls(of uint64, why func(*Call) error) []<-chan struct{} {
	var gone []<-chan struct{}
	for n := range l.calls {
		if of&(1<<n) != 0 {
			gone = l.calls[n].cutCalls(gone, why)
		}
	}
	return gone
}
