package logs

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxPartial is the maximum number of unfinished lines that Partial returns, and maxPartialText the maximum number of
// bytes of each.
const (
	maxPartial     = 32
	maxPartialText = 4 << 10
)

// Partial returns the lines of a run that are not finished yet, in the order of their attempts and ranks. Their numbers
// are 0. Of a long text, it returns only the end.
func (s *Store) Partial(ctx context.Context, runID string) ([]Line, error) {
	rows, err := s.Pool.Query(ctx, `SELECT attempt, rank, data, updated_at FROM log_tail WHERE run_id = $1
		ORDER BY attempt, rank NULLS FIRST, writer LIMIT $2`, runID, maxPartial)
	if err != nil {
		return nil, fmt.Errorf("read unfinished lines: %w", err)
	}
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Line, err error) {
		var data []byte
		var at *time.Time
		if err := row.Scan(&l.Attempt, &l.Rank, &data, &at); err != nil {
			return l, err
		}
		if l.At = s.Clock.Now(); at != nil {
			l.At = *at
		}
		l.Text = end(shown(data))
		return l, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read unfinished lines: %w", err)
	}
	return lines, nil
}

// end returns the end of a text, at most maxPartialText bytes, without the rest of a character at its beginning.
func end(text []byte) string {
	if len(text) > maxPartialText {
		text = text[len(text)-maxPartialText:]
		for len(text) > 0 && !utf8.RuneStart(text[0]) {
			text = text[1:]
		}
	}
	return string(text)
}
