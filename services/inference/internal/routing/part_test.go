package routing

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
)

func tokens(names ...string) []*registrypeerv1.ServedToken {
	var out []*registrypeerv1.ServedToken
	for _, name := range names {
		out = append(out, &registrypeerv1.ServedToken{Id: "tok_" + name, Name: name, Hash: sum(name), DeploymentId: "dep_a"})
	}
	return out
}

func (l *Lease) knows(name string) bool {
	_, ok := l.Token(sum(name))
	return ok
}

func TestLease_apply_partsTakeEffectTogether(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	l.extend(0, time.Hour)
	_, err := l.apply(1, &registrypeerv1.Snapshot{Continued: true, Tokens: tokens("a")})
	require.ErrorIs(t, err, errNoState)
	put(t, l, 1, "a", "old")
	_, err = l.apply(5, &registrypeerv1.Snapshot{More: true, Tokens: tokens("a")})
	require.NoError(t, err)
	_, err = l.apply(5, &registrypeerv1.Snapshot{Continued: true, More: true, Tokens: tokens("b"), RevokedHashes: [][]byte{sum("a")}})
	require.NoError(t, err)
	require.True(t, l.knows("old") && l.knows("a") && !l.knows("b"), "the earlier state must be served until the last part has arrived")
	require.EqualValues(t, 1, l.Epoch())
	old, _ := l.Token(sum("old"))
	open, leave, ok := enter(t.Context(), l, sum("old"), old)
	require.True(t, ok)
	defer leave()
	gone, err := l.apply(6, &registrypeerv1.Snapshot{Continued: true, Tokens: tokens("c")})
	require.NoError(t, err)
	require.Len(t, gone, 1)
	require.ErrorIs(t, context.Cause(open), ErrRevoked)
	require.True(t, l.knows("b") && l.knows("c") && !l.knows("old") && !l.knows("a"))
	require.EqualValues(t, 6, l.Epoch())
	_, ok = l.Deployment("dep_a")
	require.False(t, ok, "the new state must have no deployment")
}

func TestLease_apply_changes(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	l.extend(0, time.Hour)
	put(t, l, 1, "a", "b")
	a, _ := l.Token(sum("a"))
	open, leave, ok := enter(t.Context(), l, sum("a"), a)
	require.True(t, ok)
	defer leave()
	_, err := l.apply(2, &registrypeerv1.Snapshot{
		Continued: true, Tokens: tokens("c"), Deployments: []*registrypeerv1.ServedDeployment{{Id: "dep_b"}},
	})
	require.NoError(t, err)
	require.True(t, l.knows("a") && l.knows("b") && l.knows("c"))
	require.NoError(t, open.Err())
	for _, id := range []string{"dep_a", "dep_b"} {
		_, ok = l.Deployment(id)
		require.True(t, ok, id)
	}
	gone, err := l.apply(3, &registrypeerv1.Snapshot{Continued: true, RevokedHashes: [][]byte{sum("a")}, DeletedDeploymentIds: []string{"dep_b"}})
	require.NoError(t, err)
	require.Len(t, gone, 1)
	require.ErrorIs(t, context.Cause(open), ErrRevoked)
	require.True(t, !l.knows("a") && l.knows("b"))
	_, ok = l.Deployment("dep_b")
	require.False(t, ok)
	_, err = l.apply(4, &registrypeerv1.Snapshot{Continued: true, RevokedHashes: [][]byte{{1}}})
	require.ErrorContains(t, err, "1 bytes")
}

func TestWatcherAcknowledgesLastPart(t *testing.T) {
	t.Parallel()
	s := watched(t)
	w := <-s.source.streams
	require.True(t, (<-w.sent).GetParts())
	part := snapshotAt(7, "a")
	part.Snapshot.More = true
	w.replies <- part
	last := renewed(8, 1, time.Hour)
	last.Snapshot = &registrypeerv1.Snapshot{Continued: true, Tokens: tokens("b")}
	w.replies <- last
	require.EqualValues(t, 8, (<-w.sent).GetAckedEpoch(), "only the last part must be acknowledged")
	require.True(t, s.lease.Valid())
	require.True(t, s.lease.knows("a") && s.lease.knows("b"))
}
