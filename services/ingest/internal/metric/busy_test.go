package metric

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// slow is a database in which reads of the points of run_1 last until release is closed.
type slow struct {
	database

	began   chan struct{}
	release chan struct{}
}

func (s *slow) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := s.database.BeginTx(ctx, opts)
	return slowTx{tx, s}, err
}

type slowTx struct {
	pgx.Tx

	of *slow
}

func (s slowTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.Contains(sql, "FROM metric_batch") && args[0] == "run_1" {
		s.of.began <- struct{}{}
		select {
		case <-s.of.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Tx.Query(ctx, sql, args...)
}

// byUser returns a context for calls by the named user.
func byUser(ctx context.Context, name string) context.Context {
	return authn.NewContext(ctx, &authn.Caller{Kind: authn.KindUser, Subject: name})
}

// slowStore returns a store that reads run_1 slowly, but not run_2. Each run has one point.
func slowStore(t *testing.T) (*Store, *slow) {
	t.Helper()
	b := open(t)
	for _, id := range []string{"run_1", "run_2"} {
		_, err := b.pool.Exec(t.Context(), `INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at)
			VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now()) ON CONFLICT DO NOTHING`, id)
		require.NoError(t, err)
		_, err = b.store.Store(t.Context(), groupcommit.Item{RunID: id, Attempt: 1, Write: Write(NewKeys(), columns("a", 1, 1))})
		require.NoError(t, err)
	}
	db := &slow{database: b.pool, began: make(chan struct{}, 100), release: make(chan struct{})}
	return NewStore(db, run.NewGate()), db
}

func TestStore_List_notDelayedByShares(t *testing.T) {
	t.Parallel()
	s, db := slowStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	errs := make(chan error, 16)
	for range cap(errs) {
		all.Go(func() {
			_, _, err := s.ListShared(ctx, "run_1", nil, request.Page{Limit: 500})
			errs <- err
		})
	}
	<-db.began
	for range 11 { // the calls that are refused, because one reads and four wait
		require.True(t, fault.HasCode(<-errs, "charts_busy"))
	}
	for range 4 {
		series, _, err := s.List(byUser(ctx, "usr_1"), "run_2", nil, request.Page{Limit: 500})
		require.NoError(t, err)
		require.Len(t, series, 1)
	}
	require.Empty(t, db.began, "only one call through share links reads at a time")
	close(db.release)
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func TestStore_List_notDelayedByAnotherUser(t *testing.T) {
	t.Parallel()
	s, db := slowStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { _, _, _ = s.List(byUser(ctx, "usr_1"), "run_1", nil, request.Page{Limit: 500}) })
	}
	require.Eventually(t, func() bool {
		_, waiting := s.gate.Load()
		return waiting == 8
	}, 20*time.Second, time.Millisecond, "two calls of a user read at a time")
	series, _, err := s.List(byUser(ctx, "usr_2"), "run_2", nil, request.Page{Limit: 500})
	require.NoError(t, err)
	require.Len(t, series, 1)
	close(db.release)
	all.Wait()
}
