package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// lockBeginnings lets only one flow begin at a time, so that the counts of pending flows are exact.
func lockBeginnings(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('device:begin', 0))`); err != nil {
		return fmt.Errorf("lock the pending device codes: %w", err)
	}
	return nil
}

// countOpen counts the pending flows of the address and the pending flows in total.
func countOpen(ctx context.Context, tx pgx.Tx, addressKey string, at time.Time) (ofAddress, inAll int, err error) {
	err = tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE address_key = $1), count(*) FROM device_code WHERE state = 'pending' AND expires_at > $2`,
		addressKey, at).Scan(&ofAddress, &inAll)
	if err != nil {
		return 0, 0, fmt.Errorf("count the pending device codes: %w", err)
	}
	return ofAddress, inAll, nil
}

// beginning is a new row of device_code.
type beginning struct {
	id                   string
	hash, userHash       []byte
	start                Start
	addressKey           string
	createdAt, expiresAt time.Time
}

// insertCode stores a new flow. It returns false if another flow has one of its codes.
func insertCode(ctx context.Context, tx pgx.Tx, b beginning) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO device_code (id, hash, user_code_hash, client_id, client_name, client_address, address_key, created_at,
			expires_at, interval_seconds)
		VALUES (@id, @hash, @user_code_hash, @client_id, @client_name, @client_address, @address_key, @created_at, @expires_at,
			@interval_seconds) ON CONFLICT DO NOTHING`, pgx.StrictNamedArgs{
		"id": b.id, "hash": b.hash, "user_code_hash": b.userHash, "client_id": b.start.ClientID, "client_name": b.start.ClientName,
		"client_address": b.start.Address, "address_key": b.addressKey, "created_at": b.createdAt, "expires_at": b.expiresAt,
		"interval_seconds": int(Interval.Seconds()),
	})
	if err != nil {
		return false, fmt.Errorf("store the device code: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// bound is a device code with the client and the address that it is bound to. Every statement of a poll matches all
// three, so a code from another client or address is treated as unknown.
type bound struct {
	hash                 []byte
	clientID, addressKey string
}

// approval is an approved flow whose token is being issued.
type approval struct {
	id, clientName, clientAddress, accountID string
	epoch                                    int64
}

// use marks an approved flow as used. Of several concurrent polls, only one gets ok = true.
func use(ctx context.Context, tx pgx.Tx, b bound, at time.Time) (a approval, ok bool, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE device_code SET state = 'used', polled_at = $4
		WHERE hash = $1 AND client_id = $2 AND address_key = $3 AND state = 'approved' AND expires_at > $4
		RETURNING id, client_name, client_address, account_id, account_epoch`, b.hash, b.clientID, b.addressKey, at).
		Scan(&a.id, &a.clientName, &a.clientAddress, &a.accountID, &a.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return approval{}, false, nil
	}
	if err != nil {
		return approval{}, false, fmt.Errorf("mark the device code as used: %w", err)
	}
	return a, true, nil
}

// mayApprove reports whether the account is enabled and still has the epoch of the approval. It locks the account, so
// that the result stays true until the transaction ends.
func mayApprove(ctx context.Context, tx pgx.Tx, a approval) (bool, error) {
	rows, err := tx.Exec(ctx, `SELECT FROM account WHERE id = $1 AND epoch = $2 AND disabled_at IS NULL FOR SHARE`, a.accountID, a.epoch)
	if err != nil {
		return false, fmt.Errorf("check the account that approved: %w", err)
	}
	return rows.RowsAffected() == 1, nil
}

// void changes a used approval to a denial.
func void(ctx context.Context, tx pgx.Tx, id string) error {
	if _, err := tx.Exec(ctx, `UPDATE device_code SET state = 'denied' WHERE id = $1 AND state = 'used'`, id); err != nil {
		return fmt.Errorf("void the approval: %w", err)
	}
	return nil
}

// pace records a poll of a pending flow. The result fast is true if the poll came too early; the interval then
// increases. The result ok is false if the flow is not pending.
func pace(ctx context.Context, tx pgx.Tx, b bound, at time.Time) (fast, ok bool, err error) {
	err = tx.QueryRow(ctx, `
		WITH waiting AS (
			SELECT id, COALESCE(polled_at + make_interval(secs => interval_seconds) - $5::interval > $4, false) AS fast
			FROM device_code
			WHERE hash = $1 AND client_id = $2 AND address_key = $3 AND state = 'pending' AND expires_at > $4
			FOR UPDATE)
		UPDATE device_code d SET polled_at = $4, interval_seconds = d.interval_seconds + CASE WHEN w.fast THEN $6 ELSE 0 END
		FROM waiting w WHERE d.id = w.id RETURNING w.fast`,
		b.hash, b.clientID, b.addressKey, at, leeway, int(IntervalStep.Seconds())).Scan(&fast)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("record the poll: %w", err)
	}
	return fast, true, nil
}

// stateOf returns the state of a flow, empty if the code is unknown.
func stateOf(ctx context.Context, tx pgx.Tx, b bound) (state string, expires time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT state, expires_at FROM device_code WHERE hash = $1 AND client_id = $2 AND address_key = $3`,
		b.hash, b.clientID, b.addressKey).Scan(&state, &expires)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("load the device code: %w", err)
	}
	return state, expires, nil
}

const requestColumns = `id, client_name, client_address, created_at, expires_at, CASE state WHEN 'used' THEN 'approved' ELSE state END`

// loadRequest returns the flow with the given user code if the flow is pending or the account has decided it.
func loadRequest(ctx context.Context, q pg.Querier, userHash []byte, accountID string, at time.Time) (Request, bool, error) {
	return scanRequest(q.QueryRow(ctx, `
		SELECT `+requestColumns+` FROM device_code
		WHERE user_code_hash = $1 AND expires_at > $3 AND (state = 'pending' OR account_id = $2)`, userHash, accountID, at))
}

// decide stores a decision. It returns false if no pending flow has the user code. Of several concurrent decisions,
// only one succeeds.
func decide(ctx context.Context, tx pgx.Tx, userHash []byte, state, accountID string, epoch int64, at time.Time) (Request, bool, error) {
	return scanRequest(tx.QueryRow(ctx, `
		UPDATE device_code SET state = $2, account_id = $3, account_epoch = $4, decided_at = $5
		WHERE user_code_hash = $1 AND state = 'pending' AND expires_at > $5 RETURNING `+requestColumns,
		userHash, state, accountID, epoch, at))
}

// byDevice reports whether the session was opened by a device or a program instead of a sign-in. It also returns true
// if the session does not exist.
func byDevice(ctx context.Context, q pg.Querier, sessionID string) (bool, error) {
	var person bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM session WHERE id = $1 AND method IN ('password', 'oidc'))`, sessionID).Scan(&person)
	if err != nil {
		return false, fmt.Errorf("check how the deciding session was opened: %w", err)
	}
	return !person, nil
}

func scanRequest(row pgx.Row) (r Request, ok bool, err error) {
	err = row.Scan(&r.ID, &r.ClientName, &r.ClientAddress, &r.CreatedAt, &r.ExpiresAt, &r.State)
	if errors.Is(err, pgx.ErrNoRows) {
		return Request{}, false, nil
	}
	if err != nil {
		return Request{}, false, fmt.Errorf("load the device request: %w", err)
	}
	return r, true, nil
}

func deleteCodes(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM device_code WHERE id IN (
		SELECT id FROM device_code WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete expired device codes: %w", err)
	}
	return tag.RowsAffected(), nil
}
