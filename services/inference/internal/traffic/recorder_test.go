package traffic

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// fakeStore stores batches in memory, by name. Put and Forget fail if err is set.
type fakeStore struct {
	mu      sync.Mutex
	batches map[string][]*Call
	// err is the result of Put. If kept is set, Put stores the batch although it returns err.
	err    error
	kept   bool
	puts   int
	forgot []string
	block  chan struct{} // if set, Put blocks until it is closed
	tried  chan struct{} // receives a value after each Put
}

func newFakeStore() *fakeStore {
	return &fakeStore{batches: map[string][]*Call{}, tried: make(chan struct{}, 1024)}
}

func (s *fakeStore) Put(ctx context.Context, name string, calls []*Call) (int, error) {
	defer func() { s.tried <- struct{}{} }()
	s.mu.Lock()
	block := s.block
	s.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	if _, exists := s.batches[name]; !exists && (s.err == nil || s.kept) {
		s.batches[name] = calls
	}
	return 0, s.err
}

func (s *fakeStore) Forget(_ context.Context, names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgot = append(s.forgot, names...)
	return s.err
}

func (s *fakeStore) set(err error, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.kept = err, kept
}

// requireEachOnce returns the number of stored calls and requires that none is stored twice.
func (s *fakeStore) requireEachOnce(t *testing.T) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for _, calls := range s.batches {
		for _, c := range calls {
			require.False(t, seen[c.RequestID], "call %s is stored twice", c.RequestID)
			seen[c.RequestID] = true
		}
	}
	return len(seen)
}

type counts struct {
	mu               sync.Mutex
	spilled, dropped int
}

func (c *counts) Spilled(_ context.Context, n int) { c.mu.Lock(); c.spilled += n; c.mu.Unlock() }
func (c *counts) Dropped(_ context.Context, n int) { c.mu.Lock(); c.dropped += n; c.mu.Unlock() }

type harness struct {
	*Recorder

	t     *testing.T
	store *fakeStore
	clock *clock.Fake
	spool *Spool
	dir   string
	count *counts
	stop  func()
}

func newHarness(t *testing.T, dir string) *harness {
	t.Helper()
	b := &harness{t: t, store: newFakeStore(), clock: clock.NewFake(time.Unix(1_800_000_000, 0)), dir: dir, count: &counts{}}
	b.open()
	return b
}

// open creates a recorder that uses the folder, as a process does when it starts.
func (b *harness) open() {
	var err error
	b.spool, err = NewSpool(b.dir, ids())
	require.NoError(b.t, err)
	b.Recorder = NewRecorder(b.store, b.spool, b.clock, slog.New(slog.DiscardHandler), b.count)
}

func (b *harness) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	done := make(chan error, 1)
	r := b.Recorder
	go func() { done <- r.Run(ctx) }()
	b.stop = sync.OnceFunc(func() { cancel(); require.NoError(b.t, <-done) })
	b.t.Cleanup(b.stop)
}

func (b *harness) record(n int) {
	for _, c := range testCalls(n, b.clock.Now()) {
		b.Record(b.t.Context(), c)
	}
}

// round ends the interval of a batch, after the recorder has begun the batch, and waits for Put.
func (b *harness) round() {
	b.t.Helper()
	require.NoError(b.t, b.clock.Await(b.t.Context(), 2), "the recorder must wait for its ticker and the timer of the batch")
	b.clock.Advance(batchEvery)
	<-b.store.tried
}

// awaitSpilled waits until n calls have been written to disk.
func (b *harness) awaitSpilled(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { b.count.mu.Lock(); defer b.count.mu.Unlock(); return b.count.spilled == n }, 30*time.Second, time.Millisecond)
}

func (b *harness) files() []string {
	names, err := filepath.Glob(filepath.Join(b.dir, "*"+suffix))
	require.NoError(b.t, err)
	return names
}

func TestRecorderBatchesCalls(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	b.record(30)
	b.run()
	b.round()
	require.Equal(t, 30, b.store.requireEachOnce(t))
	require.Equal(t, 1, b.store.puts)
	b.stop()
	require.Len(t, b.store.forgot, 1, "the names of stored batches must be deleted")
	require.Empty(t, b.files())
}

func TestRecorderStoresPendingCallsAtStop(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	b.record(3*batchMax + 7)
	b.run()
	b.stop()
	require.Equal(t, 3*batchMax+7, b.store.requireEachOnce(t))
	b.record(5)
	require.Equal(t, 5, b.count.spilled, "calls recorded after the stop must be written to disk")
	for len(b.store.tried) > 0 {
		<-b.store.tried
	}
	b.open()
	b.run()
	<-b.store.tried
	b.stop()
	require.Equal(t, 3*batchMax+12, b.store.requireEachOnce(t), "spilled calls must be stored after the next start")
}

func TestRecorderSpillsWhileDatabaseUnavailable(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	b.store.set(errors.New("unavailable"), false)
	b.record(10)
	b.run()
	b.round()
	puts := b.store.puts
	b.record(10)
	require.NoError(t, b.clock.Await(t.Context(), 2))
	b.clock.Advance(batchEvery)
	b.awaitSpilled(20)
	require.Equal(t, puts, b.store.puts, "batches must not be tried while the database is unavailable")
	b.store.set(nil, false)
	b.clock.Advance(replayEvery)
	<-b.store.tried
	<-b.store.tried
	b.stop()
	require.Equal(t, 20, b.store.requireEachOnce(t))
	require.Empty(t, b.files())
	require.Zero(t, b.count.dropped)
}

func TestRecorderLostCommitResponse(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	b.store.set(errors.New("connection lost after the commit"), true)
	b.record(10)
	b.run()
	b.round()
	require.Equal(t, 10, b.store.requireEachOnce(t))
	b.store.set(nil, false)
	b.clock.Advance(replayEvery)
	<-b.store.tried
	b.stop()
	require.Equal(t, 10, b.store.requireEachOnce(t))
	require.Len(t, b.store.batches, 1)
	require.Empty(t, b.files())
}

func TestRecorderKilledBeforeSegmentRemoval(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	require.NoError(t, b.spool.Write("call_x", testCalls(4, time.Now())))
	// An earlier process stored the segment and was killed before it removed the file.
	calls, unread, err := b.spool.Read("call_x")
	require.NoError(t, err)
	require.Zero(t, unread)
	_, err = b.store.Put(t.Context(), "call_x", calls)
	require.NoError(t, err)
	<-b.store.tried
	b.run()
	<-b.store.tried
	b.stop()
	require.Equal(t, 4, b.store.requireEachOnce(t))
	require.Empty(t, b.files())
}

func TestRecorderFullRingSpills(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	b.record(ringSize + 100) // the recorder does not run yet
	require.Equal(t, 100, b.count.spilled)
	b.run()
	<-b.store.tried
	b.stop()
	require.Equal(t, ringSize+100, b.store.requireEachOnce(t))
}

func TestRecorder_Record_neverBlocks(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	b.store.block = make(chan struct{})
	b.record(1)
	b.run()
	require.NoError(t, b.clock.Await(t.Context(), 2))
	b.clock.Advance(batchEvery)
	b.record(ringSize + batchMax) // returns although Put hangs
	close(b.store.block)
	<-b.store.tried
	b.stop()
	b.open()
	b.run()
	b.stop()
	require.Equal(t, ringSize+batchMax+1, b.store.requireEachOnce(t)+len(b.unsentCalls()))
}

func TestRecorderEmptiesSpoolAtStop(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	b.store.set(errors.New("unavailable"), false)
	b.record(10)
	b.run()
	b.round()
	b.awaitSpilled(10)
	b.store.set(nil, false)
	b.stop() // the time of the next replay has not come
	require.Equal(t, 10, b.store.requireEachOnce(t))
	require.Empty(t, b.files())
}

// Connections from before an absence of the database fail when they are used again.
func TestRecorderEmptiesSpoolAtStop_secondAttempt(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	b.store.set(errors.New("unavailable"), false)
	b.record(10)
	b.run()
	b.round()
	stopped := make(chan struct{})
	go func() { b.stop(); close(stopped) }()
	<-b.store.tried
	b.store.set(nil, false)
	require.NoError(t, b.clock.Await(t.Context(), 2), "the recorder must pause before the next attempt")
	b.clock.Advance(emptyEvery)
	<-stopped
	require.Equal(t, 10, b.store.requireEachOnce(t))
	require.Empty(t, b.files())
}

func TestRecorderWaitsForOtherProcess(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	require.NoError(t, b.spool.Write("call_x", testCalls(4, time.Now())))
	other, err := NewSpool(b.dir, ids())
	require.NoError(t, err)
	_, err = other.Lock()
	require.NoError(t, err)
	b.run()
	require.NoError(t, b.clock.Await(t.Context(), 1))
	require.ErrorIs(t, b.Own(t.Context()), errWaiting)
	require.Len(t, b.files(), 1, "the other process may still append to its segment")
	require.NoError(t, other.Unlock())
	b.clock.Advance(lockEvery)
	<-b.store.tried
	require.NoError(t, b.Own(t.Context()))
	b.stop()
	require.Equal(t, 4, b.store.requireEachOnce(t))
	_, err = other.Lock()
	require.NoError(t, err, "a stopped recorder must release the folder")
	require.NoError(t, other.Unlock())
}

func TestRecorderStopsWhileOtherProcessUsesSpool(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	_, err := b.spool.Lock()
	require.NoError(t, err)
	b.open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Run(ctx), context.Canceled)
}

// unsentCalls returns the calls that are still on disk.
func (b *harness) unsentCalls() []*Call {
	names, err := b.spool.Segments()
	require.NoError(b.t, err)
	var out []*Call
	for _, name := range names {
		calls, _, err := b.spool.Read(name)
		require.NoError(b.t, err)
		out = append(out, calls...)
	}
	return out
}

func TestRecorderCountsDroppedCalls(t *testing.T) {
	t.Parallel()
	b := newHarness(t, t.TempDir())
	require.NoError(t, os.RemoveAll(b.dir))
	b.store.set(errors.New("unavailable"), false)
	b.record(3)
	b.run()
	b.round()
	b.stop()
	require.Equal(t, 3, b.count.dropped)
}
