package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

// refused waits until the server ends the agent's stream, and returns the error with which the stream ended.
func (a *agent) refused() (err error) {
	a.w.t.Helper()
	require.Eventually(a.w.t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		err = a.err
		return err != nil
	}, patience, 10*time.Millisecond, "the stream must end")
	return err
}

// awaitQueued waits until n jobs are queued.
func (w *harness) awaitQueued(n int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.count(`job WHERE state = 'queued'`) == n }, patience, 10*time.Millisecond)
}

func TestDeleteNode(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	a := w.join(fleet, cpuNode())
	w.submit()
	w.submit()
	first := a.attempt()
	token, err := a.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{WorkId: first.GetWorkId(), Generation: first.GetGeneration(), Fence: first.GetFence()})
	require.NoError(t, err)
	require.NotEmpty(t, token.GetToken())
	a.see(first, jobsv1.Phase_PHASE_RUNNING)
	second := a.attempt()
	require.Eventually(t, func() bool { return w.count(`attempt WHERE executor_running_at IS NOT NULL`) == 1 }, patience, 10*time.Millisecond)
	remove := &jobsv1.DeleteNodeRequest{NodeId: a.nodeID}

	_, err = w.cluster().DeleteNode(w.as(alice()), remove)
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.cluster().DeleteNode(w.as(admin()), &jobsv1.DeleteNodeRequest{NodeId: w.ids.New(id.Node)})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.Zero(t, w.count(`audit WHERE action = 'node.delete'`))
	_, err = w.cluster().DeleteNode(w.as(admin()), remove)
	require.NoError(t, err)

	// From here on the certificate is refused.
	_, err = a.client.RenewCertificate(t.Context(), &jobsv1.RenewCertificateRequest{CertificateRequest: "good"})
	require.True(t, fault.HasCode(err, "node_removed"), "%v", err)
	for name, call := range map[string]func() error{
		"token": func() error {
			_, err := a.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{WorkId: second.GetWorkId(), Generation: second.GetGeneration(), Fence: second.GetFence()})
			return err
		},
		"download": func() error {
			_, err := a.client.SignDownload(t.Context(), &jobsv1.SignDownloadRequest{WorkId: first.GetWorkId(), Generation: first.GetGeneration(), Fence: first.GetFence(), Uri: "blob://x"})
			return err
		},
	} {
		err := call()
		require.True(t, fault.Is(err, fault.Conflict) || fault.Is(err, fault.Absent), "%s: %v", name, err)
	}
	require.True(t, fault.HasCode(a.refused(), "node_removed"), "%v", a.err)
	a.connect()
	require.True(t, fault.HasCode(a.refused(), "node_removed"), "%v", a.err)
	require.Zero(t, w.count(`ingest_token WHERE revoked_at IS NULL`))

	w.awaitQueued(2)
	require.Equal(t, 1, w.count(`attempt WHERE ended_at IS NOT NULL AND end_reason = 'executor_lost' AND message = 'the node was removed'`))
	require.Zero(t, w.count(`work WHERE released_at IS NULL`))
	_, err = w.cluster().DeleteNode(w.as(admin()), remove)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.Equal(t, 1, w.count(`audit WHERE action = 'node.delete' AND target_id = '`+a.nodeID+`'`))
	require.Equal(t, 1, w.count(`event WHERE type = 'node.deleted' AND subject_id = '`+a.nodeID+`'`))

	b := w.join(fleet, cpuNode())
	require.NotEqual(t, a.nodeID, b.nodeID)
	b.attempt() // the work continues on another node
}

// If the server stops right after the deletion of a node, it gives up the node's work when it starts again.
func TestDeleteNodeCompletedAfterRestart(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	w.submit()
	a.see(a.attempt(), jobsv1.Phase_PHASE_RUNNING)
	require.Eventually(t, func() bool { return w.count(`job WHERE executor_running_at IS NOT NULL`) == 1 }, patience, 10*time.Millisecond)
	w.stop()
	_, err := w.pool.Exec(t.Context(), `DELETE FROM node`)
	require.NoError(t, err)
	w.start()
	w.awaitQueued(1)
}

// For admission, a lost node counts as capacity only until its work is given up.
func TestLostNodeStopsCountingAsCapacity(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(c *jobs.Config) { c.NodeLease, c.FenceTimeout = time.Hour, 2*time.Hour })
	fleet := w.fleet("gpu")
	w.join(fleet, gpuNode(1))
	large := w.join(fleet, gpuNode(4))
	w.awaitNode(large.nodeID, "ready")
	large.cancel()
	wants := func(r *jobsv1.SubmitJobRequest) {
		four := int32(4)
		r.Spec.Resources.Pools[0].Pool, r.Spec.Resources.Pools[0].GpusPerNode = "gpu", &four
	}
	lost := func(ago string) {
		_, err := w.pool.Exec(t.Context(), `UPDATE node SET state = 'lost', lost_at = now() - $2::interval WHERE id = $1`, large.nodeID, ago)
		require.NoError(t, err)
	}
	lost("59 minutes")
	w.submit(wants)
	lost("61 minutes")
	_, err := w.jobs().SubmitJob(w.as(alice()), w.request(wants))
	require.True(t, fault.HasCode(err, "hardware"), "%v", err)
}

func TestNodeThatNeverConnectsIsRemoved(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	connected := w.join(fleet, cpuNode())
	require.Eventually(t, func() bool { return w.count(`node WHERE state <> 'joining'`) == 1 }, patience, 10*time.Millisecond)
	tok, err := w.fleets().CreateJoinToken(w.as(admin()), &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.NoError(t, err)
	joined, err := w.fleets().JoinFleet(w.as(nobody()), &jobsv1.JoinFleetRequest{
		Token: tok.GetToken(), Hostname: "host", CertificateRequest: "good", Inventory: cpuNode(),
	})
	require.NoError(t, err)
	_, err = w.pool.Exec(t.Context(), `UPDATE node SET joined_at = joined_at - interval '59 minutes'`)
	require.NoError(t, err)
	w.stop()
	w.start()
	require.Equal(t, "joining", w.awaitNode(joined.GetNodeId(), "joining").GetState())
	_, err = w.pool.Exec(t.Context(), `UPDATE node SET joined_at = joined_at - interval '2 minutes'`)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.count(`node`) == 1 }, patience, 20*time.Millisecond)
	require.Equal(t, 1, w.count(`event WHERE type = 'node.expired' AND subject_id = '`+joined.GetNodeId()+`'`))
	connected.connect()
	w.awaitNode(connected.nodeID, "ready")
}
