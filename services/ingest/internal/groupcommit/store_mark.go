package groupcommit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

type markKey struct{ run, stream, writer string }

func (i *Item) mark() markKey { return markKey{i.RunID, i.Stream, i.Key.Writer} }

// mark records which requests of a writer are stored: all up to seq, and those whose numbers are in ahead. Of the
// stored numbers beyond seq, ahead contains only those that occur in the group.
type mark struct {
	seq    int64
	before int64 // seq as loaded
	first  int64 // the lowest number of the writer in the table ahead, as loaded, or 0
	ahead  map[int64]bool
	added  []int64 // the numbers to insert into the table ahead
	passed bool    // seq has passed a number in ahead
}

func (m *mark) has(seq int64) bool { return seq <= m.seq || m.ahead[seq] }

func (m *mark) add(seq int64) {
	if seq != m.seq+1 {
		m.ahead[seq] = true
		m.added = append(m.added, seq)
		return
	}
	for m.seq = seq; m.ahead[m.seq+1]; m.seq++ {
		m.passed = true
	}
}

const marksSQL = `SELECT DISTINCT k.r, k.s, k.w, coalesce(m.seq, 0),
		coalesce((SELECT min(a.seq) FROM ahead a WHERE a.run_id = k.r AND a.stream = k.s AND a.writer = k.w), 0)
	FROM unnest($1::text[], $2::text[], $3::text[]) k(r, s, w)
	LEFT JOIN mark m ON m.run_id = k.r AND m.stream = k.s AND m.writer = k.w`

// passSQL increases mark.seq, which is $4, as long as the next number is in the table ahead.
const passSQL = `UPDATE mark SET seq = $4 + (SELECT count(*) FROM (SELECT a.seq, row_number() OVER (ORDER BY a.seq) AS n FROM ahead a
		WHERE a.run_id = $1 AND a.stream = $2 AND a.writer = $3 AND a.seq > $4) t WHERE t.seq = $4 + t.n)
	WHERE run_id = $1 AND stream = $2 AND writer = $3`

// finish queues the statements that store the mark.
func (m *mark) finish(batch *pgx.Batch, k markKey) {
	if len(m.added) > 0 {
		batch.Queue(`INSERT INTO ahead (run_id, stream, writer, seq) SELECT $1, $2, $3, unnest($4::bigint[])`,
			k.run, k.stream, k.writer, m.added)
	}
	if m.seq == m.before {
		return
	}
	batch.Queue(`INSERT INTO mark (run_id, stream, writer, seq) VALUES ($1, $2, $3, $4)
		ON CONFLICT (run_id, stream, writer) DO UPDATE SET seq = $4`, k.run, k.stream, k.writer, m.seq)
	if m.passed || (m.first > 0 && m.first <= m.seq+1) {
		batch.Queue(passSQL, k.run, k.stream, k.writer, m.seq)
		batch.Queue(`DELETE FROM ahead a USING mark m WHERE a.run_id = $1 AND a.stream = $2 AND a.writer = $3 AND a.seq <= m.seq
			AND m.run_id = $1 AND m.stream = $2 AND m.writer = $3`, k.run, k.stream, k.writer)
	}
}

// columns returns run, stream, writer and number of the group's numbered requests, one slice each.
func columns(items []*waiting) (runs, streams, writers []string, seqs []int64) {
	for _, w := range items {
		if w.Key.Seq > 0 {
			runs, streams = append(runs, w.RunID), append(streams, w.Stream)
			writers, seqs = append(writers, w.Key.Writer), append(seqs, w.Key.Seq)
		}
	}
	return runs, streams, writers, seqs
}

func (g *group) scanMarks(rows pgx.Rows) error {
	for rows.Next() {
		var k markKey
		var seq, first int64
		if err := rows.Scan(&k.run, &k.stream, &k.writer, &seq, &first); err != nil {
			return err
		}
		m := g.marks[k]
		m.seq, m.before, m.first = seq, seq, first
	}
	return rows.Err()
}

func (g *group) scanAhead(rows pgx.Rows) error {
	for rows.Next() {
		var k markKey
		var seq int64
		if err := rows.Scan(&k.run, &k.stream, &k.writer, &seq); err != nil {
			return err
		}
		g.marks[k].ahead[seq] = true
	}
	return rows.Err()
}

// maxWriters is the maximum number of writers in the result of Watermark. A writer counts once for each stream.
const maxWriters = 10_000

// Watermark returns, for each stream and writer, the highest number up to which all requests are stored.
func Watermark(ctx context.Context, q pg.Querier, runID string) (map[string]map[string]int64, error) {
	rows, err := q.Query(ctx, `SELECT stream, writer, seq FROM mark WHERE run_id = $1 ORDER BY stream, writer LIMIT $2`,
		runID, maxWriters)
	if err != nil {
		return nil, fmt.Errorf("read the watermark: %w", err)
	}
	defer rows.Close()
	marks := map[string]map[string]int64{}
	for rows.Next() {
		var stream, writer string
		var seq int64
		if err := rows.Scan(&stream, &writer, &seq); err != nil {
			return nil, fmt.Errorf("read the watermark: %w", err)
		}
		if marks[stream] == nil {
			marks[stream] = map[string]int64{}
		}
		marks[stream][writer] = seq
	}
	return marks, rows.Err()
}
