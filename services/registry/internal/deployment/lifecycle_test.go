package deployment

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// placed is an observation of a work on a node.
func placed(phase revision.Phase, report *revision.Report) revision.Observation {
	return revision.Observation{NodeID: "nod_1", Phase: phase, Report: report}
}

func TestChanger_Observe_stateSequence(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.candidate()
	steps := []struct {
		seen  revision.Observation
		state revision.State
		why   string
	}{
		{revision.Observation{Waiting: "no_capacity"}, revision.Pending, "pending/no_capacity"},
		{placed(revision.PhasePending, nil), revision.Pending, "pending/placed"},
		{placed(revision.PhasePreparing, nil), revision.Preparing, "preparing/preparing"},
		{placed(revision.PhaseRunning, nil), revision.Starting, "starting/starting"},
		{placed(revision.PhaseRunning, &revision.Report{Phase: "probing"}), revision.Probing, "probing/probing"},
		{serving(), revision.Ready, ""},
		{placed(revision.PhaseRunning, &revision.Report{Phase: "probing", Code: "engine_silent"}), revision.NotReady, "probing/engine_silent"},
		{serving(), revision.Ready, ""},
		{revision.Observation{Waiting: "node_lost"}, revision.NotReady, "pending/node_lost"},
	}
	for _, s := range steps {
		r, _ = b.see(r, 1, 1, s.seen)
		require.Equal(t, s.state, r.State, s.why)
		if s.why == "" {
			require.Nil(t, r.Reason)
			continue
		}
		require.Equal(t, s.why, r.Reason.Short())
	}
	var moves []string
	for _, e := range b.events() {
		if e.Type == "revision_state" && e.From != "" {
			moves = append(moves, e.From+">"+e.To)
		}
	}
	require.Equal(t, []string{
		"pending>preparing", "preparing>starting", "starting>probing", "probing>ready", "ready>not_ready", "not_ready>ready", "ready>not_ready",
	}, moves, "exactly one event per change of state, in order")
}

func TestChanger_Observe_readinessIsNotSticky(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.readyRevision()
	first := *r.ReadyAt
	require.True(t, first.Equal(b.clock.Now()))
	b.clock.Advance(time.Hour)
	r, _ = b.see(r, 1, 1, placed(revision.PhaseRunning, &revision.Report{Phase: "probing"}))
	require.True(t, first.Equal(*r.ReadyAt))
	_, err := b.Promote(b.ctx, b.d.ID, 1)
	require.True(t, fault.HasCode(err, "revision_not_ready"), "%v", err)
	require.Contains(t, fault.From(err).Text(), "revision 1 is not ready: probing/probing")
	again := serving()
	again.Report.Probes = []byte(`{"n":2}`)
	r, _ = b.see(r, 1, 1, again)
	require.True(t, b.clock.Now().Equal(*r.ReadyAt), "ReadyAt must be the time of the latest readiness")
	require.JSONEq(t, `{"n":1}`, string(r.Probes), "the probe report of the first readiness is kept")
}

func TestChanger_Observe_failingCandidateLeavesTraffic(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.promotedRevision()
	before, routed := b.epoch(), b.now()
	for _, end := range []revision.Observation{
		died(), placed(revision.PhaseRunning, &revision.Report{Phase: "failed", Code: "generate_failed"}),
		{NodeID: "nod_1", Phase: revision.PhaseExited, Exit: &revision.Exit{Reason: "env_build"}},
	} {
		r := b.candidate()
		b.see(r, 1, 1, placed(revision.PhaseRunning, nil))
		r, _ = b.see(r, 1, 1, end)
		require.Equal(t, revision.Failed, r.State)
		require.False(t, r.Wanted, "the failed candidate's engine is released")
		require.Equal(t, revision.Engine{Fence: 1}, r.Engine)
		_, err := b.Promote(b.ctx, b.d.ID, r.Number)
		require.True(t, fault.HasCode(err, "revision_not_ready"), "%v", err)
	}
	require.Equal(t, routed, b.now())
	require.Equal(t, before, b.epoch())
	require.Equal(t, revision.Ready, b.revision(1).State)
}

func TestChanger_Observe_ignoresStaleExecution(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.candidate()
	r, _ = b.see(r, 1, 5, serving())
	for name, o := range map[string][2]int64{
		"older fence": {1, 4}, "older generation": {0, 9},
	} {
		before := b.everything()
		now, wanted := b.see(r, o[0], o[1], died())
		require.True(t, wanted)
		require.Equal(t, revision.Ready, now.State, name)
		require.Equal(t, before, b.everything(), name)
	}
	r, _ = b.see(r, 1, 6, placed(revision.PhasePreparing, nil))
	require.Equal(t, revision.NotReady, r.State, "an observation of a newer execution counts")
	require.EqualValues(t, 6, r.Engine.Fence)
}

// The database has no order of this generation, because it was restored to an earlier state.
func TestChanger_Observe_generationNotOrdered(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.candidate()
	r, _ = b.see(r, 1, 5, serving())
	r, wanted := b.see(r, 2, 6, serving())
	require.True(t, wanted)
	require.Equal(t, revision.NotReady, r.State)
	require.Equal(t, "engine_lost", r.Reason.Code)
	require.Equal(t, []int64{3, 6}, []int64{r.Generation, r.Engine.Fence})
	require.Empty(t, r.Engine.Address, "the address must be cleared, because it may belong to another engine")
	r, _ = b.see(r, 3, 7, serving())
	require.Equal(t, revision.Ready, r.State)
}

func TestChanger_Observe_exitedEngineOrderedOnce(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.promotedRevision()
	ordered := len(b.orders.of)
	for range 5 {
		r, _ = b.see(r, 1, 1, died())
	}
	require.EqualValues(t, 2, r.Generation, "repeated reports of the same exit name the previous generation")
	require.Len(t, b.orders.of, ordered+1)
	for generation := int64(2); generation < 6; generation++ {
		r, _ = b.see(r, generation, generation, died())
		require.Equal(t, generation+1, r.Generation, "each exit orders a new generation; a revision that has served never fails")
		require.Equal(t, revision.NotReady, r.State)
	}
	r, _ = b.see(r, 6, 6, serving())
	require.Equal(t, revision.Ready, r.State)
	require.Equal(t, r.ID, *b.now().PromotedID)
}

func TestChanger_Observe_ignoresFinishedRevision(t *testing.T) {
	t.Parallel()
	b := open(t)
	stopped, failed := b.readyRevision(), b.candidate()
	_, err := b.Stop(b.ctx, b.d.ID, stopped.Number)
	require.NoError(t, err)
	b.see(failed, 1, 1, died())
	before := b.everything()
	for _, r := range []*revision.Revision{stopped, failed} {
		for _, o := range []revision.Observation{serving(), died(), {}, placed(revision.PhaseGone, nil)} {
			_, wanted := b.see(r, 1, 9, o)
			require.False(t, wanted, "the engine must not be wanted")
		}
	}
	require.Equal(t, before, b.everything())
}

func TestChanger_Observe_storesArbitraryEngineText(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.candidate()
	nasty := "'; DROP TABLE revision; -- \u2028 \"\\" + strings.Repeat("ü", 5000)
	r, _ = b.see(r, 1, 1, placed(revision.PhaseRunning, &revision.Report{Phase: "probing", Code: "x", Message: nasty, Log: nasty}))
	require.Equal(t, nasty, r.Reason.Message)
	require.Equal(t, nasty, r.Reason.Log)
}

func TestRevisionStore_apiKeyBoundToRow(t *testing.T) {
	t.Parallel()
	b := open(t)
	one, two := b.readyRevision(), b.readyRevision()
	require.Equal(t, "engine-key", b.revision(one.Number).Engine.Key.Reveal())
	_, err := b.Pool.Exec(t.Context(), `UPDATE revision SET api_key = (SELECT api_key FROM revision WHERE id = $1) WHERE id = $2`, one.ID, two.ID)
	require.NoError(t, err)
	_, err = b.Revisions.ByID(b.ctx, b.Pool, two.ID)
	require.ErrorContains(t, err, "decrypt the engine's API key of revision "+two.ID)
	require.NotContains(t, err.Error(), "engine-key")
	other, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("another key of 32 bytes, all of it"[:32])})
	require.NoError(t, err)
	_, err = (&revision.Store{Keys: other}).ByID(b.ctx, b.Pool, one.ID)
	require.Error(t, err, "another key must not decrypt the API key")
}

func TestRevisionStore_Save_roundTrip(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.candidate()
	started, up := b.clock.Now().Add(time.Second), b.clock.Now().Add(time.Minute)
	r.State, r.Reason, r.Generation = revision.Probing, &revision.Reason{Phase: "probing", Code: "c", Message: "m", Log: "l"}, 7
	r.Engine = revision.Engine{Fence: 9, NodeID: "nod_1", PID: 77, Address: "https://a:1", Key: secret.New("k"), StartedAt: &started, ReadyAt: &up}
	r.Probes, r.ReadyAt = []byte(`{"n": 1}`), &up
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Revisions.Save(ctx, tx, r, revision.Pending) }))
	r.PromotedAt = []time.Time{}
	require.Equal(t, r, b.revision(1))
	r.Engine, r.Reason, r.Probes, r.ReadyAt, r.Wanted = revision.Engine{}, nil, nil, nil, false
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Revisions.Save(ctx, tx, r, revision.Probing) }))
	require.Equal(t, r, b.revision(1), "fields that were cleared are empty in the stored row")
	for name, find := range map[string]func() (*revision.Revision, error){
		"by id":   func() (*revision.Revision, error) { return b.Revisions.ByID(b.ctx, b.Pool, r.ID) },
		"by work": func() (*revision.Revision, error) { return b.Revisions.ByWork(b.ctx, b.Pool, r.WorkID) },
	} {
		got, err := find()
		require.NoError(t, err, name)
		require.Equal(t, r, got, name)
	}
}

func TestChanger_Observe_resumesInNewProcess(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.promotedRevision()
	b.see(r, 1, 1, died())
	next := *b.Changer
	next.Revisions = &revision.Store{Keys: b.Revisions.Keys}
	wanted, err := next.Revisions.Wanted(b.ctx, b.Pool)
	require.NoError(t, err)
	require.Len(t, wanted, 1, "which engines must run depends only on the rows")
	require.EqualValues(t, 2, wanted[0].Generation)
	o := serving()
	o.WorkID, o.Generation, o.Fence = r.WorkID, 2, 2
	_, err = next.Observe(b.ctx, o)
	require.NoError(t, err)
	require.Equal(t, revision.Ready, b.revision(1).State)
	require.True(t, b.now().promoted(r.ID), "the revision stays promoted")
}

func TestChanger_Promote_earlierRevisionAgain(t *testing.T) {
	t.Parallel()
	b := open(t)
	one, two := b.promotedRevision(), b.promotedRevision()
	b.clock.Advance(time.Minute)
	before := b.epoch()
	d, err := b.Promote(b.ctx, b.d.ID, one.Number)
	require.NoError(t, err)
	require.Equal(t, []string{one.ID, two.ID}, []string{*d.PromotedID, *d.PreviousID})
	require.Equal(t, d, b.now(), "Promote returns what is stored")
	require.Equal(t, before+1, b.epoch())
	require.Len(t, b.revision(1).PromotedAt, 2, "each promotion is recorded")
	require.Equal(t, time.Minute, b.revision(1).PromotedAt[1].Sub(b.revision(1).PromotedAt[0]))
	_, err = b.Stop(b.ctx, b.d.ID, two.Number)
	require.NoError(t, err)
	_, err = b.Promote(b.ctx, b.d.ID, two.Number)
	require.True(t, fault.HasCode(err, "revision_not_ready"), "a stopped revision cannot be promoted: %v", err)
	require.Contains(t, fault.From(err).Text(), "stopped/stopped")
}

func TestChanger_Promote_keepsDeploymentSuspended(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.readyRevision()
	_, err := b.Pool.Exec(t.Context(), `UPDATE deployment SET state = 'suspended'`)
	require.NoError(t, err)
	_, err = b.Promote(b.ctx, b.d.ID, r.Number)
	require.NoError(t, err)
	require.Equal(t, StateSuspended, b.now().State)
	require.Equal(t, r.ID, *b.now().PromotedID)
}
