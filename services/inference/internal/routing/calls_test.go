package routing

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
)

// enter enters the lease with a call whose context ends when it is cut.
func enter(ctx context.Context, l *Lease, sum []byte, t *Token) (_ context.Context, leave func(), ok bool) {
	ctx, cut := context.WithCancelCause(ctx)
	c := &Call{}
	leave = func() { cut(nil); l.Leave(c) }
	if !l.Enter(c, sum, t, cut) {
		leave()
		return ctx, leave, false
	}
	return ctx, leave, true
}

// opened returns the number of open calls of a token.
func (l *Lease) opened(sum []byte) (n int) {
	s := &l.calls[shardOf(sum)]
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.first; c != nil; c = c.next {
		if c.token == hash(sum) {
			n++
		}
	}
	return n
}

// served returns a valid lease with the given tokens.
func served(t testing.TB, names ...string) *Lease {
	t.Helper()
	var w stopwatch
	l := New(w.now)
	l.extend(0, time.Hour)
	_, err := l.apply(1, message(names...))
	require.NoError(t, err)
	return l
}

func TestLease_Enter_reusedCall(t *testing.T) {
	t.Parallel()
	l := served(t, "a", "b")
	a, _ := l.Token(sum("a"))
	b, _ := l.Token(sum("b"))
	var c, other Call
	l.Leave(&c) // does nothing, because the call is not open
	var causes []error
	cut := func(cause error) { causes = append(causes, cause) }
	require.True(t, l.Enter(&other, sum("a"), a, cut))
	require.True(t, l.Enter(&c, sum("a"), a, cut))
	first := put(t, l, 2, "b")
	require.Len(t, first, 2)
	require.Equal(t, []error{ErrRevoked, ErrRevoked}, causes)
	l.Leave(&c)
	require.False(t, l.Enter(&c, sum("a"), a, cut))
	require.True(t, l.Enter(&c, sum("b"), b, cut))
	second := l.lapse()
	require.Len(t, second, 2)
	require.Equal(t, []error{ErrRevoked, ErrRevoked, ErrExpired}, causes, "a call must be cut only once each time it is open")
	third := put(t, l, 3)
	require.Len(t, third, 2, "an open call must be returned again although it was cut earlier")
	l.Leave(&other)
	ended := func(gone []<-chan struct{}) (n int) {
		for _, over := range gone {
			select {
			case <-over:
				n++
			default:
			}
		}
		return n
	}
	require.Equal(t, []int{2, 1, 1}, []int{ended(first), ended(second), ended(third)})
	l.Leave(&c)
	require.Equal(t, []int{2, 2, 2}, []int{ended(first), ended(second), ended(third)})
	require.Zero(t, l.opened(sum("a"))+l.opened(sum("b")))
	l.Leave(&c)
}

func TestLease_Leave_anyOrder(t *testing.T) {
	t.Parallel()
	l := served(t, "a")
	a, _ := l.Token(sum("a"))
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		var calls [3]Call
		for i := range calls {
			require.True(t, l.Enter(&calls[i], sum("a"), a, func(error) {}))
		}
		for left, i := range order {
			require.Equal(t, 3-left, l.opened(sum("a")))
			l.Leave(&calls[i])
		}
		require.Zero(t, l.opened(sum("a")))
	}
}

// A change locks only the shards of the tokens that it revokes, and cuts the calls of the tokens in all of its parts.
func TestLease_apply_locksFewShards(t *testing.T) {
	t.Parallel()
	l := served(t, "a", "b", "c")
	require.NotEqual(t, shardOf(sum("a")), shardOf(sum("b")))
	require.NotEqual(t, shardOf(sum("a")), shardOf(sum("c")))
	require.NotEqual(t, shardOf(sum("b")), shardOf(sum("c")))
	causes, calls := map[string]error{}, map[string]*Call{"a": {}, "b": {}, "c": {}}
	for name, c := range calls {
		tok, _ := l.Token(sum(name))
		require.True(t, l.Enter(c, sum(name), tok, func(cause error) { causes[name] = cause }))
	}
	busy := &l.calls[shardOf(sum("c"))]
	busy.mu.Lock()
	gone, err := l.apply(2, &registrypeerv1.Snapshot{Continued: true, More: true, RevokedHashes: [][]byte{sum("a")}})
	require.NoError(t, err)
	require.Empty(t, gone)
	gone, err = l.apply(2, &registrypeerv1.Snapshot{Continued: true, RevokedHashes: [][]byte{sum("b")}})
	require.NoError(t, err)
	busy.mu.Unlock()
	require.Len(t, gone, 2)
	require.Equal(t, map[string]error{"a": ErrRevoked, "b": ErrRevoked}, causes)
	l.Leave(calls["a"])
	l.Leave(calls["b"])
	gone, err = l.apply(3, &registrypeerv1.Snapshot{
		Continued: true, Deployments: []*registrypeerv1.ServedDeployment{{Id: "dep_a", Suspended: true, Cut: true}},
	})
	require.NoError(t, err)
	require.Len(t, gone, 1)
	require.ErrorIs(t, causes["c"], ErrSuspended)
}

// holder enters the lease again and again until the channel stop is closed. Every other call stays open until it is cut.
func holder(l *Lease, known map[string]*Token, names []string, stop <-chan struct{}) {
	var c Call
	cut := make(chan struct{}, 1)
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		name := names[n%len(names)]
		if !l.Enter(&c, sum(name), known[name], func(error) { cut <- struct{}{} }) {
			continue
		}
		if n%2 == 0 {
			select {
			case <-cut:
			case <-stop:
			}
		}
		l.Leave(&c)
		select {
		case <-cut: // arrived after the call had ended
		default:
		}
	}
}

// When apply has returned and the calls that it cut have ended, no call of a revoked token is open, and none begins until
// the token is valid again.
func TestLease_apply_noCallSlipsThrough(t *testing.T) {
	t.Parallel()
	const workers, rounds, known = 16, 20_000, 8
	names := make([]string, known)
	for i := range names {
		names[i] = fmt.Sprint("token", i)
	}
	l := served(t, names...)
	all := map[string]*Token{}
	for _, name := range names {
		all[name], _ = l.Token(sum(name))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() { holder(l, all, append(names[n%known:], names[:n%known]...), stop) })
	}
	open := 0
	for round := range rounds {
		name, again := names[round%known], names[(round+known/2)%known]
		in := &registrypeerv1.Snapshot{Continued: true, RevokedHashes: [][]byte{sum(name)}}
		if round >= known/2 { // the token was revoked earlier
			open += l.opened(sum(again))
			in.Tokens = tokens(again)
		}
		gone, err := l.apply(int64(round+2), in)
		require.NoError(t, err)
		for _, over := range gone {
			<-over
		}
		open += l.opened(sum(name))
	}
	close(stop)
	wg.Wait()
	require.Zero(t, open, "calls of revoked tokens were open")
}

func TestLease_Enter_allocatesNothing(t *testing.T) {
	l := served(t, "a")
	a, _ := l.Token(sum("a"))
	var c Call
	token, cut := sum("a"), func(error) {}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		l.Enter(&c, token, a, cut)
		l.Leave(&c)
	}))
}

func BenchmarkLease_enter(b *testing.B) {
	names := make([]string, 64)
	for i := range names {
		names[i] = fmt.Sprint("token", i)
	}
	l := served(b, names...)
	for _, used := range []int{1, 64} {
		b.Run(fmt.Sprintf("tokens=%d", used), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				sums, all := make([][]byte, used), make([]*Token, used)
				for i := range used {
					sums[i] = sum(names[i])
					all[i], _ = l.Token(sums[i])
				}
				var c Call
				cut := func(error) {}
				for n := 0; pb.Next(); n++ {
					l.Enter(&c, sums[n%used], all[n%used], cut)
					l.Leave(&c)
				}
			})
		})
	}
}
