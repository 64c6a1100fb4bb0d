package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

// Origin is where output comes from.
type Origin struct {
	Rank *int32  // of the process that wrote it; nil if the report had no rank
	Node *string // name of the machine; nil if the report had none
}

// tail is the unfinished line of a writer.
type tail struct {
	attempt int32
	from    Origin
	data    []byte
}

type memo struct{ writer string }

// Write stores pieces of output. If the request has no writer, its last line is finished, because no later request can
// continue the line. An unfinished line of an older attempt is finished by the next request of its writer, or by the
// first request of any writer in a newer attempt.
func Write(key groupcommit.Key, from Origin, pieces []string) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		r.LogCut = false
		writer := key.Writer
		if key.Seq == 1 && r.Attempt > 1 {
			if err := endUpTo(ctx, tx, batch, r, r.Attempt-1); err != nil {
				return err
			}
		}
		if writer == "" {
			lines, rest := Split(nil, pieces)
			if len(rest) > 0 {
				lines = append(lines, shown(rest))
			}
			insert(batch, r, r.Attempt, from, lines)
			return nil
		}
		t, err := load(ctx, tx, r, writer)
		if err != nil {
			return err
		}
		before := t.data
		if t.attempt != r.Attempt && len(before) > 0 {
			insert(batch, r, t.attempt, t.from, [][]byte{shown(before)})
			t.data = nil
		}
		lines, rest := Split(t.data, pieces)
		insert(batch, r, r.Attempt, from, lines)
		t.attempt, t.from, t.data = r.Attempt, from, rest
		keep(batch, r, writer, t, len(before) > 0)
		return nil
	}
}

// Cut stores the given note as the last line of a log that has reached its maximum, unless the note is stored already.
func Cut(note []byte) groupcommit.Write {
	return func(_ context.Context, _ pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		if !r.LogCut {
			insert(batch, r, r.Attempt, Origin{}, [][]byte{note})
			r.LogCut = true
		}
		return nil
	}
}

// load returns the unfinished line of a writer, including changes by earlier writes of this group. The result is empty
// if the writer has no unfinished line.
func load(ctx context.Context, tx pgx.Tx, r *groupcommit.Run, writer string) (*tail, error) {
	if t, ok := r.Memo[memo{writer}].(*tail); ok {
		return t, nil
	}
	t := &tail{}
	err := tx.QueryRow(ctx, `SELECT attempt, rank, node, data FROM log_tail WHERE run_id = $1 AND writer = $2`, r.ID, writer).
		Scan(&t.attempt, &t.from.Rank, &t.from.Node, &t.data)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("load an unfinished line: %w", err)
	}
	r.Memo[memo{writer}] = t
	return t, nil
}

// keep queues the statement that stores the unfinished line of a writer, or deletes the stored line if t is empty. The
// parameter was states whether a line is stored.
func keep(batch *pgx.Batch, r *groupcommit.Run, writer string, t *tail, was bool) {
	switch {
	case len(t.data) > 0:
		batch.Queue(`INSERT INTO log_tail (run_id, writer, attempt, rank, node, data, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (run_id, writer) DO UPDATE SET attempt = $3, rank = $4, node = $5, data = $6, updated_at = $7`,
			r.ID, writer, t.attempt, t.from.Rank, t.from.Node, t.data, r.Now)
	case was:
		batch.Queue(`DELETE FROM log_tail WHERE run_id = $1 AND writer = $2`, r.ID, writer)
	}
}

func insert(batch *pgx.Batch, r *groupcommit.Run, attempt int32, from Origin, lines [][]byte) {
	for _, c := range chunks(lines) {
		batch.Queue(`INSERT INTO log_chunk (run_id, first_seq, lines, attempt, rank, node, data, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			r.ID, r.LineSeq+1, c.lines, attempt, from.Rank, from.Node, c.data, r.Now)
		r.LineSeq += int64(c.lines)
		r.Fresh = true
	}
}

// End finishes all unfinished lines of a run that is being closed.
func End(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
	return endUpTo(ctx, tx, batch, r, r.Attempt)
}

// EndUpTo returns a write that finishes the unfinished lines of all attempts up to the given one.
func EndUpTo(last int32) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		return endUpTo(ctx, tx, batch, r, last)
	}
}

// endUpTo finishes the unfinished lines of all attempts up to the given one, including lines that this group wrote.
func endUpTo(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run, last int32) error {
	if err := r.Flush(ctx, tx, batch); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `DELETE FROM log_tail WHERE run_id = $1 AND attempt <= $2 RETURNING attempt, rank, node, data`, r.ID, last)
	if err != nil {
		return fmt.Errorf("finish unfinished lines: %w", err)
	}
	var t tail
	_, err = pgx.ForEachRow(rows, []any{&t.attempt, &t.from.Rank, &t.from.Node, &t.data}, func() error {
		insert(batch, r, t.attempt, t.from, [][]byte{shown(t.data)})
		return nil
	})
	if err != nil {
		return fmt.Errorf("finish unfinished lines: %w", err)
	}
	return nil
}

// Line is one line of a run's log.
type Line struct {
	Origin

	Seq     int64
	Attempt int32
	At      time.Time
	Text    string
	// Truncated states whether Text is only the end of a line that is not finished.
	Truncated bool
}

// Store reads lines.
type Store struct {
	Pool  pg.Querier
	Clock clock.Clock
}

// maxRead is the approximate maximum number of bytes that Range returns.
const maxRead = 1 << 20

// Range returns the lines whose numbers are greater than the given one, at most limit of them. If these lines have more
// than maxRead bytes, Range returns only the first ones, but at least one.
func (s *Store) Range(ctx context.Context, runID string, after int64, limit int) ([]Line, error) {
	rows, err := s.Pool.Query(ctx, `SELECT first_seq, attempt, rank, node, created_at, data FROM log_chunk
		WHERE run_id = $1 AND first_seq <= $2::bigint + $3::bigint
			AND first_seq >= coalesce((SELECT max(first_seq) FROM log_chunk WHERE run_id = $1 AND first_seq <= $2::bigint + 1), 0)
		ORDER BY first_seq`, runID, after, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	defer rows.Close()
	var lines []Line
	for size := 0; size < maxRead && len(lines) < limit && rows.Next(); {
		var l Line
		var data []byte
		if err := rows.Scan(&l.Seq, &l.Attempt, &l.Rank, &l.Node, &l.At, &data); err != nil {
			return nil, fmt.Errorf("read lines: %w", err)
		}
		for text := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
			if l.Seq > after && len(lines) < limit {
				l.Text = string(text)
				lines = append(lines, l)
				size += len(text)
			}
			l.Seq++
		}
	}
	return lines, rows.Err()
}
