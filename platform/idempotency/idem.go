// Package idempotency owns idempotency keys, which make create requests repeatable. The response to the first request
// with an Idempotency-Key is stored for a day and is returned for every repeat. It is stored in the transaction that
// creates the resource. A different body with the same key is a conflict. Two concurrent requests cannot both create:
// the second waits until the first has finished.
//
// Stored responses contain no secrets: the create function leaves them out of the response.
package idempotency

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
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Lifetime is how long a response is stored.
const Lifetime = 24 * time.Hour

// MaxKey is the maximum length of a key in characters.
const MaxKey = 255

// CodeKey is the error code of all conflicts of this package.
const CodeKey = "idempotency_key"

// Reused returns the Conflict for a key that was already used with another body.
func Reused() error {
	return fault.New(fault.Conflict, CodeKey, "this Idempotency-Key was already used with a different request")
}

// Request identifies a request. Two requests with equal fields are treated as the same request. Without a Key nothing
// is stored and every request is treated as the first.
type Request struct {
	Subject string // the caller's id, owner of the key
	Route   string // the full name of the method
	Key     string // the Idempotency-Key header
	Body    []byte // the canonical request
}

// Store stores responses, in the schema of the transaction that is passed to each method.
type Store struct{ clock clock.Clock }

// New returns a Store that reads the time from clk.
func New(clk clock.Clock) *Store { return &Store{clock: clk} }

// Claim claims the key in tx. For a first request, fresh is true and the caller must call Finish before tx commits.
// For a repeat, Claim returns the stored response. If the body differs, the error is a Conflict.
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
		return nil, false, fmt.Errorf("read the stored response: %w", err)
	}
	if subtle.ConstantTimeCompare(kept, sum) != 1 {
		return nil, false, Reused()
	}
	if answer == nil {
		return nil, false, errors.New("the idempotency key was committed without a response")
	}
	return answer, false, nil
}

// Finish stores the response in tx, which must be the transaction of Claim. The response must not contain a secret.
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
		return fmt.Errorf("store the response: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return errors.New("store the response: the idempotency key was not claimed in this transaction")
	}
	return nil
}

// checkKey limits the length and the characters of the header, because the key is stored and indexed.
func checkKey(key string) error {
	if len(key) > MaxKey {
		return fault.InvalidFields(fault.At(fault.TypeStringLong, fmt.Sprintf("String should have at most %d characters", MaxKey), "header", "idempotency-key"))
	}
	for _, c := range []byte(key) {
		if c < 0x21 || c > 0x7e {
			return fault.InvalidFields(fault.At(fault.TypeStringPattern, "String should contain only visible ASCII characters", "header", "idempotency-key"))
		}
	}
	return nil
}

func hash(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// sweepBatch is the maximum number of rows of one DELETE.
const sweepBatch = 1000

// Sweep deletes expired responses and returns their number.
func (s *Store) Sweep(ctx context.Context, q pg.Querier) (int64, error) {
	var total int64
	for {
		tag, err := q.Exec(ctx, `
			DELETE FROM idempotency WHERE (subject, route, key) IN (
				SELECT subject, route, key FROM idempotency WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
			s.clock.Now(), sweepBatch)
		if err != nil {
			return total, fmt.Errorf("delete expired responses: %w", err)
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < sweepBatch {
			return total, nil
		}
	}
}

// Run calls Sweep about every hour until ctx is done.
func (s *Store) Run(ctx context.Context, q pg.Querier, log *slog.Logger) error {
	return process.Loop(ctx, s.clock, time.Hour, 10*time.Minute, process.Logged(log, "idempotency", func(ctx context.Context) error {
		_, err := s.Sweep(ctx, q)
		return err
	}))
}
