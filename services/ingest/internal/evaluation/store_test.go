package evaluation

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a fresh database with one run.
type harness struct {
	t    *testing.T
	pool *pgxpool.Pool
	run  groupcommit.Run
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	return &harness{t: t, pool: base.Pool("ingest"), run: groupcommit.Run{ID: "run_1", Now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}}
}

// group stores the writes of an attempt in one transaction, as the committer does.
func (b *harness) group(attempt int32, writes ...groupcommit.Write) error {
	b.t.Helper()
	r := b.run
	r.Memo = map[any]any{}
	err := pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, write := range writes {
			r.Attempt = max(r.Attempt, attempt)
			if err := write(ctx, tx, batch, &r); err != nil {
				return err
			}
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err == nil {
		b.run = r
	}
	return err
}

// chunk returns the write of one chunk of a round. The chunk has one sample for each element of users.
func chunk(step int64, index, total int32, users ...string) groupcommit.Write {
	v := &report.Validation{RunID: "run_1", Step: step, Chunk: index, Total: total}
	for _, u := range users {
		v.Samples = append(v.Samples, report.Sample{User: []byte(`"` + u + `"`)})
	}
	return WriteValidation(v)
}

func (b *harness) rounds(p request.Page) ([]Round, bool) {
	b.t.Helper()
	rounds, more, err := (&ValidationStore{Pool: b.pool}).Rounds(b.t.Context(), "run_1", 0, nil, p)
	require.NoError(b.t, err)
	return rounds, more
}

func (b *harness) users(step *int64, p request.Page) (users []string, more bool) {
	b.t.Helper()
	samples, more, err := (&ValidationStore{Pool: b.pool}).Samples(b.t.Context(), "run_1", &SampleQuery{Step: step}, p)
	require.NoError(b.t, err)
	for i, s := range samples {
		require.EqualValues(b.t, p.Offset+i, s.Index)
		users = append(users, string(s.User))
	}
	return users, more
}

func all() request.Page { return request.Page{Limit: request.MaxLimit} }

func TestWrite_chunksInAnyOrder(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, chunk(5, 2, 3, "e"), chunk(5, 0, 3, "a", "b")))
	rounds, _ := b.rounds(all())
	require.Equal(t, []int32{2, 3, 3}, []int32{rounds[0].Chunks, rounds[0].Total, rounds[0].Samples})
	require.NoError(t, b.group(1, chunk(5, 1, 3, "c", "d")))
	require.NoError(t, b.group(1, chunk(5, 0, 3, "z")), "a repeated chunk replaces the earlier one")
	rounds, _ = b.rounds(all())
	require.Len(t, rounds, 1)
	require.Equal(t, []int32{3, 3, 4}, []int32{rounds[0].Chunks, rounds[0].Total, rounds[0].Samples})
	users, more := b.users(nil, all())
	require.Equal(t, []string{`"z"`, `"c"`, `"d"`, `"e"`}, users)
	require.False(t, more)
	users, more = b.users(nil, request.Page{Limit: 2, Offset: 1})
	require.Equal(t, []string{`"c"`, `"d"`}, users)
	require.True(t, more)
}

func TestWrite_firstChunkFixesTotal(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, chunk(5, 0, 3, "a")))
	err := b.group(1, chunk(5, 1, 4, "b"))
	require.True(t, fault.HasCode(err, "total_chunks") && fault.Is(err, fault.Conflict), "%v", err)
	require.NoError(t, b.group(2, chunk(5, 1, 4, "b")), "another attempt may have another total")
}

func TestWrite_laterFiguresAdded(t *testing.T) {
	t.Parallel()
	b := open(t)
	half, one := 0.5, 1.0
	round := func(chunk int32, reward, accuracy *float64) groupcommit.Write {
		return WriteValidation(&report.Validation{RunID: "run_1", Step: 1, Chunk: chunk, Total: 3, AvgReward: reward, Accuracy: accuracy})
	}
	require.NoError(t, b.group(1, round(0, &half, nil), round(1, nil, &one), round(2, nil, nil)))
	rounds, _ := b.rounds(all())
	require.Equal(t, []*float64{&half, &one}, []*float64{rounds[0].AvgReward, rounds[0].Accuracy})
}

func TestValidationStore_Rounds_newerAttemptHidesOlder(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, chunk(1, 0, 1, "1/1"), chunk(2, 0, 1, "1/2"), chunk(3, 0, 1, "1/3")))
	require.NoError(t, b.group(2, chunk(2, 0, 1, "2/2")))
	rounds, _ := b.rounds(all())
	type seen struct {
		step    int64
		attempt int32
	}
	var got []seen
	for _, r := range rounds {
		got = append(got, seen{r.Step, r.Attempt})
	}
	require.Equal(t, []seen{{1, 1}, {2, 2}}, got)
	users, _ := b.users(nil, all())
	require.Equal(t, []string{`"2/2"`}, users, "without a step, the samples are those of the last round")
	for step, want := range map[int64][]string{1: {`"1/1"`}, 2: {`"2/2"`}, 3: nil, 4: nil} {
		users, _ := b.users(&step, all())
		require.Equal(t, want, users, step)
	}
	rounds, more := b.rounds(request.Page{Limit: 1})
	require.True(t, more)
	require.EqualValues(t, 1, rounds[0].Step)
	rounds, more = b.rounds(request.Page{Limit: 1, Offset: 1})
	require.False(t, more)
	require.EqualValues(t, 2, rounds[0].Step)
}

func TestValidationStore_Samples_verbatim(t *testing.T) {
	t.Parallel()
	b := open(t)
	reward := -1e300
	in := report.Sample{User: []byte(`"\u0000"`), Assistant: []byte(`[1, 2]`), Extra: []byte(`{"k": null}`), Reward: &reward}
	require.NoError(t, b.group(1, WriteValidation(&report.Validation{RunID: "run_1", Step: 7, Total: 1, Samples: []report.Sample{in, {}}})))
	got, _, err := (&ValidationStore{Pool: b.pool}).Samples(t.Context(), "run_1", &SampleQuery{}, all())
	require.NoError(t, err)
	require.Equal(t, []Sample{
		{
			Step: 7, Attempt: 1, User: in.User, Assistant: in.Assistant, Extra: in.Extra, Reward: &reward, Prompt: promptOf(in.User),
			Place: id.Sample{Step: 7, Attempt: 1},
		},
		{Step: 7, Attempt: 1, Index: 1, Place: id.Sample{Step: 7, Attempt: 1, Index: 1}},
	}, got)
}
