// Package idempotency owns idempotency keys, which make create requests repeatable. The response to the first request
// with an Idempotency-Key is stored for a day and is returned for every repeat. The response is stored in the
// transaction that creates the resource. A different body with the same key is a conflict. Two concurrent requests
// cannot both create the resource: the second waits until the first has finished.
//
// Stored responses contain no secrets: the create function leaves them out of the response.
package idempotency

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
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
	// Former is the same body in the encoding that earlier versions hashed. It is nil if Body has that encoding.
	Former []byte
}

// equals reports whether sum is the hash of the request's body.
func (r *Request) equals(sum []byte) bool {
	return subtle.ConstantTimeCompare(sum, hash(r.Body)) == 1 || r.Former != nil && subtle.ConstantTimeCompare(sum, hash(r.Former)) == 1
}

// Store stores responses, in the schema of the transaction that is passed to each method.
type Store struct{ clock clock.Clock }

// New returns a Store that reads the time from clk.
func New(clk clock.Clock) *Store { return &Store{clock: clk} }

// Claim claims the key in tx. For a first request, the result fresh is true and the caller must call Finish before tx
// commits. For a repeat, Claim returns the stored response. If the body differs, the error is a Conflict.
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
	answer, found, err := s.Stored(ctx, tx, r)
	if err == nil && !found {
		err = errors.New("read the stored response: the row of the idempotency key is missing")
	}
	return answer, false, err
}

// Stored returns the stored response of a repeat, without claiming the key. If the body differs, the error is a Conflict. A
// request that is still being processed has no stored response.
func (s *Store) Stored(ctx context.Context, q pg.Querier, r Request) (answer []byte, found bool, err error) {
	if r.Key == "" {
		return nil, false, nil
	}
	if err := checkKey(r.Key); err != nil {
		return nil, false, err
	}
	var kept []byte
	err = q.QueryRow(ctx, `SELECT body_hash, answer FROM idempotency WHERE subject = $1 AND route = $2 AND key = $3 AND expires_at > $4`,
		r.Subject, r.Route, r.Key, s.clock.Now()).Scan(&kept, &answer)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read the stored response: %w", err)
	case !r.equals(kept):
		return nil, false, Reused()
	case answer == nil:
		return nil, false, errors.New("the idempotency key was committed without a response")
	}
	return answer, true, nil
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

// DeleteBefore deletes responses that were stored before the given time, oldest first, up to the given limit, and
// returns their number. A key is free once its response is older than Lifetime, even before the response is deleted.
func DeleteBefore(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM idempotency WHERE (subject, route, key) IN (
		SELECT subject, route, key FROM idempotency WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
		before.Add(Lifetime), limit)
	if err != nil {
		return 0, fmt.Errorf("delete old responses: %w", err)
	}
	return tag.RowsAffected(), nil
}
