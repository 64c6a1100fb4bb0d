package run

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestGate_Enter_admitsInOrder(t *testing.T) {
	t.Parallel()
	g := NewGate()
	a, b, share := Reader{name: "a"}, Reader{name: "b"}, ShareReader("run")
	first, err := g.Enter(t.Context(), a)
	require.NoError(t, err)
	_, err = g.Enter(t.Context(), a)
	require.NoError(t, err)
	third, err := g.queue(a)
	require.NoError(t, err)
	fourth, err := g.queue(a)
	require.NoError(t, err)
	_, err = g.Enter(t.Context(), b)
	require.NoError(t, err, "another reader passes the calls that must wait")
	_, err = g.Enter(t.Context(), share)
	require.NoError(t, err)
	first()
	<-third.admitted
	select {
	case <-fourth.admitted:
		t.Error("a reader has more than its share")
	default:
	}
	require.True(t, g.cancel(fourth))
	require.False(t, g.cancel(third))
}

func TestGate_Enter_endsWait(t *testing.T) {
	t.Parallel()
	g := NewGate()
	g.wait = time.Millisecond
	r := ShareReader("run")
	leave, err := g.Enter(t.Context(), r)
	require.NoError(t, err)
	_, err = g.Enter(t.Context(), ShareReader("other"))
	require.True(t, fault.HasCode(err, "charts_busy") && fault.Is(err, fault.Unavailable), "%v", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.Enter(ctx, r)
	require.True(t, fault.HasCode(err, fault.CodeCanceled), "%v", err)
	require.Empty(t, g.waiting)
	leave()
	require.Equal(t, 0, g.reads+g.shared+len(g.active))
}

// Two readers that always have waiting calls do not delay the call of a third one.
func TestGate_Enter_prefersReaderWithFewestCalls(t *testing.T) {
	t.Parallel()
	g := NewGate()
	a, b, c := Reader{name: "a"}, Reader{name: "b"}, Reader{name: "c"}
	var leave func()
	for _, r := range []Reader{a, a, b, b} {
		var err error
		leave, err = g.Enter(t.Context(), r)
		require.NoError(t, err)
	}
	for range maxWaiting {
		for _, r := range []Reader{a, b} {
			_, err := g.queue(r)
			require.NoError(t, err)
		}
	}
	last, err := g.queue(c)
	require.NoError(t, err)
	leave()
	<-last.admitted
}

// Searches leave room for charts, also for those of the same user.
func TestGate_Enter_searchesLeaveRoomForCharts(t *testing.T) {
	t.Parallel()
	g := NewGate()
	search := func(user string) Reader { return Reader{name: user, searches: true} }
	for range maxSearches {
		_, err := g.Enter(t.Context(), search("a"))
		require.NoError(t, err)
	}
	third, err := g.queue(search("b"))
	require.NoError(t, err)
	for range maxReads - maxSearches {
		_, err := g.Enter(t.Context(), Reader{name: "a"})
		require.NoError(t, err)
	}
	g.leave(Reader{name: "a"})
	select {
	case <-third.admitted:
		t.Error("more searches are admitted than allowed")
	default:
	}
	g.leave(search("a"))
	<-third.admitted
	require.Equal(t, "searches_busy", code(search("a").busy()))
	require.Equal(t, "charts_busy", code(Reader{}.busy()))
}

// code returns the code of an error.
func code(err error) string { return fault.From(err).Code }
