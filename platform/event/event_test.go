package event_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
)

type bench struct {
	pool  *pgxpool.Pool
	clock *clock.Fake
	log   *event.Log
}

func setup(t *testing.T) *bench {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC))
	return &bench{
		pool:  pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs"),
		clock: clk, log: event.NewLog(clk, id.NewSource(clk, rand.Reader), "jobs"),
	}
}

func (b *bench) add(ctx context.Context, t *testing.T, e event.Event) event.Event {
	t.Helper()
	var out event.Event
	err := pg.InTx(ctx, b.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = b.log.Append(ctx, tx, e)
		return err
	})
	require.NoError(t, err)
	return out
}

func TestWhatIsAppendedIsListed(t *testing.T) {
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

	got, err := event.List(t.Context(), b.pool, "job", "job_1", page.Page{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got), "also the text of data, spaces and large numbers included")
	require.Equal(t, b.clock.Now(), got[0].At)
	require.NoError(t, id.Check(id.Event, got[0].ID))
	actors := [][2]string{{"user", "usr_1"}, {"service", "jobs"}, {"agent", "nod_1"}}
	for i, e := range got {
		require.Equal(t, actors[i], [2]string{e.ActorKind, e.ActorID})
	}

	got, err = event.List(t.Context(), b.pool, "job", "job_1", page.Page{Limit: 1, Offset: 1})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want[1:2], got))
	got, err = event.After(t.Context(), b.pool, "job", "job_1", want[0].Seq, 10)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want[1:], got))
	got, err = event.After(t.Context(), b.pool, "job", "job_1", want[2].Seq, 10)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestAnEventGoesWithItsTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	boom := errors.New("boom")
	err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.log.Append(ctx, tx, event.Event{SubjectKind: "job", SubjectID: "job_1", Type: "state"})
		require.NoError(t, err)
		return boom
	})
	require.ErrorIs(t, err, boom)
	got, err := event.List(t.Context(), b.pool, "job", "job_1", page.Page{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, got)
}
