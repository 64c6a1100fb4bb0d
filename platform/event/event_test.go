package event_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

type harness struct {
	pool  *pgxpool.Pool
	clock *clock.Fake
	log   *event.Log
}

func setup(t *testing.T) *harness {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC))
	return &harness{
		pool:  pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs"),
		clock: clk, log: event.NewLog(clk, id.NewSource(clk, rand.Reader), "jobs"),
	}
}

func (b *harness) add(ctx context.Context, t *testing.T, e event.Event) event.Event {
	t.Helper()
	var out event.Event
	err := pg.InTx(ctx, b.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = b.log.Append(ctx, tx, e)
		return err
	})
	require.NoError(t, err)
	return out
}

func TestLog_Append(t *testing.T) {
	t.Parallel()
	b := setup(t)
	user := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1"})
	want := []event.Event{
		b.add(user, t, event.Event{
			SubjectKind: "job", SubjectID: "job_1", Type: "state", From: "queued", To: "running",
			Reason: "placed", Message: "on node 1", Data: json.RawMessage(`{"b": 1,"a":9007199254740993}`),
		}),
		b.add(t.Context(), t, event.Event{SubjectKind: "job", SubjectID: "job_1", Type: "log"}),
		b.add(user, t, event.Event{SubjectKind: "job", SubjectID: "job_1", Type: "log", ActorKind: "agent", ActorID: "nod_1"}),
	}
	b.add(user, t, event.Event{SubjectKind: "job", SubjectID: "job_2", Type: "state"})
	b.add(user, t, event.Event{SubjectKind: "run", SubjectID: "job_1", Type: "state"})

	got, err := event.List(t.Context(), b.pool, "job", "job_1", request.Page{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got), "Data must be preserved byte for byte, including spaces and large numbers")
	require.Equal(t, b.clock.Now(), got[0].At)
	require.NoError(t, id.Check(id.Event, got[0].ID))
	actors := [][2]string{{"user", "usr_1"}, {"service", "jobs"}, {"agent", "nod_1"}}
	for i, e := range got {
		require.Equal(t, actors[i], [2]string{e.ActorKind, e.ActorID})
	}

	got, err = event.List(t.Context(), b.pool, "job", "job_1", request.Page{Limit: 1, Offset: 1})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want[1:2], got))
	got, err = event.ListAfter(t.Context(), b.pool, "job", "job_1", want[0].Seq, request.Page{Limit: 1, Offset: 1})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want[2:], got))
	got, err = event.After(t.Context(), b.pool, "job", "job_1", want[0].Seq, 10)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want[1:], got))
	got, err = event.After(t.Context(), b.pool, "job", "job_1", want[2].Seq, 10)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestLog_Append_rolledBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	boom := errors.New("boom")
	err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.log.Append(ctx, tx, event.Event{SubjectKind: "job", SubjectID: "job_1", Type: "state"})
		require.NoError(t, err)
		return boom
	})
	require.ErrorIs(t, err, boom)
	got, err := event.List(t.Context(), b.pool, "job", "job_1", request.Page{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestAfter_concurrentWriters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var group errgroup.Group
	for writer := range 6 {
		group.Go(func() error {
			for n := range 10 {
				err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
					_, err := b.log.Append(ctx, tx, event.Event{SubjectKind: "job", SubjectID: "job_1", Type: "log", ActorKind: "w", ActorID: fmt.Sprint(writer), Message: fmt.Sprint(n)})
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	var all []event.Event
	for last := int64(0); ; last = all[len(all)-1].Seq {
		some, err := event.After(t.Context(), b.pool, "job", "job_1", last, 7)
		require.NoError(t, err)
		if len(some) == 0 {
			break
		}
		require.LessOrEqual(t, len(some), 7)
		all = append(all, some...)
	}
	require.Len(t, all, 60)
	ids, next := map[string]bool{}, map[string]int{}
	for i, e := range all {
		require.True(t, i == 0 || e.Seq > all[i-1].Seq)
		require.Equal(t, fmt.Sprint(next[e.ActorID]), e.Message, "events of one writer must be in order")
		next[e.ActorID]++
		ids[e.ID] = true
	}
	require.Len(t, ids, 60)
}

func TestAfter_limitCappedAtPageSize(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO event (id, at, subject_kind, subject_id, type, actor_kind)
		SELECT 'evt_' || n, now(), 'job', 'job_1', 'log', 'service' FROM generate_series(1, $1::int) n`, request.MaxLimit+1)
	require.NoError(t, err)
	for limit, want := range map[int]int{1: 1, request.MaxLimit: request.MaxLimit, request.MaxLimit + 1: request.MaxLimit, 1 << 20: request.MaxLimit} {
		got, err := event.After(t.Context(), b.pool, "job", "job_1", 0, limit)
		require.NoError(t, err)
		require.Len(t, got, want)
	}
}

func TestLog_Append_invalidEventFailsTransaction(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]event.Event{
		"data not JSON":    {Data: json.RawMessage(`{"a":`)},
		"zero byte":        {Message: "a\x00b"},
		"incomplete UTF-8": {Reason: "a\xc3"},
	} {
		b := setup(t)
		bad.SubjectKind, bad.SubjectID, bad.Type = "job", "job_1", "state"
		err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
			_, err := b.log.Append(ctx, tx, event.Event{SubjectKind: "job", SubjectID: "job_1", Type: "state"})
			require.NoError(t, err)
			got, err := b.log.Append(ctx, tx, bad)
			require.Zero(t, got)
			return err
		})
		require.ErrorContains(t, err, "append the event state of job job_1", name)
		got, err := event.List(t.Context(), b.pool, "job", "job_1", request.Page{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, got, name)
	}
}

func TestList_closedPool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pool.Close()
	_, err := event.List(t.Context(), b.pool, "job", "job_1", request.Page{Limit: 10})
	require.ErrorContains(t, err, "list events")
	_, err = event.After(t.Context(), b.pool, "job", "job_1", 0, 10)
	require.ErrorContains(t, err, "list events")
}

func TestDeleteBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for n := range 5 {
		b.add(t.Context(), t, event.Event{SubjectKind: "job", SubjectID: fmt.Sprint("job_", n), Type: "state"})
		b.clock.Advance(time.Hour)
	}
	before := b.clock.Now().Add(-2 * time.Hour) // the first three are older
	n, err := event.DeleteBefore(t.Context(), b.pool, before, 2)
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	left := func() (ids []string) {
		rows, err := b.pool.Query(t.Context(), `SELECT subject_id FROM event ORDER BY seq`)
		require.NoError(t, err)
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return ids
	}
	require.Equal(t, []string{"job_2", "job_3", "job_4"}, left(), "the oldest events are deleted first")
	for _, want := range []int64{1, 0} {
		n, err = event.DeleteBefore(t.Context(), b.pool, before, 2)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.Equal(t, []string{"job_3", "job_4"}, left())
}
