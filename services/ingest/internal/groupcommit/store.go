package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// attempt stores items in one transaction and returns the result of each item. A repeat, a number that is reused with
// another body, and an item that its write refuses change nothing, so the other items are stored without them. Any
// other failure of an item fails the transaction with an itemError.
func (c *Committer) attempt(ctx context.Context, items []*waiting) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	var results []result
	var g *group
	err := pg.InBatches(ctx, c.pool, func(batch *pgx.Batch) {
		g = &group{runs: map[string]*Run{}, marks: map[markKey]*mark{}, digests: map[request]Digest{}}
		g.load(batch, items)
	}, func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch) error {
		results = make([]result, len(items))
		for i, w := range items {
			repeated, err := g.known(w)
			if results[i] = (result{repeated: repeated, err: err}); repeated || err != nil {
				continue
			}
			if results[i], err = g.stage(ctx, tx, batch, w, c); err != nil {
				return err
			}
		}
		g.finish(batch, c.clock.Now())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("store reports: %w", err)
	}
	g.committed(c)
	return results, nil
}

// group is the state of one transaction.
type group struct {
	runs  map[string]*Run
	marks map[markKey]*mark
	// digests holds the digests of the group's numbered requests, as far as they are known. noted lists the requests
	// whose digests are not stored yet.
	digests map[request]Digest
	noted   []request
}

const lockSQL = `SELECT id, attempt, line_seq, batch_seq, key_count, score_count, rollout_count,
		report_bytes, point_bytes, log_bytes, artifact_bytes, log_cut, closed_at IS NOT NULL, key_moves FROM run
	WHERE id = ANY($1) AND expired_at IS NULL ORDER BY id FOR NO KEY UPDATE`

// load queues the statements that lock the runs, and read the marks of the writers and the digests of the requests. They
// lock in the order of the run ids, which prevents deadlocks between groups.
func (g *group) load(batch *pgx.Batch, items []*waiting) {
	ids := make([]string, 0, len(items))
	for _, w := range items {
		ids = append(ids, w.RunID)
		if w.Key.Seq > 0 {
			g.marks[w.mark()] = &mark{ahead: map[int64]bool{}}
		}
	}
	slices.Sort(ids)
	batch.Queue(lockSQL, slices.Compact(ids)).Query(g.scanRuns)
	queueRenames(batch, items)
	if runs, streams, writers, seqs := numbered(items); len(runs) > 0 {
		batch.Queue(marksSQL, runs, streams, writers).Query(g.scanMarks)
		batch.Queue(`SELECT a.run_id, a.stream, a.writer, a.seq FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) k(r, s, w, n)
			JOIN ahead a ON a.run_id = k.r AND a.stream = k.s AND a.writer = k.w AND a.seq = k.n`, runs, streams, writers, seqs).Query(g.scanAhead)
		batch.Queue(digestsSQL, earlier(items)...).Query(g.scanDigests)
	}
}

func (g *group) scanRuns(rows pgx.Rows) error {
	for rows.Next() {
		r := &Run{Memo: map[any]any{}}
		err := rows.Scan(&r.ID, &r.Attempt, &r.LineSeq, &r.BatchSeq, &r.Keys, &r.Scores, &r.Rollouts,
			&r.size[Reports], &r.size[Points], &r.size[Log], &r.size[Artifacts], &r.LogCut, &r.Closed, &r.KeyMoves)
		if err != nil {
			return err
		}
		g.runs[r.ID] = r
	}
	return rows.Err()
}

// stage writes an item that is not stored yet, and marks its number as stored. The result refuses the item, without a
// change, if the run has no row or its data has expired, if an item that is not Unfenced has a Fence, its attempt was
// replaced or the run is closed, if the run has reached its limit, or if the item's write refuses it. err is an error
// after which the transaction cannot continue.
func (g *group) stage(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, w *waiting, c *Committer) (res result, err error) {
	r := g.runs[w.RunID]
	if r == nil {
		return result{err: fault.Absentf("run", w.RunID)}, nil
	}
	if reason := fenced(w, r); reason != nil {
		return result{err: reason}, nil //nolint:nilerr // the transaction continues without the item
	}
	write, over := w.Write, c.quota.exceeded(r, &w.Item)
	if over {
		if write = w.Over; write == nil {
			return result{err: c.quota.Refuse(ctx, w.Kind)}, nil
		}
	}
	before, queued := *r, batch.Len()
	r.Attempt, r.ResumeStep, r.Now, r.flushed = max(r.Attempt, w.Attempt), w.ResumeStep, c.clock.Now(), false
	if write != nil {
		err = write(ctx, tx, batch, r)
	}
	reason, ok := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		c.quota.spend(r, &w.Item, over)
		g.done(w, over)
		return result{over: over}, nil
	case ok && !r.flushed && tx.Conn().PgConn().TxStatus() == inTransaction:
		before.committed = r.committed // these functions belong to values in Memo, which are kept too
		*r, batch.QueuedQueries = before, batch.QueuedQueries[:queued]
		return result{err: reason.error}, nil
	case ok:
		err = reason.error
	case pg.IsRetryable(err) || fault.Is(pg.Classify(err), fault.Unavailable):
		return result{}, err // the database failed, not the item
	}
	return result{}, &itemError{w, err}
}

// fenced returns the error for a new item that its attempt may not report any more.
func fenced(w *waiting, r *Run) error {
	switch {
	case w.Unfenced:
		return nil
	case w.Attempt < r.Attempt:
		return fault.New(fault.Conflict, CodeReplaced, "attempt %d has been replaced by attempt %d and can no longer report", w.Attempt, r.Attempt)
	case r.Closed:
		return Closed()
	}
	return w.Fence
}

// CodeReplaced is the code of the error for reports of an attempt that was replaced. CodeClosed is the code of the error
// for reports of a run that is closed.
const (
	CodeReplaced = "attempt_replaced"
	CodeClosed   = "run_closed"
)

// Closed returns the error for a new report of a run that has ended.
func Closed() error {
	return fault.New(fault.Conflict, CodeClosed, "the run has ended; it accepts no new reports")
}

// done marks the number of an item as stored. If the run has reached its limit, no row is added for the number.
func (g *group) done(w *waiting, over bool) {
	switch {
	case w.Key.Seq == 0:
	case over:
		g.marks[w.mark()].pass(w.Key.Seq)
	default:
		g.marks[w.mark()].add(w.Key.Seq)
		g.note(w)
	}
}

// inTransaction is the status of a connection whose transaction has not failed.
const inTransaction = 'T'

// updateSQL updates the rows of all runs of a group.
const updateSQL = `UPDATE run r SET attempt = k.attempt, line_seq = k.line_seq, batch_seq = k.batch_seq, key_count = k.key_count,
		score_count = k.score_count, rollout_count = k.rollout_count, report_bytes = k.report_bytes, point_bytes = k.point_bytes,
		log_bytes = k.log_bytes, artifact_bytes = k.artifact_bytes, log_cut = k.log_cut, key_moves = k.key_moves
	FROM unnest($1::text[], $2::int[], $3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::int[], $8::bigint[], $9::bigint[], $10::bigint[],
		$11::bigint[], $12::boolean[], $13::int[]) k(id, attempt, line_seq, batch_seq, key_count, score_count, rollout_count, report_bytes,
		point_bytes, log_bytes, artifact_bytes, log_cut, key_moves)
	WHERE r.id = k.id`

// finish queues the statements that insert the rows of the group, and those that update the rows of the runs, the marks and
// the digests.
func (g *group) finish(batch *pgx.Batch, now time.Time) {
	var rows []row
	var runs columns
	for _, r := range g.runs {
		rows = append(rows, r.rows...)
		runs.add(r.ID, r.Attempt, r.LineSeq, r.BatchSeq, r.Keys, r.Scores, r.Rollouts, r.size[Reports], r.size[Points], r.size[Log],
			r.size[Artifacts], r.LogCut, r.KeyMoves)
	}
	insert(batch, rows)
	if len(g.runs) > 0 {
		batch.Queue(updateSQL, runs.params...)
	}
	g.finishMarks(batch)
	g.finishDigests(batch, now)
}

func (g *group) fresh() []string {
	var ids []string
	for id, r := range g.runs {
		if r.Fresh {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (g *group) committed(c *Committer) {
	for _, r := range g.runs {
		for _, fn := range r.committed {
			fn()
		}
	}
	if ids := g.fresh(); len(ids) > 0 {
		c.changed(ids)
		c.notices.add(ids)
	}
}

// Flush sends the batch now, so that a write can read what other writes of its group stored. It also clears r.Memo. A
// write that has called Flush can no longer refuse its request.
func (r *Run) Flush(ctx context.Context, tx pgx.Tx, batch *pgx.Batch) error {
	r.flushed = true
	insert(batch, r.rows)
	r.rows = nil
	if batch.Len() > 0 {
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("store reports: %w", err)
		}
	}
	*batch = pgx.Batch{}
	clear(r.Memo)
	return nil
}
