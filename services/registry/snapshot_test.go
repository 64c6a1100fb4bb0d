package registry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// replica is a fake replica of inference; the test decides when it acknowledges.
type replica struct {
	t      *testing.T
	id     string
	stream registrypeerv1.SnapshotService_WatchClient
	cut    context.CancelFunc
	news   chan *registrypeerv1.WatchResponse
}

// watch opens the stream of a replica. It does not request the lease.
func (h *harness) watch(replicaID string) *replica {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	h.t.Cleanup(cancel)
	stream, err := h.snapshots.Watch(ctx)
	require.NoError(h.t, err)
	r := &replica{t: h.t, id: replicaID, stream: stream, cut: cancel, news: make(chan *registrypeerv1.WatchResponse, 100)}
	go func() {
		defer close(r.news)
		for {
			in, err := stream.Recv()
			if err != nil {
				return
			}
			r.news <- in
		}
	}()
	return r
}

func (r *replica) send(acked, renewal int64) {
	r.t.Helper()
	require.NoError(r.t, r.stream.Send(&registrypeerv1.WatchRequest{ReplicaId: r.id, AckedEpoch: acked, Renewal: renewal, Parts: true}))
}

// next waits for a message for which the function want returns true.
func (r *replica) next(what string, want func(*registrypeerv1.WatchResponse) bool) *registrypeerv1.WatchResponse {
	r.t.Helper()
	timeout := time.After(soon)
	for {
		select {
		case in, ok := <-r.news:
			require.True(r.t, ok, "the stream ended before "+what)
			if want(in) {
				return in
			}
		case <-timeout:
			require.Fail(r.t, "timed out waiting for "+what)
		}
	}
}

func whole(in *registrypeerv1.WatchResponse) bool { return in.GetSnapshot() != nil }

// served returns a deployment of a snapshot, or nil.
func served(in *registrypeerv1.WatchResponse, deploymentID string) *registrypeerv1.ServedDeployment {
	for _, d := range in.GetSnapshot().GetDeployments() {
		if d.GetId() == deploymentID {
			return d
		}
	}
	return nil
}

func (h *harness) token(d *registryv1.Deployment, name string) *registryv1.DeploymentToken {
	h.t.Helper()
	made, err := h.deployments.CreateDeploymentToken(h.as(ann()), &registryv1.CreateDeploymentTokenRequest{DeploymentId: d.GetId(), Name: name})
	require.NoError(h.t, err)
	return made
}

// revoke starts a revocation with a timeout. Its result is sent to the returned channel.
func (h *harness) revoke(c *authn.Caller, token *registryv1.DeploymentToken, timeout time.Duration) <-chan error {
	ctx, cancel := context.WithTimeout(h.as(c), timeout)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		_, err := h.deployments.RevokeDeploymentToken(ctx, &registryv1.RevokeDeploymentTokenRequest{
			DeploymentId: token.GetDeploymentId(), TokenId: token.GetId(),
		})
		done <- err
	}()
	return done
}

// pending asserts that the revocation has not returned yet.
func pending(t *testing.T, done <-chan error, why string) {
	t.Helper()
	select {
	case err := <-done:
		require.Fail(t, "returned too early: "+why, "%v", err)
	default:
	}
}

func TestSnapshotWatch_sendsServedState(t *testing.T) {
	t.Parallel()
	h := open(t)
	d := h.deployment(ann(), "adder")
	replica := h.watch(h.ids.New(id.Replica))
	replica.send(0, 1)
	first := replica.next("the first snapshot", whole)
	require.Equal(t, int64(1), first.GetRenewed())
	require.Equal(t, h.cfg.AuthLease-h.cfg.AuthLease/1000, first.GetLease().AsDuration(), "the lease is shortened by 0.1% for clock drift")
	got := served(first, d.GetId())
	require.NotNil(t, got)
	require.Nil(t, got.GetPromoted())
	require.Equal(t, ann().Subject, got.GetOwnerId())
	require.Equal(t, "all", got.GetVisibility())
	replica.send(first.GetEpoch(), 2)
	renewed := replica.next("a renewal", func(in *registrypeerv1.WatchResponse) bool { return in.GetRenewed() == 2 })
	require.Nil(t, renewed.GetSnapshot(), "a renewal without changes carries no snapshot")

	token := h.token(d, "ci")
	in := replica.next("the token", func(in *registrypeerv1.WatchResponse) bool { return len(in.GetSnapshot().GetTokens()) == 1 })
	require.Greater(t, in.GetEpoch(), first.GetEpoch())
	require.Equal(t, token.GetId(), in.GetSnapshot().GetTokens()[0].GetId())
	require.Equal(t, d.GetId(), in.GetSnapshot().GetTokens()[0].GetDeploymentId())
	require.Len(t, in.GetSnapshot().GetTokens()[0].GetHash(), 32)

	r := h.candidate(ann(), d)
	o := h.ready(r)
	_, err := h.promote(r)
	require.NoError(t, err)
	in = replica.next("the promoted revision", func(in *registrypeerv1.WatchResponse) bool { return served(in, d.GetId()).GetPromoted() != nil })
	p := served(in, d.GetId()).GetPromoted()
	require.True(t, p.GetReady())
	require.Equal(t, "http://127.0.0.1:4000", p.GetReplicas()[0].GetAddress())
	require.Equal(t, "engine-key", p.GetReplicas()[0].GetApiKey())
	var sealed string
	require.NoError(t, h.db.Pool("registry").QueryRow(t.Context(), `SELECT r::text FROM revision r`).Scan(&sealed))
	require.NotContains(t, sealed, "engine-key")

	h.reports(o, 1, nil)
	in = replica.next("the loss of the engine", func(in *registrypeerv1.WatchResponse) bool {
		p := served(in, d.GetId()).GetPromoted()
		return p != nil && !p.GetReady()
	})
	require.Equal(t, "starting/starting", served(in, d.GetId()).GetPromoted().GetReason())
	require.Empty(t, served(in, d.GetId()).GetPromoted().GetReplicas())
}

func TestRevocation_waitsForReplicasWithLease(t *testing.T) {
	t.Parallel()
	h := open(t)
	d := h.deployment(ann(), "adder")
	token := h.token(d, "ci")
	replicas := []*replica{h.watch(h.ids.New(id.Replica)), h.watch(h.ids.New(id.Replica))}
	for _, r := range replicas {
		r.send(0, 1)
		r.send(r.next("a snapshot", whole).GetEpoch(), 0)
	}
	done := h.revoke(ann(), token, soon)
	var epochs []int64
	for _, r := range replicas {
		in := r.next("the revocation", func(in *registrypeerv1.WatchResponse) bool {
			return len(in.GetSnapshot().GetRevokedHashes()) == 1
		})
		epochs = append(epochs, in.GetEpoch())
	}
	pending(t, done, "no replica has acknowledged")
	replicas[0].send(epochs[0], 0)
	eventually(t, func() bool { return h.acked(replicas[0].id) == epochs[0] }, "the first acknowledgement is stored")
	pending(t, done, "one replica has not acknowledged")
	replicas[1].send(epochs[1], 0)
	require.NoError(t, <-done)

	list, err := h.deployments.ListDeploymentTokens(h.as(ann()), &registryv1.ListDeploymentTokensRequest{DeploymentId: d.GetId()})
	require.NoError(t, err)
	require.NotNil(t, list.GetTokens()[0].GetRevokedAt())
	require.NoError(t, <-h.revoke(ann(), token, soon), "a repeat succeeds")
	refused(t, <-h.revoke(bob(), token, soon), fault.Forbidden, "only by its owner")
	refused(t, <-h.revoke(ann(), &registryv1.DeploymentToken{DeploymentId: d.GetId(), Id: "tok_01k00000000000000000000001"}, soon),
		fault.Absent, "no such deployment token")
}

// acked returns the epoch that the database records as acknowledged by a replica.
func (h *harness) acked(replicaID string) (epoch int64) {
	h.t.Helper()
	require.NoError(h.t, h.db.Pool("registry").QueryRow(h.t.Context(),
		`SELECT acked_epoch FROM inference_replica WHERE replica_id = $1`, replicaID).Scan(&epoch))
	return epoch
}

func TestRevocation_waitsForLeaseOfCutOffReplica(t *testing.T) {
	t.Parallel()
	h := open(t)
	token := h.token(h.deployment(ann(), "adder"), "ci")
	replica := h.watch(h.ids.New(id.Replica))
	replica.send(0, 1)
	replica.send(replica.next("a snapshot", whole).GetEpoch(), 0)
	replica.cut()
	done := h.revoke(ann(), token, soon)
	rows := h.db.Pool("registry")
	eventually(t, func() bool {
		var dead bool
		require.NoError(t, rows.QueryRow(t.Context(), `SELECT revoked_at IS NOT NULL FROM deployment_token`).Scan(&dead))
		return dead
	}, "the revocation is stored")
	pending(t, done, "the replica may still serve")
	_, err := rows.Exec(t.Context(), `UPDATE inference_replica SET lease_until = clock_timestamp()`)
	require.NoError(t, err)
	require.NoError(t, <-done)

	// The replica reconnects with an old snapshot: its lease is renewed only together with a new snapshot.
	back := h.watch(replica.id)
	back.send(1, 7)
	in := back.next("the renewal", func(in *registrypeerv1.WatchResponse) bool { return in.GetRenewed() == 7 })
	require.NotNil(t, in.GetSnapshot())
	require.False(t, in.GetSnapshot().GetContinued())
	require.Empty(t, in.GetSnapshot().GetTokens())
}

func TestRevocation_concurrentAcrossTwoRegistries(t *testing.T) {
	t.Parallel()
	h := open(t)
	other := rpc.Memory(rpc.ClientOptions{Clock: h.clock})
	h.peers(other)
	h.start(other)
	d := h.deployment(ann(), "adder")
	var tokens []*registryv1.DeploymentToken
	for range 8 {
		tokens = append(tokens, h.token(d, "ci"))
	}
	// The replica watches the first registry; the revocations go to the second.
	r := h.watch(h.ids.New(id.Replica))
	r.send(0, 1)
	r.send(r.next("a snapshot", whole).GetEpoch(), 0)
	h.connect(other)
	var waits []<-chan error
	for _, token := range tokens {
		waits = append(waits, h.revoke(ann(), token, soon))
	}
	last, revoked := int64(0), 0
	r.next("the last revocation", func(in *registrypeerv1.WatchResponse) bool {
		if in.GetEpoch() > last && whole(in) {
			last = in.GetEpoch()
			r.send(last, 0)
		}
		revoked += len(in.GetSnapshot().GetRevokedHashes())
		return revoked == len(tokens)
	})
	for _, done := range waits {
		require.NoError(t, <-done)
	}
	require.Equal(t, last, h.acked(r.id))
}

func TestSnapshotWatch_oneReplicaPerStream(t *testing.T) {
	t.Parallel()
	h := open(t)
	for _, ids := range [][2]string{{"nobody", "nobody"}, {h.ids.New(id.Replica), h.ids.New(id.Replica)}} {
		stream, err := h.snapshots.Watch(t.Context())
		require.NoError(t, err)
		for n, replicaID := range ids {
			_ = stream.Send(&registrypeerv1.WatchRequest{ReplicaId: replicaID, Renewal: int64(n + 1), Parts: true})
		}
		for err == nil {
			_, err = stream.Recv()
		}
		refused(t, err, fault.Refused, "one replica")
	}
}

func TestSnapshotWatch_rejectsAckBeforeLease(t *testing.T) {
	t.Parallel()
	h := open(t)
	stream, err := h.snapshots.Watch(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&registrypeerv1.WatchRequest{ReplicaId: h.ids.New(id.Replica), AckedEpoch: 5, Parts: true}))
	_, err = stream.Recv()
	refused(t, err, fault.Refused, "has no lease")
}
