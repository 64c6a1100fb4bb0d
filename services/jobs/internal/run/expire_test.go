package run_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// expiryPeers fakes the registry and ingest. The registry reports that a model uses each run in the list used, and
// ingest keeps the data of each run in the list held.
type expiryPeers struct {
	registrypeerv1.CatalogPeerServiceClient
	ingestpeerv1.RunDataPeerServiceClient

	used, held []string
	asked      int
	away       error
}

func (p *expiryPeers) FindRunsInUse(
	_ context.Context, in *registrypeerv1.FindRunsInUseRequest, _ ...grpc.CallOption,
) (*registrypeerv1.FindRunsInUseResponse, error) {
	p.asked++
	return &registrypeerv1.FindRunsInUseResponse{RunIds: p.used}, p.away
}

func (p *expiryPeers) ExpireRuns(
	_ context.Context, in *ingestpeerv1.ExpireRunsRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.ExpireRunsResponse, error) {
	free := slices.DeleteFunc(slices.Clone(in.GetRunIds()), func(id string) bool { return slices.Contains(p.held, id) })
	return &ingestpeerv1.ExpireRunsResponse{RunIds: free}, nil
}

func runsWithAge(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	_, err := pool.Exec(t.Context(), `INSERT INTO run (id, name, owner_id, owner_name, project_id, project, visibility, state, recipe_lock, bindings,
		recipe_digest, spec_digest, created_at, ended_at, parents)
		SELECT i, 'n', 'u', 'o', 'p', 'p', 'team', 's', '{}', '{}', '', '', now(), now() - a::interval, p::jsonb FROM (VALUES
			('old', '50 hours', '[]'), ('used', '49 hours', '[]'), ('held', '48 hours', '[]'), ('parent', '47 hours', '[]'), ('young', '1 hour', '[]'),
			('child', NULL, '[{"kind": "retry", "run_id": "parent"}]')) v (i, a, p)`)
	require.NoError(t, err)
	return pool
}

func expired(t *testing.T, pool *pgxpool.Pool) (ids []string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM run WHERE data_expired_at IS NOT NULL`).Scan(&ids))
	return ids
}

func TestExpirer_Expire_keepsRunsInUse(t *testing.T) {
	t.Parallel()
	pool := runsWithAge(t)
	peers := &expiryPeers{used: []string{"used"}, held: []string{"held"}}
	e := &run.Expirer{Pool: pool, Ingest: peers, Catalog: peers}
	before := time.Now().Add(-24 * time.Hour)
	n, err := e.Expire(t.Context(), before, 1000)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, []string{"old"}, expired(t, pool))
	n, err = e.Expire(t.Context(), before, 1000)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, 1, peers.asked, "runs that are kept must not be examined again in each pass")

	// A day later, the model is deleted, the registration has ended, and the child has ended.
	peers.used, peers.held = nil, nil
	_, err = pool.Exec(t.Context(), `UPDATE run SET data_checked_at = data_checked_at - interval '25 hours', ended_at = coalesce(ended_at, now())`)
	require.NoError(t, err)
	for range 3 {
		_, err = e.Expire(t.Context(), before, 1)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"held", "old", "parent", "used"}, expired(t, pool))
}

func TestExpirer_Expire_registryAway(t *testing.T) {
	t.Parallel()
	pool := runsWithAge(t)
	peers := &expiryPeers{away: errors.New("away")}
	e := &run.Expirer{Pool: pool, Ingest: peers, Catalog: peers}
	_, err := e.Expire(t.Context(), time.Now().Add(-24*time.Hour), 1000)
	require.ErrorIs(t, err, peers.away)
	require.Empty(t, expired(t, pool), "everything must be kept while the registry is unavailable")
}

// A job that is retried twice can resume from the checkpoint of the first run, which is not a parent of the last one.
func TestExpirer_Expire_keepsCheckpointOfUnfinishedJob(t *testing.T) {
	t.Parallel()
	pool := runsWithAge(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec,
			spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, queued_at, seq, checkpoint)
		VALUES ('job_1', 'child', 'n', 'usr_a', 'alice', 'prj_1', 'default', 'team', '{}', 50, '{}', '', '', '[]', 0, 0, 1, 1, 1, now(), 'queued', now(), 1,
			'{"uri": "blob://runs/old/1/checkpoint/state.npz"}')`)
	require.NoError(t, err)
	peers := &expiryPeers{}
	e := &run.Expirer{Pool: pool, Ingest: peers, Catalog: peers}
	before := time.Now().Add(-24 * time.Hour)
	_, err = e.Expire(t.Context(), before, 1000)
	require.NoError(t, err)
	require.Equal(t, []string{"held", "used"}, expired(t, pool))

	_, err = pool.Exec(t.Context(), `UPDATE job SET ended_at = now(), state = 'succeeded', end_reason = 'completed'`)
	require.NoError(t, err)
	_, err = e.Expire(t.Context(), before, 1000)
	require.NoError(t, err)
	require.Equal(t, []string{"held", "old", "used"}, expired(t, pool))
}
