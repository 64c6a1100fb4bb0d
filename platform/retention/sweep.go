package retention

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	// listed is the number of objects that are examined together.
	listed = 5000
	// LeastObjects is the shortest safe age of unused objects: an upload, and the request that refers to its object, are
	// expected to take less.
	LeastObjects = 24 * time.Hour
	// atOnce is the maximum number of objects that are deleted while the lock is held.
	atOnce = 50
	// reserve is the time before a step's deadline in which no further objects are listed.
	reserve = 10 * time.Second
)

// Objects is the part of an object store that a Sweeper uses.
type Objects interface {
	List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error)
	Delete(ctx context.Context, key string) error
}

// Sweeper deletes objects to which no row of a schema refers.
//
// It is safe even if a new row begins to refer to an object while the sweep runs. A trigger makes every transaction
// that inserts such a row take the advisory lock of LockSQL in shared mode. The writer of the row looks for the object
// only after the commit. The sweeper takes the lock exclusively, reads the references again, and deletes before it
// releases the lock. So either the sweeper sees the row, or the writer sees that the object is gone.
type Sweeper struct {
	Objects Objects
	Pool    *pgxpool.Pool
	// Prefix is the beginning of the keys that the rows of this schema refer to.
	Prefix string
	// LockSQL is the statement that takes the lock exclusively until the end of the transaction.
	LockSQL string
	// Unused returns those of the given keys to which no row refers.
	Unused func(ctx context.Context, q pg.Querier, keys []string) ([]string, error)

	mu    sync.Mutex
	after string // the last key that was examined; the next step continues there
}

// Step deletes unused objects that were stored before the given time, and returns how many it deleted. It ends when it
// has deleted at least as many as the given limit, after the last object, or when its time is nearly over. The next
// step continues where this one ended; after the last object it begins with the first again.
func (s *Sweeper) Step(ctx context.Context, before time.Time, limit int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var total int64
	for total < int64(limit) && !nearlyOver(ctx) {
		found, err := s.Objects.List(ctx, s.Prefix, s.after, listed)
		if err != nil {
			return total, fmt.Errorf("list objects: %w", err)
		}
		n, err := s.page(ctx, found, before)
		if total += n; err != nil {
			return total, err
		}
		if len(found) < listed {
			s.after = ""
			return total, nil
		}
		s.after = found[len(found)-1].Key
	}
	return total, nil
}

func nearlyOver(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	// Deadlines of contexts use the real clock.
	return ok && end.Sub(clock.Real().Now()) < reserve
}

// page deletes the unused objects among those that were listed.
func (s *Sweeper) page(ctx context.Context, found []blob.Info, before time.Time) (int64, error) {
	var old []string
	for _, info := range found {
		if info.Modified.Before(before) {
			old = append(old, info.Key)
		}
	}
	if len(old) == 0 {
		return 0, nil
	}
	unused, err := s.Unused(ctx, s.Pool, old)
	if err != nil {
		return 0, err
	}
	return s.Remove(ctx, unused)
}

// Remove deletes those of the given objects to which no row refers, whatever their age, and returns their number.
func (s *Sweeper) Remove(ctx context.Context, keys []string) (total int64, err error) {
	for batch := range slices.Chunk(keys, atOnce) {
		n, err := s.remove(ctx, batch)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// remove deletes the objects that are still unused when it holds the lock. Writers wait meanwhile, so keys must be few.
// If the lock is not free within a second, remove fails, and a later pass deletes the objects. The transaction writes
// nothing and is not repeated; it only holds the lock.
func (s *Sweeper) remove(ctx context.Context, keys []string) (n int64, err error) {
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("begin to delete objects: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
		return 0, fmt.Errorf("set the timeout for the lock on the references to objects: %w", err)
	}
	if _, err := tx.Exec(ctx, s.LockSQL); err != nil {
		return 0, fmt.Errorf("lock the references to objects: %w", err)
	}
	unused, err := s.Unused(ctx, tx, keys)
	if err != nil {
		return 0, err
	}
	for _, key := range unused {
		if err := held(ctx, tx); err != nil {
			return n, err
		}
		if err := s.Objects.Delete(ctx, key); err != nil {
			return n, fmt.Errorf("delete object %s: %w", key, err)
		}
		n++
	}
	return n, nil
}

// held returns an error if the connection, and with it the lock, was lost.
func held(ctx context.Context, tx pgx.Tx) error {
	if err := tx.Conn().Ping(ctx); err != nil {
		return fmt.Errorf("check the connection that holds the lock on the references to objects: %w", err)
	}
	return nil
}
