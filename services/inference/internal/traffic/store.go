package traffic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Store reads and writes the table of calls.
type Store struct{ Pool *pgxpool.Pool }

// columns returns the columns of a call, in the order of the elements that the methods row and targets have.
func columns() []string {
	return []string{
		"request_id", "at", "deployment_id", "revision_id", "revision_number", "token_id", "token_name", "replica_id", "method",
		"path", "status", "outcome", "stream", "requested_model", "response_model", "prompt_tokens", "completion_tokens",
		"usage_source", "finish_reason", "ttft_ms", "duration_ms", "request_bytes", "response_bytes", "request_frames", "response_frames",
	}
}

func (c *Call) targets() []any {
	return []any{
		&c.RequestID, &c.At, &c.DeploymentID, &c.RevisionID, &c.RevisionNumber, &c.TokenID, &c.TokenName, &c.ReplicaID, &c.Method,
		&c.Path, &c.Status, &c.Outcome, &c.Stream, &c.RequestedModel, &c.ResponseModel, &c.PromptTokens, &c.CompletionTokens,
		&c.UsageSource, &c.FinishReason, &c.TTFT, &c.Duration, &c.RequestBytes, &c.ResponseBytes, &c.RequestFrames, &c.ResponseFrames,
	}
}

// Put stores a batch under its name. If a batch with that name is already stored, Put changes nothing, so a caller
// that lost the result can call it again. It returns the number of calls that the table refused.
func (s *Store) Put(ctx context.Context, name string, calls []*Call) (refused int, err error) {
	if s.putWhole(ctx, name, calls) == nil {
		return 0, nil
	}
	// The batch may be stored already, the partition may be missing, or the transaction conflicts with another one.
	err = s.put(ctx, name, calls, copyAll)
	if state(err) == noPartition || refusal(err) {
		if err := s.ensureFor(ctx, calls); err != nil {
			return 0, err
		}
		err = s.put(ctx, name, calls, copyAll)
	}
	if !refusal(err) {
		return 0, err
	}
	// A call that the table cannot store must not block the others, and must not be retried forever.
	err = s.put(ctx, name, calls, func(ctx context.Context, tx pgx.Tx, calls []*Call) ([]*Call, error) {
		stored, err := copyEach(ctx, tx, calls)
		refused = len(calls) - len(stored)
		return stored, err
	})
	return refused, err
}

// putWhole stores a batch that has not been stored yet, in one transaction that takes two round trips for the calls of a
// day. After an error, it is unknown whether the batch is stored.
func (s *Store) putWhole(ctx context.Context, name string, calls []*Call) error {
	conn, err := s.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("get a connection: %w", err)
	}
	defer func() {
		if conn.Conn().PgConn().TxStatus() != 'I' {
			_, _ = conn.Exec(ctx, `ROLLBACK`) // if that fails, Release closes the connection
		}
		conn.Release()
	}()
	quoted, err := conn.Conn().PgConn().EscapeString(name)
	if err != nil {
		return fmt.Errorf("quote the name of the batch: %w", err)
	}
	begin := `BEGIN ISOLATION LEVEL READ COMMITTED; INSERT INTO batch (name) VALUES ('` + quoted + `'); `
	if err := copyDays(ctx, conn.Conn(), begin, calls); err != nil {
		return err
	}
	end := &pgx.Batch{}
	end.Queue(addRollups, rollupArgs(rollUp(calls)))
	end.Queue(`COMMIT`)
	if err := conn.SendBatch(ctx, end).Close(); err != nil {
		return fmt.Errorf("add to the rollups and commit: %w", err)
	}
	return nil
}

// copier stores calls and returns those that the table has not refused.
type copier func(ctx context.Context, tx pgx.Tx, calls []*Call) ([]*Call, error)

func (s *Store) put(ctx context.Context, name string, calls []*Call, copyCalls copier) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO batch (name) VALUES ($1) ON CONFLICT DO NOTHING`, name)
		if err != nil {
			return fmt.Errorf("store the name of the batch: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		stored, err := copyCalls(ctx, tx, calls)
		if err != nil {
			return err
		}
		return addToRollups(ctx, tx, stored)
	})
}

func copyAll(ctx context.Context, tx pgx.Tx, calls []*Call) ([]*Call, error) {
	return calls, copyDays(ctx, tx.Conn(), "", calls)
}

// copyDays stores calls in the partitions of their days, after the statements in begin. That is less work for the database
// than to find the partition of each row. It also does not fire the trigger that adds calls to the rollups, which takes
// longer than addRollups.
func copyDays(ctx context.Context, conn *pgx.Conn, begin string, calls []*Call) error {
	days := map[int64]*copyRows{} // keyed by the begin of the day
	for _, c := range calls {
		day := c.At.Truncate(24 * time.Hour).Unix()
		if days[day] == nil {
			days[day] = newCopyRows(len(calls))
		}
		c.row(days[day])
	}
	for _, day := range slices.Sorted(maps.Keys(days)) {
		partition := "call_" + time.Unix(day, 0).UTC().Format("20060102")
		_, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(days[day].end()),
			begin+`COPY `+partition+` (`+strings.Join(columns(), ", ")+`) FROM STDIN (FORMAT binary)`)
		if err != nil {
			return fmt.Errorf("store %d calls: %w", len(calls), err)
		}
		begin = ""
	}
	return nil
}

// copyEach stores calls one by one and skips those that the table refuses.
func copyEach(ctx context.Context, tx pgx.Tx, calls []*Call) (stored []*Call, err error) {
	for _, c := range calls {
		err := pgx.BeginFunc(ctx, tx, func(point pgx.Tx) error {
			_, err := copyAll(ctx, point, []*Call{c})
			return err
		})
		switch {
		case err == nil:
			stored = append(stored, c)
		case !refusal(err):
			return nil, fmt.Errorf("store a call: %w", err)
		}
	}
	return stored, nil
}

// noPartition is the SQLSTATE (undefined_table) of the error if the partition of a day is missing.
const noPartition = "42P01"

func state(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code
	}
	return ""
}

// refusal reports whether err is caused by the rows and not by the database: data that a column cannot hold
// (SQLSTATE class 22) or a violated constraint (class 23).
func refusal(err error) bool {
	return strings.HasPrefix(state(err), "22") || strings.HasPrefix(state(err), "23")
}

// Forget deletes the names of batches that will not be put again.
func (s *Store) Forget(ctx context.Context, names ...string) error {
	if _, err := s.Pool.Exec(ctx, `DELETE FROM batch WHERE name = ANY($1)`, names); err != nil {
		return fmt.Errorf("delete the names of batches: %w", err)
	}
	return nil
}

// BatchAge is the age at which the name of a batch is deleted. A name of this age was left by a process that was
// killed, and its segment was replayed long ago.
const BatchAge = 90 * 24 * time.Hour

// DeleteBatches deletes the names of batches that were stored before the given time, up to the given limit.
func (s *Store) DeleteBatches(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := s.Pool.Exec(ctx, `DELETE FROM batch WHERE name IN (
		SELECT name FROM batch WHERE stored_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete the names of old batches: %w", err)
	}
	return tag.RowsAffected(), nil
}

// DropDays deletes the calls of whole days (UTC) that ended before the given time. It drops one partition per day,
// oldest first, up to the given limit, and returns their number. If the table stays locked, it returns an error.
func (s *Store) DropDays(ctx context.Context, before time.Time, limit int) (int64, error) {
	var days int64
	if err := s.Pool.QueryRow(ctx, `SELECT drop_call_partitions($1, $2)`, before, min(limit, dropDays)).Scan(&days); err != nil {
		return 0, fmt.Errorf("drop the partitions of old calls: %w", err)
	}
	return days, nil
}

const (
	// daysAhead is the number of days for which partitions are created: yesterday, today and the next seven days.
	daysAhead = 9
	// dropDays is the largest number of partitions that one transaction drops; each needs a lock.
	dropDays = 8
	// partitionsWithin limits the time to create partitions.
	partitionsWithin = 10 * time.Second
)

// EnsurePartitions creates the missing partitions for daysAhead days, starting with yesterday.
func (s *Store) EnsurePartitions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, partitionsWithin)
	defer cancel()
	_, err := s.Pool.Exec(ctx, `SELECT ensure_call_partitions((now() AT TIME ZONE 'UTC')::date - 1, $1)`, daysAhead)
	if err != nil {
		return fmt.Errorf("create partitions: %w", err)
	}
	return nil
}

// ensureFor creates the partitions of the days of the calls. They can be missing if calls waited on disk for long, or
// if the clocks of this host and of the database differ.
func (s *Store) ensureFor(ctx context.Context, calls []*Call) error {
	days := map[string]bool{}
	for _, c := range calls {
		day := c.At.UTC().Format(time.DateOnly)
		if days[day] {
			continue
		}
		days[day] = true
		if _, err := s.Pool.Exec(ctx, `SELECT ensure_call_partitions($1::text::date, 1)`, day); err != nil {
			return fmt.Errorf("create the partition of %s: %w", day, err)
		}
	}
	return nil
}
