// Package idem makes creating requests repeatable: the answer to the first request
// under an Idempotency-Key is kept for a day, in the transaction that created, and
// is the answer to every repeat. Another body under the same key is a conflict. Two
// requests at once cannot both create: the second waits for the first one's end.
//
// A secret that the first answer showed is in no kept answer: create leaves it out of what it fills.
package idem

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/run"
)

// Lifetime is how long an answer is kept.
const Lifetime = 24 * time.Hour

// MaxKey is the most characters that a key may have.
const MaxKey = 255

// CodeKey is the code of every refusal of this package.
const CodeKey = "idempotency_key"

// Request is what makes two requests the same one. Without a Key nothing is kept
// and every request is a first one.
type Request struct {
	Subject string // whose key it is: the caller's id
	Route   string // the full name of the method
	Key     string // the header
	Body    []byte // the canonical request
}

// Store keeps answers in the schema of the transaction it is given.
type Store struct{ clock clock.Clock }

// New makes a store.
func New(clk clock.Clock) *Store { return &Store{clock: clk} }

// Claim takes the key in tx. It answers fresh for a first request, which must end
// in Finish before tx commits; else the kept answer. Another body is a Conflict.
func (s *Store) Claim(ctx context.Context, tx pgx.Tx, r Request) (answer []byte, fresh bool, err error) {
	if r.Key == "" {
		return nil, true, nil
	}
	if err := checkKey(r.Key); err != nil {
		return nil, false, err
	}
	now, sum := s.clock.Now(), hash(r.Body)
	tag, err := tx.Exec(ctx, `
		INSERT INTO idempotency (subject, route, key, body_hash, expires_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (subject, route, key) DO UPDATE SET body_hash = excluded.body_hash, expires_at = excluded.expires_at, answer = NULL
		WHERE idempotency.expires_at <= $6`, r.Subject, r.Route, r.Key, sum, now.Add(Lifetime), now)
	if err != nil {
		return nil, false, fmt.Errorf("claim the idempotency key: %w", err)
	}
	if tag.RowsAffected() == 1 {
		return nil, true, nil
	}
	var kept []byte
	err = tx.QueryRow(ctx, `SELECT body_hash, answer FROM idempotency WHERE subject = $1 AND route = $2 AND key = $3`,
		r.Subject, r.Route, r.Key).Scan(&kept, &answer)
	if err != nil {
		return nil, false, fmt.Errorf("read the kept answer: %w", err)
	}
	if subtle.ConstantTimeCompare(kept, sum) != 1 {
		return nil, false, fault.New(fault.Conflict, CodeKey, "this Idempotency-Key was used with another request")
	}
	if answer == nil {
		return nil, false, errors.New("an idempotency key was claimed and committed without its answer")
	}
	return answer, false, nil
}

// Finish keeps the answer in tx, the one that claimed. It must hold no secret.
func (s *Store) Finish(ctx context.Context, tx pgx.Tx, r Request, answer []byte) error {
	if r.Key == "" {
		return nil
	}
	if answer == nil {
		answer = []byte{}
	}
	tag, err := tx.Exec(ctx, `UPDATE idempotency SET answer = $4 WHERE subject = $1 AND route = $2 AND key = $3 AND answer IS NULL`,
		r.Subject, r.Route, r.Key, answer)
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return errors.New("keep the answer: the idempotency key was not claimed in this transaction")
	}
	return nil
}

// checkKey bounds the header: it is stored and it is an index.
func checkKey(key string) error {
	if len(key) > MaxKey {
		return fault.InvalidFields(fault.At(fault.TypeStringLong, fmt.Sprintf("String should have at most %d characters", MaxKey), "header", "idempotency-key"))
	}
	for _, c := range []byte(key) {
		if c < 0x21 || c > 0x7e {
			return fault.InvalidFields(fault.At(fault.TypeStringPattern, "String should hold visible ASCII characters only", "header", "idempotency-key"))
		}
	}
	return nil
}

func hash(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// sweepBatch bounds one DELETE.
const sweepBatch = 1000

// Sweep deletes answers past their time and says how many.
func (s *Store) Sweep(ctx context.Context, q pg.Querier) (int64, error) {
	var total int64
	for {
		tag, err := q.Exec(ctx, `
			DELETE FROM idempotency WHERE (subject, route, key) IN (
				SELECT subject, route, key FROM idempotency WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
			s.clock.Now(), sweepBatch)
		if err != nil {
			return total, fmt.Errorf("sweep old answers: %w", err)
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < sweepBatch {
			return total, nil
		}
	}
}

// Run sweeps every hour or so until ctx is over.
func (s *Store) Run(ctx context.Context, q pg.Querier, log *slog.Logger) error {
	return run.Loop(ctx, s.clock, time.Hour, 10*time.Minute, run.Logged(log, "idempotency", func(ctx context.Context) error {
		_, err := s.Sweep(ctx, q)
		return err
	}))
}
