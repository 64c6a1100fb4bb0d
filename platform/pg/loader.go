package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// loaderReads is the maximum number of reads of a Loader that run at the same time. A slow read does not delay the
	// next one.
	loaderReads = 2
	// loaderTimeout limits a read. The context of a caller does not limit the read, because other callers share it.
	loaderTimeout = 10 * time.Second
)

var errLoad = errors.New("the read did not complete")

// Loader reads values by key and combines the reads of concurrent callers. Callers that arrive while earlier reads run
// share the next read, which reads each key once. A read begins after all its callers have arrived, so each caller sees
// every change that was committed before its call. Under load, one read serves many callers; without load, each caller
// has its own read.
type Loader[K comparable, V any] struct {
	read func(ctx context.Context, keys []K) (map[K]V, error)
	turn chan struct{} // holds one value for each read that runs

	mu   sync.Mutex
	next *load[K, V] // the next read, which has not begun; nil if no caller waits
}

// load is one read. Its fields found and err are set before done is closed.
type load[K comparable, V any] struct {
	keys  []K
	has   map[K]bool
	done  chan struct{}
	found map[K]V
	err   error
}

// NewLoader returns a Loader that calls the function read. The map that this function returns must have no entry for a
// key that does not exist. The context passed to it has the values of one caller's context, but not the deadline or the
// cancellation.
func NewLoader[K comparable, V any](read func(ctx context.Context, keys []K) (map[K]V, error)) *Loader[K, V] {
	return &Loader[K, V]{read: read, turn: make(chan struct{}, loaderReads)}
}

// Get returns the value of a key. The result ok is false if the key does not exist. All callers of a read share the
// value, so they must not modify it.
func (l *Loader[K, V]) Get(ctx context.Context, key K) (value V, ok bool, err error) {
	wanted, first := l.join(key)
	if first {
		l.run(ctx, wanted)
	}
	select {
	case <-wanted.done:
		value, ok = wanted.found[key]
		return value, ok, wanted.err
	case <-ctx.Done():
		return value, false, fmt.Errorf("wait for a read: %w", ctx.Err())
	}
}

// join adds a key to the next read. If the result first is true, the caller must call run.
func (l *Loader[K, V]) join(key K) (wanted *load[K, V], first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next, first = &load[K, V]{has: map[K]bool{}, done: make(chan struct{}), err: errLoad}, true
	}
	if !l.next.has[key] {
		l.next.has[key] = true
		l.next.keys = append(l.next.keys, key)
	}
	return l.next, first
}

// run waits for its turn and reads, even if ctx has ended, because other callers may wait for the result. The timeout
// of the reads limits how long this takes.
func (l *Loader[K, V]) run(ctx context.Context, wanted *load[K, V]) {
	l.turn <- struct{}{}
	defer close(wanted.done)
	defer func() { <-l.turn }()
	l.mu.Lock()
	l.next = nil // callers that arrive from now on need a later read
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loaderTimeout)
	defer cancel()
	wanted.found, wanted.err = l.read(ctx, wanted.keys)
}
