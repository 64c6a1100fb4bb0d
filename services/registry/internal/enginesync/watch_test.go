package enginesync

import (
	"context"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

const (
	preparing = jobsv1.Phase_PHASE_PREPARING
	running   = jobsv1.Phase_PHASE_RUNNING
)

func TestWatcher_once_appliesStatuses(t *testing.T) {
	t.Parallel()
	b := open(t)
	one, two := b.revision(), b.revision()
	go func() {
		b.jobs.streams <- brings(seen(one, preparing, nil), seen(two, running, &jobsv1.EngineReport{Ready: true}), synced(), seen(one, running, nil))
	}()
	whole, err := b.once(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.True(t, whole)
	require.Equal(t, revision.Starting, b.state(one))
	require.Equal(t, revision.Ready, b.state(two))
	require.Empty(t, b.jobs.orders, "works that the jobs service knows must not be ordered")
}

func TestWatcher_once_ordersUnknownWorks(t *testing.T) {
	t.Parallel()
	b := open(t)
	known, newer, unknown, stopped := b.revision(), b.revision(), b.revision(), b.revision()
	_, err := b.pool.Exec(t.Context(), `UPDATE revision SET work_generation = 2 WHERE id = $1`, newer.ID)
	require.NoError(t, err)
	_, err = b.Changer.Stop(t.Context(), b.d.ID, stopped.Number)
	require.NoError(t, err)
	go func() { b.jobs.streams <- brings(seen(known, preparing, nil), seen(newer, preparing, nil), synced()) }()
	whole, _ := b.once(t.Context())
	require.True(t, whole)
	got := map[string]int64{}
	for range 2 {
		in := b.ordered()
		require.Equal(t, jobsv1.Desired_DESIRED_RUNNING, in.GetDesired())
		got[in.GetWorkId()] = in.GetGeneration()
	}
	require.Equal(t, map[string]int64{newer.WorkID: 2, unknown.WorkID: 1}, got)
	require.Empty(t, b.jobs.orders, "known works and unwanted works are not ordered")
}

func TestWatcher_once_endsUnwantedWorks(t *testing.T) {
	t.Parallel()
	b := open(t)
	stopped := b.revision()
	_, err := b.Changer.Stop(t.Context(), b.d.ID, stopped.Number)
	require.NoError(t, err)
	stray := &revision.Revision{WorkID: "wrk_stray", Generation: 4}
	gone := &revision.Revision{WorkID: "wrk_gone", Generation: 1}
	go func() {
		b.jobs.streams <- brings(seen(stopped, running, nil), seen(stray, running, nil), seen(gone, jobsv1.Phase_PHASE_GONE, nil), synced())
	}()
	_, err = b.once(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	first, second := b.ordered(), b.ordered()
	require.Equal(t, []any{stopped.WorkID, int64(1)}, []any{first.GetWorkId(), first.GetGeneration()})
	require.NotNil(t, first.GetEngine(), "the same spec as before: another one would be a conflict")
	require.Equal(t, []any{"wrk_stray", int64(5)}, []any{second.GetWorkId(), second.GetGeneration()})
	for _, in := range []*jobspeerv1.PutWorkRequest{first, second} {
		require.Equal(t, jobsv1.Desired_DESIRED_GONE, in.GetDesired())
	}
	require.Empty(t, b.jobs.orders, "a work that is gone needs no order")
}

// restoredOrders records which revisions are ordered.
type restoredOrders struct{ all []string }

func (o *restoredOrders) Order(_ context.Context, _ pgx.Tx, revisionID string) error {
	o.all = append(o.all, revisionID)
	return nil
}

// Only the registry's database was restored to an earlier state, so the jobs service has higher generations. It refuses
// orders of lower generations.
func TestWatcher_once_jobsIsAhead(t *testing.T) {
	t.Parallel()
	b := open(t)
	orders := &restoredOrders{}
	b.Changer.Orders = orders
	served, pending, stopped, ended := b.revision(), b.revision(), b.revision(), b.revision()
	_, err := b.pool.Exec(t.Context(), `UPDATE revision SET state = 'ready', ready_at = now() WHERE id = $1`, served.ID)
	require.NoError(t, err)
	_, err = b.Changer.Stop(t.Context(), b.d.ID, stopped.Number)
	require.NoError(t, err)
	orders.all = nil
	ahead := func(r *revision.Revision) *revision.Revision {
		return &revision.Revision{WorkID: r.WorkID, Generation: 3}
	}
	go func() {
		b.jobs.streams <- brings(
			seen(ahead(served), running, &jobsv1.EngineReport{Ready: true, Address: "http://127.0.0.1:1"}), seen(ahead(pending), running, nil),
			seen(ahead(stopped), running, nil), seen(ended, jobsv1.Phase_PHASE_GONE, nil), synced())
	}()
	_, err = b.once(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	gone := b.ordered()
	require.Equal(t, []any{stopped.WorkID, int64(4), jobsv1.Desired_DESIRED_GONE}, []any{gone.GetWorkId(), gone.GetGeneration(), gone.GetDesired()})
	require.Equal(t, []string{served.ID, pending.ID, stopped.ID, ended.ID}, orders.all)
	for r, state := range map[*revision.Revision]revision.State{served: revision.NotReady, pending: revision.Pending, stopped: revision.Stopped} {
		now, err := b.Orderer.Revisions.ByID(t.Context(), b.pool, r.ID)
		require.NoError(t, err)
		require.Equal(t, []any{state, int64(4), ""}, []any{now.State, now.Generation, now.Engine.Address})
	}
	again := ahead(served)
	again.Generation = 4
	go func() {
		b.jobs.streams <- brings(seen(again, running, &jobsv1.EngineReport{Ready: true}), synced())
	}()
	_, err = b.once(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, revision.Ready, b.state(served), "the engine is ready in its new generation")
}

func TestWatcher_Run_reopensBrokenStream(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.revision()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	again := func(s *stream) {
		b.jobs.streams <- s
		require.NoError(t, b.clock.Await(t.Context(), 1))
		b.clock.Advance(mostPause)
	}
	again(&stream{refused: errAway})
	again(brings(seen(r, preparing, nil)))
	require.Equal(t, revision.Preparing, b.state(r))
	again(brings(synced()))
	require.Equal(t, r.WorkID, b.ordered().GetWorkId())
	b.jobs.refuse(errAway)
	again(brings(synced()))
	require.Empty(t, b.jobs.orders, "no order must be recorded, because the jobs service rejected it")
	b.jobs.refuse(nil)
	again(brings(synced()))
	require.Equal(t, r.WorkID, b.ordered().GetWorkId(), "an order is repeated until the jobs service has it")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestWatcher_once_toleratesUnstorableText(t *testing.T) {
	t.Parallel()
	b := open(t)
	r, other := b.revision(), b.revision()
	nasty := "a\x00b"
	report := &jobsv1.EngineReport{Phase: "probing", Code: nasty, Message: nasty, LogExcerpt: nasty, Address: nasty, ApiKey: nasty, Probes: []byte("{\"a\":\"\xff\"}")}
	go func() {
		status := seen(r, running, report)
		status.Observed.Detail = nasty
		ended := seen(other, jobsv1.Phase_PHASE_EXITED, nil)
		ended.Observed.Exit = &jobsv1.Exit{Code: 1, Reason: nasty, Message: nasty}
		b.jobs.streams <- brings(status, ended, synced())
	}()
	whole, err := b.once(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "only the end of the stream ends the watch")
	require.True(t, whole)
	now, err := b.Orderer.Revisions.ByID(t.Context(), b.pool, r.ID)
	require.NoError(t, err)
	require.Equal(t, revision.Probing, now.State)
	require.Equal(t, &revision.Reason{Phase: "probing", Code: "ab", Message: "ab", Log: "ab"}, now.Reason)
	require.Equal(t, "ab", now.Engine.Address)
	require.Equal(t, nasty, now.Engine.Key.Reveal(), "an API key is stored as bytes")
	require.Nil(t, now.Probes)
	require.Equal(t, revision.Failed, b.state(other))
}

func TestOrderer_Work_sendsCurrentRow(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.revision()
	work := func(revisionID string) error {
		return b.Orderer.Work(t.Context(), &river.Job[OrderArgs]{Args: OrderArgs{RevisionID: revisionID}})
	}
	require.NoError(t, work(r.ID))
	require.Equal(t, jobsv1.Desired_DESIRED_RUNNING, b.ordered().GetDesired())
	_, err := b.Changer.Stop(t.Context(), b.d.ID, r.Number)
	require.NoError(t, err)
	require.NoError(t, work(r.ID))
	require.Equal(t, jobsv1.Desired_DESIRED_GONE, b.ordered().GetDesired())

	b.jobs.refuse(errAway)
	require.ErrorIs(t, work(r.ID), errAway, "the order is retried")
	b.jobs.refuse(fault.New(fault.Conflict, "work_generation", "newer"))
	require.NoError(t, work(r.ID), "an order is not retried if the jobs service has a newer generation")
	b.jobs.refuse(nil)
	var cancelled *river.JobCancelError
	require.ErrorAs(t, work("rev_none"), &cancelled, "an order without a row is not retried")
	require.Empty(t, b.jobs.orders)
}

func TestOrderer_ordersHaveDeadline(t *testing.T) {
	t.Parallel()
	b := open(t)
	deadlines := make(chan bool, 2)
	b.Orderer.Works = timed{b.jobs, deadlines}
	require.NoError(t, b.Orderer.put(t.Context(), b.revision()))
	require.NoError(t, b.Orderer.drop(t.Context(), "wrk_none", 1))
	for range 2 {
		require.True(t, <-deadlines)
	}
}

// timed records whether orders have a deadline.
type timed struct {
	jobspeerv1.WorkPeerServiceClient

	deadlines chan bool
}

func (w timed) PutWork(ctx context.Context, _ *jobspeerv1.PutWorkRequest, _ ...grpc.CallOption) (*jobspeerv1.PutWorkResponse, error) {
	at, ok := ctx.Deadline()
	w.deadlines <- ok && !at.IsZero()
	return &jobspeerv1.PutWorkResponse{}, nil
}

func TestOrders_Order_queuedInTransaction(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.Changer.Orders = &Orders{Queue: b.queue()}
	count := func() (n int) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM river_job WHERE kind = 'engine_order'`).Scan(&n))
		return n
	}
	r := b.revision()
	require.Equal(t, 1, count())
	var args string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT args::text FROM river_job`).Scan(&args))
	require.JSONEq(t, `{"revision_id":"`+r.ID+`"}`, args, "the order holds only the ID of the row")
	err := b.tx(func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, b.Changer.Orders.Order(ctx, tx, r.ID))
		return errAway
	})
	require.ErrorIs(t, err, errAway)
	require.Equal(t, 1, count(), "a rolled back change queues no order")
}
