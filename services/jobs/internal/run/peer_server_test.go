package run_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// A run is read only from its own row, so it outlives its job.
func TestRunReadableWithoutJob(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	s := &run.Server{Pool: pool}
	peer := &reporting.PeerServer{Pool: pool}
	var jobs int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM job`).Scan(&jobs))
	require.Zero(t, jobs, "the job must no longer exist")
	_, err := pool.Exec(t.Context(), `UPDATE run SET job_id = NULL, started_at = created_at, protected = true, protected_datasets = '{dst_1}',
		parents = '[{"kind": "retry", "run_id": "run_0", "step": 7}]', tags = '{x}', labels = '{"a": "b"}', archived_at = now() WHERE id = $1`, first)
	require.NoError(t, err)
	got, err := s.GetRun(alice(t.Context()), &jobsv1.GetRunRequest{RunId: first})
	require.NoError(t, err)
	m := got.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		if f := m.Descriptor().Fields().Get(i); f.Name() != "job_id" {
			require.True(t, isSet(m, f), "%s must be set without the job", f.Name())
		}
	}
	require.Nil(t, got.JobId)
	owner, err := peer.GetRunOwner(t.Context(), &jobspeerv1.GetRunOwnerRequest{Id: first})
	require.NoError(t, err)
	require.Equal(t, "usr_a", owner.GetOwnerId())
	require.Empty(t, owner.GetJobId())
	require.True(t, owner.GetProtected())
	require.Equal(t, []string{"dst_1"}, owner.GetProtectedDatasets())
}

// isSet reports whether a field is set. Numbers count as set even if they are zero.
func isSet(m protoreflect.Message, f protoreflect.FieldDescriptor) bool {
	return m.Has(f) || f.Kind() == protoreflect.Int32Kind
}

// queued records the jobs inserted into the queue.
type queued struct {
	args []river.JobArgs
	opts []*river.InsertOpts
	err  error
}

func (q *queued) InsertTx(_ context.Context, _ pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	q.args, q.opts = append(q.args, args), append(q.opts, opts)
	return nil, q.err
}

// A close that is given up leaves the streams without eof forever, so it is retried for days.
func TestCloseRetriedForDays(t *testing.T) {
	t.Parallel()
	q := &queued{}
	require.NoError(t, (&run.Closing{Queue: q}).CloseRun(t.Context(), nil, first))
	require.Equal(t, []river.JobArgs{run.CloseArgs{RunID: first}}, q.args)
	var pause time.Duration
	c := &run.Closer{Clock: fixedClock(t)}
	for attempt := 1; attempt < q.opts[0].MaxAttempts; attempt++ {
		pause += c.NextRetry(&river.Job[run.CloseArgs]{JobRow: &rivertype.JobRow{Attempt: attempt}}).Sub(fixtures.Now())
	}
	require.Greater(t, pause, 72*time.Hour)
	require.NoError(t, (&run.Closing{Queue: q}).EndAttempt(t.Context(), nil, first, 2))
	require.Equal(t, run.CloseArgs{RunID: first, Attempt: 2}, q.args[1])
	q.err = errors.New("full")
	require.ErrorIs(t, (&run.Closing{Queue: q}).CloseRun(t.Context(), nil, first), q.err, "the run must not end if its close cannot be queued")
}

// grants creates a running job of two work items with a token each.
func grants(t *testing.T, pool *pgxpool.Pool, tokens *reporting.Store) (tok [2]secret.String) {
	t.Helper()
	exec := func(sql string) {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'slurm', 'active', '{cpu}', now())`)
	exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
		VALUES ('nod_1', 'flt_1', 'n', 'ready', 8, 0, 0, 8, '', '', now())`)
	exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec,
			spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, attempt, queued_at, seq)
		VALUES ('job_1', '` + fourth + `', 'n', 'usr_a', 'alice', 'prj_1', 'default', 'team', '{}', 50, '{}', '', '', '[]', 0, 0, 1, 1, 1,
			now(), 'running', 1, now(), 1)`)
	for i, id := range []string{"wrk_1", "wrk_2"} {
		exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, job_id, attempt, owner_id,
				project_id, node_id, created_at, updated_at)
			VALUES ('` + id + `', 'attempt', 1, 1, 'running', now(), '', 'cpu', 0, 1, 'job_1', 1, 'usr_a', 'prj_1', 'nod_1', now(), now())`)
		require.NoError(t, pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			now, err := pg.Now(ctx, tx)
			if err != nil {
				return err
			}
			tok[i], _, err = tokens.Mint(ctx, tx, reporting.Holder{WorkID: id, JobID: "job_1", RunID: fourth, Attempt: 1}, now)
			return err
		}))
	}
	return tok
}

// The grant of a token contains everything that ingest checks a report against, and reflects every change of the rows
// at once.
func TestResolveIngestTokenFollowsRows(t *testing.T) {
	t.Parallel()
	pool, tokens := newPool(t), &reporting.Store{Rand: rand.Reader}
	tok := grants(t, pool, tokens)
	peer := &reporting.PeerServer{Pool: pool, Tokens: tokens}
	resolve := func(after time.Duration, tok secret.String) (*jobspeerv1.IngestGrant, error) {
		return peer.ResolveIngestToken(pg.WithOffset(t.Context(), after), &jobspeerv1.ResolveIngestTokenRequest{TokenHash: secret.Hash(tok.Reveal())})
	}
	for _, one := range tok {
		got, err := resolve(0, one)
		require.NoError(t, err)
		require.Equal(t, [2]string{fourth, "job_1"}, [2]string{got.GetRunId(), got.GetJobId()})
		require.True(t, got.GetCurrent())
		require.True(t, got.GetContainer(), "a slurm node counts as a container: paths must be in the object store")
		require.Nil(t, got.GetEndedAt())
		require.Equal(t, []string{"usr_a", "prj_1", "default", "team"}, []string{
			got.GetOwner().GetOwnerId(), got.GetOwner().GetProjectId(), got.GetOwner().GetProject(), got.GetOwner().GetVisibility(),
		})
	}
	for _, hash := range [][]byte{nil, {}, make([]byte, 32), []byte(tok[0].Reveal())} {
		_, err := peer.ResolveIngestToken(t.Context(), &jobspeerv1.ResolveIngestTokenRequest{TokenHash: hash})
		require.True(t, fault.Is(err, fault.Unauthenticated), "%x: %v", hash, err)
	}
	_, err := resolve(30*24*time.Hour+time.Hour, tok[0])
	require.True(t, fault.Is(err, fault.Unauthenticated), "a token must be refused after 30 days: %v", err)
	_, err = pool.Exec(t.Context(), `UPDATE job SET attempt = 2, state = 'succeeded', ended_at = '2026-11-21', end_reason = 'completed'`)
	require.NoError(t, err)
	got, err := resolve(0, tok[0])
	require.NoError(t, err)
	require.False(t, got.GetCurrent(), "the attempt must not be current once a newer one exists")
	require.Equal(t, "2026-11-21", got.GetEndedAt().AsTime().Format(time.DateOnly))
}

func fixedClock(t *testing.T) *clock.Fake {
	t.Helper()
	return clock.NewFake(fixtures.Now())
}
