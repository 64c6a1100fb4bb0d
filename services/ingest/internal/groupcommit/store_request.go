package groupcommit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/idempotency"
)

// Digest is the first half of the SHA-256 of a body. It depends on the exact bytes, because a writer stores the bytes
// of a request until it gets a response, and repeats exactly these bytes.
type Digest [16]byte

// DigestOf returns the digest of a body.
func DigestOf(body []byte) Digest {
	sum := sha256.Sum256(body)
	return Digest(sum[:len(Digest{})])
}

// request is a numbered request of a writer.
type request struct {
	markKey

	seq int64
}

func (i *Item) request() request { return request{i.mark(), i.Key.Seq} }

const digestsSQL = `SELECT d.run_id, d.stream, d.writer, d.seq, d.digest
	FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) k(r, s, w, n)
	JOIN request_digest d ON d.run_id = k.r AND d.stream = k.s AND d.writer = k.w AND d.seq = k.n`

// earlier returns the arguments of digestsSQL for the group's numbered requests, also under their earlier names.
func earlier(items []*waiting) []any {
	runs, streams, writers, seqs := numbered(items)
	for _, w := range items {
		if w.Key.Seq > 0 && w.Earlier != "" {
			runs, streams = append(runs, w.RunID), append(streams, w.Stream)
			writers, seqs = append(writers, w.Earlier), append(seqs, w.Key.Seq)
		}
	}
	return []any{runs, streams, writers, seqs}
}

func (g *group) scanDigests(rows pgx.Rows) error {
	for rows.Next() {
		var r request
		var digest []byte
		if err := rows.Scan(&r.run, &r.stream, &r.writer, &r.seq, &digest); err != nil {
			return err
		}
		g.digests[r] = Digest(digest)
	}
	return rows.Err()
}

// known reports whether a numbered request is stored. It returns a Conflict fault if the number was used with another
// body.
func (g *group) known(w *waiting) (bool, error) {
	if w.Key.Seq == 0 {
		return false, nil
	}
	if digest, ok := g.digests[w.request()]; ok && digest != w.Digest {
		return false, idempotency.Reused()
	}
	if w.Earlier != "" {
		before := w.request()
		before.writer = w.Earlier
		if digest, ok := g.digests[before]; ok && digest == w.Digest {
			return true, nil
		}
	}
	return g.marks[w.mark()].has(w.Key.Seq), nil
}

// note records the digest of a request, unless its number was claimed before.
func (g *group) note(w *waiting) {
	r := w.request()
	if _, claimed := g.digests[r]; !claimed {
		g.digests[r] = w.Digest
		g.noted = append(g.noted, r)
	}
}

// finishDigests queues the statement that stores the digests of the group's new requests. If two transactions store the
// same number, the primary key of the table makes the later transaction fail. Its group is then divided and stored in
// parts.
func (g *group) finishDigests(batch *pgx.Batch, now time.Time) {
	if len(g.noted) == 0 {
		return
	}
	var runs, streams, writers []string
	var seqs []int64
	var digests [][]byte
	for _, r := range g.noted {
		digest := g.digests[r]
		runs, streams, writers = append(runs, r.run), append(streams, r.stream), append(writers, r.writer)
		seqs, digests = append(seqs, r.seq), append(digests, digest[:])
	}
	batch.Queue(`INSERT INTO request_digest (run_id, stream, writer, seq, digest, created_at)
		SELECT *, $6::timestamptz FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[])`, runs, streams, writers, seqs, digests, now)
}

const storedSQL = `(EXISTS (SELECT 1 FROM mark WHERE run_id = $1 AND stream = $2 AND writer = $3 AND seq >= $4)
	OR EXISTS (SELECT 1 FROM ahead WHERE run_id = $1 AND stream = $2 AND writer = $3 AND seq = $4))`

// Claim binds a number to a body. Callers that act before the transaction that stores the request must call Claim
// first: of two concurrent requests with the same number and different bodies, only one can claim the number. Claim
// reports whether the request is already stored, and returns a Conflict fault if the number is bound to another body.
// The same body may claim the number again, for example after an action failed. A claim counts as a report of the run.
// If the run has reached the limit of its reports, Claim succeeds without binding the number.
func (c *Committer) Claim(ctx context.Context, item *Item) (stored bool, err error) {
	q, runID, stream, key, digest := c.pool, item.RunID, item.Stream, item.Key, item.Digest
	if err := c.rename(ctx, item); err != nil {
		return false, err
	}
	_, err = q.Exec(ctx, `WITH counted AS (UPDATE run SET report_bytes = report_bytes + $7
			WHERE id = $1 AND ($8::bigint = 0 OR report_bytes + $7 <= $8) AND NOT `+storedSQL+`
				AND NOT EXISTS (SELECT FROM request_digest WHERE run_id = $1 AND stream = $2 AND writer = $3 AND seq = $4) RETURNING id)
		INSERT INTO request_digest (run_id, stream, writer, seq, digest, created_at)
		SELECT id, $2, $3, $4, $5, $6::timestamptz FROM counted ON CONFLICT DO NOTHING`,
		runID, stream, key.Writer, key.Seq, digest[:], c.clock.Now(), int64(Cost), c.quota.Limit(Reports))
	if err != nil {
		return false, fmt.Errorf("claim a request's number: %w", err)
	}
	var bound []byte // nil if the request was stored before the table of digests existed
	err = q.QueryRow(ctx, `SELECT `+storedSQL+`,
		(SELECT digest FROM request_digest WHERE run_id = $1 AND stream = $2 AND writer = $3 AND seq = $4)`,
		runID, stream, key.Writer, key.Seq).Scan(&stored, &bound)
	if err != nil {
		return false, fmt.Errorf("look for a stored request: %w", err)
	}
	if bound != nil && Digest(bound) != digest {
		return false, idempotency.Reused()
	}
	return stored, nil
}
