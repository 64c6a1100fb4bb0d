package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// A revocation waits for a replica that is cut off, but not for one that was released.
func TestRevocation_skipsReleasedReplica(t *testing.T) {
	t.Parallel()
	h := open(t)
	token := h.token(h.deployment(ann(), "adder"), "ci")
	gone := h.watch(h.ids.New(id.Replica))
	gone.send(0, 1)
	gone.send(gone.next("the first snapshot", whole).GetEpoch(), 0)
	gone.cut()
	done := h.revoke(ann(), token, soon)
	eventually(t, func() bool {
		var dead bool
		require.NoError(t, h.db.Pool("registry").QueryRow(t.Context(), `SELECT revoked_at IS NOT NULL FROM deployment_token`).Scan(&dead))
		return dead
	}, "the revocation is stored")
	pending(t, done, "the replica may still serve")
	_, err := h.snapshots.Release(t.Context(), &registrypeerv1.ReleaseRequest{ReplicaIds: []string{gone.id}})
	require.NoError(t, err)
	require.NoError(t, <-done)

	again := h.watch(gone.id)
	again.send(0, 1)
	_, open := <-again.news
	require.False(t, open, "a released replica ID gets no new lease")
}

func TestRelease_rejectsInvalidReplicaIDs(t *testing.T) {
	t.Parallel()
	h := open(t)
	good := h.ids.New(id.Replica)
	for name, ids := range map[string][]string{
		"empty": nil, "malformed": {good, "x"}, "wrong kind": {h.ids.New(id.Deployment)}, "too many": make([]string, 101),
	} {
		_, err := h.snapshots.Release(t.Context(), &registrypeerv1.ReleaseRequest{ReplicaIds: ids})
		require.Error(t, err, name)
		require.NotEqual(t, fault.Internal, fault.From(err).Kind, "%s: %v", name, err)
	}
	var rows int
	require.NoError(t, h.db.Pool("registry").QueryRow(t.Context(), `SELECT count(*) FROM inference_replica`).Scan(&rows))
	require.Zero(t, rows)
}
