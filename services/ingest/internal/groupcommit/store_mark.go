package groupcommit

import "github.com/jackc/pgx/v5"

type markKey struct{ run, stream, writer string }

func (i *Item) mark() markKey { return markKey{i.RunID, i.Stream, i.Key.Writer} }

// mark records which requests of a writer are stored: all up to seq, and those whose numbers are in the table ahead.
// The field ahead contains the numbers in that table that also occur in the group.
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

// pass handles the number of a request that was acknowledged but not stored. It records the number only if the mark has
// a row and the number is the next one, because then no row is added. If a request whose number is not recorded is
// repeated, it is acknowledged again, and again not stored.
func (m *mark) pass(seq int64) {
	if m.seq > 0 && seq == m.seq+1 {
		m.add(seq)
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

const storeMarksSQL = `INSERT INTO mark (run_id, stream, writer, seq) SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
	ON CONFLICT (run_id, stream, writer) DO UPDATE SET seq = excluded.seq`

// finishMarks queues the statements that store the marks. The table ahead gets its new numbers before the marks pass them.
func (g *group) finishMarks(batch *pgx.Batch) {
	var runs, streams, writers []string
	var seqs []int64
	for k, m := range g.marks {
		if len(m.added) > 0 {
			batch.Queue(`INSERT INTO ahead (run_id, stream, writer, seq) SELECT $1, $2, $3, unnest($4::bigint[])`,
				k.run, k.stream, k.writer, m.added)
		}
		if m.seq != m.before {
			runs, streams = append(runs, k.run), append(streams, k.stream)
			writers, seqs = append(writers, k.writer), append(seqs, m.seq)
		}
	}
	if len(runs) == 0 {
		return
	}
	batch.Queue(storeMarksSQL, runs, streams, writers, seqs)
	for k, m := range g.marks {
		if m.seq != m.before && (m.passed || m.first > 0 && m.first <= m.seq+1) {
			batch.Queue(passSQL, k.run, k.stream, k.writer, m.seq)
			batch.Queue(`DELETE FROM ahead a USING mark m WHERE a.run_id = $1 AND a.stream = $2 AND a.writer = $3 AND a.seq <= m.seq
				AND m.run_id = $1 AND m.stream = $2 AND m.writer = $3`, k.run, k.stream, k.writer)
		}
	}
}

// numbered returns run, stream, writer and number of the group's numbered requests, one slice each.
func numbered(items []*waiting) (runs, streams, writers []string, seqs []int64) {
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
