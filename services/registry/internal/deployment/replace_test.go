package deployment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// hungOf returns the report on the current engine of a revision.
func hungOf(r *revision.Revision) Hung {
	return Hung{RevisionID: r.ID, ReplicaID: r.ReplicaID(), Address: r.Engine.Address, Silent: 91 * time.Second}
}

func TestChanger_ReplaceEngine_ordersAnother(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.promotedRevision()
	report, epoch, ordered := hungOf(b.revision(r.Number)), b.epoch(), len(b.orders.of)
	replaced, err := b.ReplaceEngine(b.ctx, report)
	require.NoError(t, err)
	require.True(t, replaced)
	now := b.revision(r.Number)
	require.Equal(t, revision.NotReady, now.State)
	require.Equal(t, r.Generation+1, now.Generation)
	require.True(t, now.Wanted)
	require.Empty(t, now.Engine.Address)
	require.Equal(t, "starting/engine_hung", now.Reason.Short())
	require.Equal(t, epoch+1, b.epoch(), "the epoch must be raised, because no engine is ready")
	require.Len(t, b.orders.of, ordered+1)
	events := b.events()
	last := events[len(events)-1]
	require.Equal(t, []string{"revision_state", "ready", "not_ready", "starting/engine_hung"}, []string{last.Type, last.From, last.To, last.Reason})
	require.Contains(t, last.Message, "no call got a byte from the engine for 1m31s")

	// The new execution becomes ready. Reports on the former one are repeated or late.
	again, _ := b.see(now, now.Generation, 2, serving())
	require.Equal(t, revision.Ready, again.State)
	replaced, err = b.ReplaceEngine(b.ctx, report)
	require.NoError(t, err)
	require.False(t, replaced, "a repeated report must not end the new engine")
	require.Equal(t, revision.Ready, b.revision(r.Number).State)
	require.Len(t, b.orders.of, ordered+1)
}

func TestChanger_ReplaceEngine_onlyCurrentEngine(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *harness, r *revision.Revision, h *Hung){
		"unknown revision":  func(_ *harness, _ *revision.Revision, h *Hung) { h.RevisionID = "rev_none" },
		"another execution": func(_ *harness, _ *revision.Revision, h *Hung) { h.ReplicaID = "rep_other" },
		"restarted by its agent": func(_ *harness, _ *revision.Revision, h *Hung) {
			h.Address = "http://127.0.0.1:1"
		},
		"not ready": func(b *harness, r *revision.Revision, _ *Hung) { b.see(r, 1, 1, placed(revision.PhaseRunning, nil)) },
		"stopped": func(b *harness, r *revision.Revision, _ *Hung) {
			_, err := b.Stop(b.ctx, b.d.ID, r.Number)
			require.NoError(b.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			r := b.readyRevision()
			report := hungOf(r)
			change(b, r, &report)
			before := b.everything()
			replaced, err := b.ReplaceEngine(b.ctx, report)
			require.NoError(t, err)
			require.False(t, replaced)
			require.Equal(t, before, b.everything())
		})
	}
}

func TestChanger_ReplaceEngine_concurrentReports(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.readyRevision()
	report := func() error { _, err := b.ReplaceEngine(b.ctx, hungOf(r)); return err }
	for _, err := range atOnce(report, report, report, report) {
		require.NoError(t, err)
	}
	require.Equal(t, r.Generation+1, b.revision(r.Number).Generation, "reports of several replicas on one engine must replace it once")
}
