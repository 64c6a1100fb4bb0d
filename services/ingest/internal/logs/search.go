package logs

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Query selects lines of a run. A condition that is nil matches every line.
type Query struct {
	Pattern       *regexp.Regexp
	Level         Level // only lines of this level or a higher one; NoLevel for all
	Attempt, Rank *int32
	Since, Until  *time.Time // when the line arrived: at Since or later, and before Until
	After         int64      // only lines with greater numbers
	Limit         int        // maximum number of lines to return
}

// Found is the result of a search.
type Found struct {
	Lines []Line
	// Searched is the number of the last line that was searched.
	Searched int64
	// Complete reports whether no line is left to search.
	Complete bool
}

// The limits of one call of Search: the bytes that it searches, the rows, and the time, which ends a search with a slow
// pattern.
const (
	maxSearchedBytes = 32 << 20
	maxSearchedRows  = 64 << 10
	maxSearchTime    = 2 * time.Second
)

// The limits of one query, so that Search does not hold many rows in memory. A query returns at least one row.
const (
	searchPageBytes = 4 << 20
	searchPageRows  = 1024
)

// Search returns the lines of a run that match the query and whose numbers are not greater than last. It ends early
// when it has found as many lines as the query or maxRead allows, or when it has searched as much as one call may. Rows
// that do not meet the other conditions of the query count as searched. Each call searches at least one line, if there
// is one.
func (s *Store) Search(ctx context.Context, runID string, last int64, q *Query) (*Found, error) {
	found := &Found{Searched: min(q.After, last)}
	full, matches := s.searchEnd(ctx, q), q.matcher()
	read, rows := 0, 0
	for ended := false; !ended && read < maxSearchedBytes && rows < maxSearchedRows; {
		page, err := s.searchPage(ctx, runID, found.Searched, last, q)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			found.Searched = last
			break
		}
		for i := 0; i < len(page) && !ended; i++ {
			ended = found.add(page[i], matches, full)
			read += len(page[i].data)
		}
		rows += len(page)
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.FromContext(err)
	}
	found.Complete = found.Searched == last
	return found, nil
}

// storedChunk is a row of lines. Its embedded Line has the number of the first line and no text.
type storedChunk struct {
	Line
	last int64 // number of the last line
	// data contains the lines. It is nil if the row does not meet the conditions of the query.
	data []byte
}

// searchEnd returns a function that reports, after each line, whether a search must end.
func (s *Store) searchEnd(ctx context.Context, q *Query) func(f *Found) bool {
	begun := s.Clock.Now()
	counted, size := 0, 0
	return func(f *Found) bool {
		for ; counted < len(f.Lines); counted++ {
			size += len(f.Lines[counted].Text)
		}
		return counted >= q.Limit || size >= maxRead || ctx.Err() != nil || clock.Since(s.Clock, begun) >= maxSearchTime
	}
}

// matcher returns the condition of the query for the text of a line.
func (q *Query) matcher() func(text []byte) bool {
	levels := newLevels()
	return func(text []byte) bool {
		return (q.Level == NoLevel || levels.of(text) >= q.Level) && (q.Pattern == nil || q.Pattern.Match(text))
	}
}

// add searches a row. It calls full after each line, or once for a row that is skipped, and returns true as soon as full
// does.
func (f *Found) add(c storedChunk, matches func([]byte) bool, full func(*Found) bool) (ended bool) {
	if c.data == nil {
		f.Searched = c.last
		return full(f)
	}
	l := c.Line
	for text := range bytes.SplitSeq(bytes.TrimSuffix(c.data, []byte("\n")), []byte("\n")) {
		if l.Seq > f.Searched {
			f.Searched = l.Seq
			if matches(text) {
				l.Text = string(text)
				f.Lines = append(f.Lines, l)
			}
			if full(f) {
				return true
			}
		}
		l.Seq++
	}
	return false
}

// searchPage returns the next rows that have lines with numbers greater than after. It limits the rows before it checks
// the conditions of the query, which have no index, so that each statement reads a bounded part of the log.
func (s *Store) searchPage(ctx context.Context, runID string, after, last int64, q *Query) ([]storedChunk, error) {
	rows, err := s.Pool.Query(ctx, `SELECT first_seq, first_seq + lines - 1, attempt, rank, created_at, CASE WHEN size > 0 THEN data END
		FROM (SELECT *, sum(size) OVER (ORDER BY first_seq) - size AS preceding
			FROM (SELECT *, CASE WHEN ($4::int IS NULL OR attempt = $4) AND ($5::int IS NULL OR rank = $5)
					AND ($6::timestamptz IS NULL OR created_at >= $6) AND ($7::timestamptz IS NULL OR created_at < $7)
					THEN octet_length(data) ELSE 0 END AS size
				FROM (SELECT first_seq, lines, attempt, rank, created_at, data FROM log_chunk
					WHERE run_id = $1 AND first_seq <= $3
						AND first_seq >= coalesce((SELECT max(first_seq) FROM log_chunk WHERE run_id = $1 AND first_seq <= $2::bigint + 1), 0)
						AND first_seq + lines > $2::bigint + 1
					ORDER BY first_seq LIMIT $8) AS scanned) AS sized) AS measured
		WHERE preceding < $9 ORDER BY first_seq`,
		runID, after, last, q.Attempt, q.Rank, q.Since, q.Until, searchPageRows, searchPageBytes)
	if err != nil {
		return nil, fmt.Errorf("search lines: %w", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c storedChunk, err error) {
		err = row.Scan(&c.Seq, &c.last, &c.Attempt, &c.Rank, &c.At, &c.data)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("search lines: %w", err)
	}
	return page, nil
}
