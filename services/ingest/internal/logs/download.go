package logs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Download writes the lines of a run that meet the conditions of the query, up to the line with the number last. It
// ignores the pattern and the limit of the query. At most searchPageBytes, or one row, are in memory at a time. If
// labeled is set, each line begins with its number, time, attempt and rank, separated by tabs. Download calls next
// before it writes the lines of a page.
func (s *Store) Download(ctx context.Context, to io.Writer, runID string, last int64, q *Query, labeled bool, next func()) error {
	out := bufio.NewWriterSize(to, 64<<10)
	for at := q.After; at < last; {
		page, err := s.searchPage(ctx, runID, at, last, q)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			if at == q.After {
				break // the lines were deleted before the download began
			}
			return fault.New(fault.Absent, "log_deleted", "the log of run %s was deleted during the download", runID)
		}
		next()
		for i := range page {
			if err := page[i].write(out, at, last, labeled); err != nil {
				return fmt.Errorf("send lines: %w", err)
			}
			at = min(page[i].last, last)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("send lines: %w", err)
	}
	return nil
}

// write writes the lines of the row whose numbers are greater than after, up to the one with the number last.
func (c *storedChunk) write(out *bufio.Writer, after, last int64, labeled bool) error {
	seq := c.Seq
	for text := range bytes.Lines(c.data) {
		if seq > after && seq <= last {
			if labeled {
				_, _ = out.WriteString(c.label(seq))
			}
			if _, err := out.Write(text); err != nil {
				return err
			}
		}
		seq++
	}
	return nil
}

func (c *storedChunk) label(seq int64) string {
	rank := "-"
	if c.Rank != nil {
		rank = strconv.Itoa(int(*c.Rank))
	}
	return fmt.Sprintf("%d\t%s\t%d\t%s\t", seq, c.At.UTC().Format("2006-01-02T15:04:05.000000Z"), c.Attempt, rank)
}
