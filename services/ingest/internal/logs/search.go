package logs

import (
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
	Node          *string    // name of the machine from which the line was sent
	Since, Until  *time.Time // when the line arrived: at Since or later, and before Until
	After         int64      // only lines with greater numbers
	Limit         int        // maximum number of lines to return
	// Context is the number of lines before and after each line that matches that Search returns too, counted by their
	// numbers, except those that do not meet the conditions other than Pattern and Level.
	Context int
}

// Found is the result of a search.
type Found struct {
	Lines []Line
	// Matches are the numbers of those lines that match. The others are around one.
	Matches []int64
	// Searched is the number of the last line that needs not be searched again. A later search continues after it.
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

// Search returns the lines of a run that match the query, or are around such a line, and whose numbers are not greater than
// last. It ends early when it has found as many lines as the query or maxRead allows, or when it has searched as much as one
// call may. Rows that do not meet the other conditions of the query count as searched. Each call searches at least one line,
// if there is one. The calls of a search, each with the Searched of the one before as After, return each line once, and the
// same lines as one call without limits.
func (s *Store) Search(ctx context.Context, runID string, last int64, q *Query) (*Found, error) {
	f := newFinder(q, last, s.searchEnd(ctx, q))
	read, rows := 0, 0
	for ended := false; !ended && read < maxSearchedBytes && rows < maxSearchedRows; {
		page, err := s.searchPage(ctx, runID, f.at, last, q)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			f.at = last
			break
		}
		for i := 0; i < len(page) && !ended; i++ {
			ended = f.add(page[i])
			read += len(page[i].data)
		}
		rows += len(page)
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.FromContext(err)
	}
	f.found.Searched = f.searched()
	f.found.Complete = f.complete()
	return f.found, nil
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

// searchPage returns the next rows that have lines with numbers greater than after. It limits the rows before it checks
// the conditions of the query, which have no index, so that each statement reads a bounded part of the log.
func (s *Store) searchPage(ctx context.Context, runID string, after, last int64, q *Query) ([]storedChunk, error) {
	rows, err := s.Pool.Query(ctx, `SELECT first_seq, first_seq + lines - 1, attempt, rank, node, created_at, CASE WHEN size > 0 THEN data END
		FROM (SELECT *, sum(size) OVER (ORDER BY first_seq) - size AS preceding
			FROM (SELECT *, CASE WHEN ($4::int IS NULL OR attempt = $4) AND ($5::int IS NULL OR rank = $5) AND ($10::text IS NULL OR node = $10)
					AND ($6::timestamptz IS NULL OR created_at >= $6) AND ($7::timestamptz IS NULL OR created_at < $7)
					THEN octet_length(data) ELSE 0 END AS size
				FROM (SELECT first_seq, lines, attempt, rank, node, created_at, data FROM log_chunk
					WHERE run_id = $1 AND first_seq <= $3
						AND first_seq >= coalesce((SELECT max(first_seq) FROM log_chunk WHERE run_id = $1 AND first_seq <= $2::bigint + 1), 0)
						AND first_seq + lines > $2::bigint + 1
					ORDER BY first_seq LIMIT $8) AS scanned) AS sized) AS measured
		WHERE preceding < $9 ORDER BY first_seq`,
		runID, after, last, q.Attempt, q.Rank, q.Since, q.Until, searchPageRows, searchPageBytes, q.Node)
	if err != nil {
		return nil, fmt.Errorf("search lines: %w", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c storedChunk, err error) {
		err = row.Scan(&c.Seq, &c.last, &c.Attempt, &c.Rank, &c.Node, &c.At, &c.data)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("search lines: %w", err)
	}
	return page, nil
}
