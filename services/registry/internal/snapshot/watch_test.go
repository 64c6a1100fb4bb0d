package snapshot

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
)

func TestWatch_unidentifiedReplicaGetsNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.connect()
	b.change()
	b.wake()
	b.clock.Advance(lookAgain)
	first := r.quiet(0, 7)
	require.NotNil(t, first.GetSnapshot())
	require.Equal(t, b.Ledger.Lease-b.Ledger.Lease/1000, first.GetLease().AsDuration())
}

func TestWatch_sendsChangeOnce(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.begin()
	require.Nil(t, r.quiet(b.now(), 2).GetSnapshot(), "a renewal without changes carries no snapshot")
	token := b.change()
	b.wake()
	news := r.next()
	require.Equal(t, b.now(), news.GetEpoch())
	require.Zero(t, news.GetRenewed(), "a snapshot alone renews no lease")
	require.Nil(t, news.GetLease())
	require.True(t, news.GetSnapshot().GetContinued())
	require.Empty(t, news.GetSnapshot().GetDeployments(), "only the change is sent")
	require.Equal(t, token.ID, news.GetSnapshot().GetTokens()[0].GetId())
	for range 3 {
		b.wake()
		b.clock.Advance(lookAgain)
	}
	again := r.quiet(news.GetEpoch(), 3)
	require.Nil(t, again.GetSnapshot())
	require.Equal(t, news.GetEpoch(), again.GetEpoch())
}

func TestWatch_lostWakeUp(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.begin()
	b.change()
	b.clock.Advance(lookAgain)
	require.Equal(t, b.now(), r.next().GetEpoch())
}

func TestWatch_slowReplicaSkipsToLatest(t *testing.T) {
	t.Parallel()
	b := open(t)
	slow, quick := b.begin(), b.begin()
	seen := map[int64]bool{}
	for range 6 {
		b.change()
		b.wake()
		news := quick.next()
		require.Equal(t, b.now(), news.GetEpoch(), "the slow replica does not delay others")
		seen[news.GetEpoch()] = true
	}
	require.Len(t, seen, 6)
	// One message was in flight when the slow replica stopped reading. All later changes arrive as one more message.
	var last int64
	for got := 0; last != b.now(); got++ {
		require.Less(t, got, 2)
		news := slow.next()
		require.Greater(t, news.GetEpoch(), last, "epochs never decrease")
		last = news.GetEpoch()
	}
	require.Nil(t, slow.quiet(last, 2).GetSnapshot())
}

func TestWatch_renewalCarriesRevocation(t *testing.T) {
	t.Parallel()
	b := open(t)
	token := b.change()
	r := b.begin()
	from, err := b.changer.Revoke(t.Context(), b.d.ID, token.ID)
	require.NoError(t, err)
	renewed := r.quiet(from-1, 2)
	require.NotNil(t, renewed.GetSnapshot(), "the snapshot must come together with the lease, not after the lease")
	require.Equal(t, from, renewed.GetEpoch())
	require.Equal(t, [][]byte{token.Hash}, renewed.GetSnapshot().GetRevokedHashes())
}

func TestWatch_storesAcknowledgedEpoch(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.begin()
	b.change()
	behind := func() int {
		found, _, err := b.Ledger.Behind(t.Context(), b.now())
		require.NoError(t, err)
		return len(found)
	}
	require.Equal(t, 1, behind())
	r.request(b.now(), 0)
	r.quiet(b.now(), 2)
	require.Zero(t, behind())
	// A replica that is cut off keeps its lease and reconnects under the same ID.
	r.cancel()
	require.ErrorIs(t, <-r.ended, context.Canceled)
	b.change()
	require.Equal(t, 1, behind(), "the replica is behind while its lease lasts")
	back := b.connect()
	back.id = r.id
	require.Equal(t, b.now(), back.quiet(b.now()-1, 9).GetEpoch())
}

func TestWatch_endsWithReplica(t *testing.T) {
	t.Parallel()
	b := open(t)
	for name, c := range map[string]struct{ cut, want error }{"closed": {io.EOF, nil}, "broken": {errCut, errCut}} {
		r := b.begin()
		r.broken <- c.cut
		require.Equal(t, c.want, <-r.ended, name)
	}
}

func TestWatch_rejectsInvalidReplica(t *testing.T) {
	t.Parallel()
	b := open(t)
	other := b.begin()
	cases := map[string]func(r *replica){
		"empty ID":           func(r *replica) { r.id = ""; r.request(0, 1) },
		"malformed ID":       func(r *replica) { r.id = "rep_1"; r.request(0, 1) },
		"ID of another kind": func(r *replica) { r.id = b.d.ID; r.request(0, 1) },
		"changed ID":         func(r *replica) { r.request(0, 1); r.next(); r.id = other.id; r.request(0, 2) },
		"no lease":           func(r *replica) { r.request(5, 0) },
		"without parts":      func(r *replica) { r.up <- &registrypeerv1.WatchRequest{ReplicaId: r.id, Renewal: 1} },
	}
	for name, do := range cases {
		r := b.connect()
		do(r)
		require.True(t, fault.Is(<-r.ended, fault.Refused), name)
	}
	require.Nil(t, other.quiet(b.now(), 2).GetSnapshot(), "other replicas keep their streams")
}

// Tokens are created and revoked while the pages of the complete state and the changes are read. A replica that applies
// the messages in order must nevertheless have exactly the tokens of the epoch.
func TestWatch_changesDuringCompleteState(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.fill(10, 2000)
	var wg sync.WaitGroup
	var kept []string
	wg.Go(func() {
		for n := range 25 {
			token, err := b.mint()
			if err == nil && n%2 == 0 {
				_, err = b.changer.Revoke(t.Context(), b.d.ID, token.ID)
			} else if err == nil {
				kept = append(kept, token.ID)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	r, state := b.connect(), newView()
	r.request(0, 1)
	state.take(r)
	wg.Wait()
	for state.epoch < b.now() {
		b.wake()
		state.take(r)
	}
	require.Len(t, state.tokens, 2000+len(kept))
	require.Subset(t, slices.Collect(maps.Values(state.tokens)), kept)
}

func TestWatch_servedStateOnly(t *testing.T) {
	t.Parallel()
	b := open(t)
	token, dead := b.change(), b.change()
	_, err := b.changer.Revoke(t.Context(), b.d.ID, dead.ID)
	require.NoError(t, err)
	_, _, err = b.changer.Suspend(t.Context(), b.d.ID, deployment.ModeDrain)
	require.NoError(t, err)
	r := b.connect()
	r.request(0, 1)
	first := r.next()
	got := first.GetSnapshot().GetDeployments()
	require.Len(t, got, 1)
	require.True(t, got[0].GetSuspended())
	require.Nil(t, got[0].GetPromoted())
	tokens := first.GetSnapshot().GetTokens()
	require.Len(t, tokens, 1, "revoked tokens are left out")
	require.Equal(t, []string{token.ID, b.d.ID}, []string{tokens[0].GetId(), tokens[0].GetDeploymentId()})
	require.Equal(t, token.Hash, tokens[0].GetHash())
	require.Equal(t, []string{b.d.ID, "usr_1", "prj_1", "team"},
		[]string{got[0].GetId(), got[0].GetOwnerId(), got[0].GetProjectId(), got[0].GetVisibility()})
	_, err = b.changer.Delete(t.Context(), b.d.ID)
	require.NoError(t, err)
	b.wake()
	gone := r.next().GetSnapshot()
	require.Equal(t, []string{b.d.ID}, gone.GetDeletedDeploymentIds())
	require.Equal(t, [][]byte{token.Hash}, gone.GetRevokedHashes(), "the tokens of the deleted deployment must be revoked")
	kept, err := b.GetDeploymentOwner(t.Context(), &registrypeerv1.GetDeploymentOwnerRequest{DeploymentId: b.d.ID})
	require.NoError(t, err)
	require.Equal(t, []string{"usr_1", "prj_1", "team"}, []string{kept.GetOwnerId(), kept.GetProjectId(), kept.GetVisibility()})
	_, err = b.GetDeploymentOwner(t.Context(), &registrypeerv1.GetDeploymentOwnerRequest{DeploymentId: "dep_none"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

// During an upgrade, a registry of an older version may run, which raises the epoch without recording what has changed.
func TestWatch_unrecordedChangeSendsCompleteState(t *testing.T) {
	t.Parallel()
	b := open(t)
	token := b.change()
	r := b.begin()
	_, err := b.Pool.Exec(t.Context(), `WITH revoked AS (UPDATE deployment_token SET revoked_at = now() WHERE id = $1)
		UPDATE snapshot_epoch SET epoch = epoch + 1`, token.ID)
	require.NoError(t, err)
	b.wake()
	news := r.next()
	require.False(t, news.GetSnapshot().GetContinued())
	require.Len(t, news.GetSnapshot().GetDeployments(), 1)
	require.Empty(t, news.GetSnapshot().GetTokens())
}

func TestWatch_endsWhenDatabaseFails(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.begin()
	b.Pool.Close()
	b.wake()
	require.Error(t, <-r.ended, "the stream ends when the database fails")
}
