package logs

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxPartial is the maximum number of unfinished lines that Partial returns, maxPartialText the maximum number of bytes of
// each, and maxPartialTotal that of all together.
const (
	maxPartial      = 256
	maxPartialText  = 4 << 10
	maxPartialTotal = 128 << 10
)

// Partial returns the lines of a run that are not finished yet, in the order of their attempts and ranks, and the number
// of the last line that was finished at that moment. Their own numbers are 0. Of a long text, it returns only the end, and
// the line is Truncated. If the texts have more than maxPartialTotal bytes, each has at most an equal share of them.
func (s *Store) Partial(ctx context.Context, runID string) (lines []Line, last int64, err error) {
	rows, err := s.Pool.Query(ctx, `SELECT coalesce(line_seq, 0), t.attempt, t.rank, t.node, t.data, t.updated_at
		FROM (SELECT $1::text AS id) wanted LEFT JOIN run USING (id) LEFT JOIN (
			SELECT attempt, rank, node, writer, substring(whole FROM greatest(1, octet_length(whole) - $3)) AS data, updated_at
			FROM log_tail CROSS JOIN rtrim(data, '\x0d'::bytea) whole WHERE run_id = $1 ORDER BY attempt, rank NULLS FIRST, writer LIMIT $2) t ON true
		ORDER BY t.attempt, t.rank NULLS FIRST, t.writer`,
		runID, maxPartial, maxPartialText) // with the byte before it, which is cut
	if err != nil {
		return nil, 0, fmt.Errorf("read unfinished lines: %w", err)
	}
	total := 0
	var attempt *int32
	var from Origin
	var data []byte
	var at *time.Time
	_, err = pgx.ForEachRow(rows, []any{&last, &attempt, &from.Rank, &from.Node, &data, &at}, func() error {
		if attempt == nil { // no line is open
			return nil
		}
		l := Line{Attempt: *attempt, Origin: from, At: s.Clock.Now(), Text: string(shown(data))}
		if at != nil {
			l.At = *at
		}
		l.cut(maxPartialText)
		total += len(l.Text)
		lines = append(lines, l)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read unfinished lines: %w", err)
	}
	for i := range lines {
		if total > maxPartialTotal {
			lines[i].cut(maxPartialTotal / len(lines))
		}
	}
	return lines, last, nil
}

// cut leaves only the end of a text, at most the given number of bytes, without the rest of a character at its beginning.
func (l *Line) cut(most int) {
	if len(l.Text) <= most {
		return
	}
	l.Text, l.Truncated = l.Text[len(l.Text)-most:], true
	for l.Text != "" && !utf8.RuneStart(l.Text[0]) {
		l.Text = l.Text[1:]
	}
}
