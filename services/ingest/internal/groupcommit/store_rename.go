package groupcommit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// queueRenames queues the statements that rename the writers of those items that have a former name.
func queueRenames(batch *pgx.Batch, items []*waiting) {
	var runs, streams, formers, writers []string
	seen := map[markKey]bool{}
	for _, w := range items {
		if w.Former == "" || seen[w.mark()] {
			continue
		}
		seen[w.mark()] = true
		runs, streams = append(runs, w.RunID), append(streams, w.Stream)
		formers, writers = append(formers, w.Former), append(writers, w.Key.Writer)
	}
	if len(runs) == 0 {
		return
	}
	for _, sql := range renames() {
		batch.Queue(sql, runs, streams, formers, writers)
	}
}

// renames returns one statement for each table with names of writers. The table of unfinished lines has no stream
// column, because all its rows belong to the stream logs. A row is not renamed if a row with the new name exists: a
// replica of an earlier version has then stored the same number.
func renames() []string {
	const names = ` FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) k(run, stream, former, writer)
		WHERE o.run_id = k.run AND o.writer = k.former`
	const ofStream = names + ` AND o.stream = k.stream`
	return []string{
		`UPDATE mark o SET writer = k.writer` + ofStream +
			` AND NOT EXISTS (SELECT FROM mark n WHERE n.run_id = o.run_id AND n.stream = o.stream AND n.writer = k.writer)`,
		`UPDATE ahead o SET writer = k.writer` + ofStream +
			` AND NOT EXISTS (SELECT FROM ahead n WHERE n.run_id = o.run_id AND n.stream = o.stream AND n.writer = k.writer AND n.seq = o.seq)`,
		`UPDATE request_digest o SET writer = k.writer` + ofStream +
			` AND NOT EXISTS (SELECT FROM request_digest n WHERE n.run_id = o.run_id AND n.stream = o.stream AND n.writer = k.writer AND n.seq = o.seq)`,
		`UPDATE log_tail o SET writer = k.writer` + names +
			` AND k.stream = 'logs' AND NOT EXISTS (SELECT FROM log_tail n WHERE n.run_id = o.run_id AND n.writer = k.writer)`,
	}
}

// rename renames the writer of an item, if the item has a former name.
func (c *Committer) rename(ctx context.Context, item *Item) error {
	batch := &pgx.Batch{}
	if queueRenames(batch, []*waiting{{Item: *item}}); batch.Len() == 0 {
		return nil
	}
	if err := c.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("rename the writer of a run: %w", err)
	}
	return nil
}
