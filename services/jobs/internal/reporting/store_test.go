package reporting_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func holder() reporting.Holder {
	return reporting.Holder{WorkID: "wrk_1", JobID: "job_1", RunID: "run_1", Attempt: 1}
}

type harness struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *reporting.Store
}

// newHarness creates a running job with one work item on a node of an agent fleet.
func newHarness(t *testing.T) *harness {
	t.Helper()
	b := &harness{
		t: t, pool: pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs"),
		store: &reporting.Store{Rand: rand.Reader},
	}
	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{cpu}', now())`)
	b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
		VALUES ('nod_1', 'flt_1', 'n', 'ready', 8, 0, 0, 8, '', '', now())`)
	b.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec,
			spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, attempt, queued_at, seq,
			visibility_version)
		VALUES ('job_1', 'run_1', 'n', 'usr_1', 'alice', 'prj_1', 'default', 'all', '{}', 50, '{}', '', '', '[]', 0, 0, 1, 1, 1,
			now(), 'running', 1, now(), 1, 7)`)
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, job_id, attempt, owner_id,
			project_id, node_id, created_at, updated_at)
		VALUES ('wrk_1', 'attempt', 1, 1, 'running', now(), '', 'cpu', 0, 1, 'job_1', 1, 'usr_1', 'prj_1', 'nod_1', now(), now())`)
	return b
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *harness) mint(h reporting.Holder, now time.Time) (tok secret.String, expires time.Time) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		tok, expires, err = b.store.Mint(ctx, tx, h, now)
		return err
	}))
	return tok, expires
}

func (b *harness) resolve(tok secret.String, now time.Time) (*reporting.Grant, error) {
	return b.store.Resolve(b.t.Context(), b.pool, secret.Hash(tok.Reveal()), now)
}

func TestIngestTokenValidForThirtyDays(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	tok, expires := b.mint(holder(), fixtures.Now())
	require.Equal(t, secret.KindIngest, secret.Kind(tok.Reveal()))
	require.Equal(t, fixtures.Now().AddDate(0, 0, 30), expires)
	got, err := b.resolve(tok, expires.Add(-time.Second))
	require.NoError(t, err)
	got.ExpiresAt = got.ExpiresAt.UTC()
	require.Equal(t, &reporting.Grant{
		JobID: "job_1", RunID: "run_1", Attempt: 1, Current: true, ExpiresAt: expires,
		OwnerID: "usr_1", ProjectID: "prj_1", Project: "default", Visibility: "all", VisibilityVersion: 7,
	}, got)
	var kept int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM ingest_token WHERE position($1 in ingest_token::text) > 0
		OR hash = convert_to($1, 'UTF8')`, tok.Reveal()).Scan(&kept))
	require.Zero(t, kept, "only the hash of the token must be stored")
}

func TestInvalidIngestTokensIndistinguishable(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	previous, _ := b.mint(holder(), fixtures.Now())
	live, expires := b.mint(holder(), fixtures.Now())
	_, err := b.resolve(live, fixtures.Now())
	require.NoError(t, err)
	_, unknown := b.resolve(secret.New("sbi_none"), fixtures.Now())
	_, revoked := b.resolve(previous, fixtures.Now())
	_, expired := b.resolve(live, expires)
	for name, err := range map[string]error{"unknown": unknown, "revoked by the next token": revoked, "expired": expired} {
		require.True(t, fault.Is(err, fault.Unauthenticated), "%s: %v", name, err)
		require.Equal(t, unknown.Error(), err.Error(), name)
	}
}

func TestStore_Resolve_grantFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change                    string
		current, container, ended bool
	}{
		"unchanged":        {`SELECT 1`, true, false, false},
		"newer attempt":    {`UPDATE job SET attempt = 2`, false, false, false},
		"ended attempt":    {`INSERT INTO attempt (id, job_id, number, state, created_at, ended_at) SELECT 'att_1', id, attempt, 'paused', now(), now() FROM job`, false, false, false},
		"ended run":        {`UPDATE job SET state = 'succeeded', ended_at = now(), end_reason = 'completed'`, true, false, true},
		"kubernetes fleet": {`UPDATE fleet SET kind = 'kubernetes'`, true, true, false},
		"slurm fleet":      {`UPDATE fleet SET kind = 'slurm'`, true, true, false},
		"no node":          {`UPDATE work SET node_id = ''`, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
			tok, _ := b.mint(holder(), fixtures.Now())
			b.exec(c.change)
			got, err := b.resolve(tok, fixtures.Now())
			require.NoError(t, err)
			require.Equal(t, c.current, got.Current)
			require.Equal(t, c.container, got.Container)
			require.Equal(t, c.ended, got.EndedAt != nil)
		})
	}
}

func TestStore_Resolve_resumeStep(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	tok, _ := b.mint(holder(), fixtures.Now())
	got, err := b.resolve(tok, fixtures.Now())
	require.NoError(t, err)
	require.Nil(t, got.ResumeStep)
	b.exec(`INSERT INTO attempt (id, job_id, number, state, created_at, resumed_from, resumed_step)
		SELECT 'att_1', job_id, attempt, 'running', now(), 'art_1', 40 FROM ingest_token ON CONFLICT (job_id, number) DO UPDATE SET resumed_step = 40`)
	got, err = b.resolve(tok, fixtures.Now())
	require.NoError(t, err)
	require.EqualValues(t, 40, *got.ResumeStep)
}

func TestStore_Resolve_checkpoints(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	tok, _ := b.mint(holder(), fixtures.Now())
	peer := &reporting.PeerServer{Pool: b.pool, Tokens: b.store}
	resolve := func() *jobspeerv1.CheckpointKeeping {
		got, err := peer.ResolveIngestToken(t.Context(), &jobspeerv1.ResolveIngestTokenRequest{TokenHash: secret.Hash(tok.Reveal())})
		require.NoError(t, err)
		return got.GetKeeping()
	}
	b.exec(`UPDATE ingest_token SET expires_at = now() + interval '1 hour'`)
	require.Nil(t, resolve(), "the spec has no policy")
	b.exec(`UPDATE job SET spec = '{"checkpoint":{"grace_s":300,"required_for_pause":true}}'`)
	require.Nil(t, resolve(), "all checkpoints are kept")
	b.exec(`UPDATE job SET spec = '{"checkpoint":{"grace_s":300,"keep_last":3,"keep_best":"val/acc","keep_best_goal":"maximize"}}'`)
	got := resolve()
	require.Equal(t, &jobspeerv1.CheckpointKeeping{Last: 3, Best: "val/acc", Maximize: true},
		&jobspeerv1.CheckpointKeeping{Last: got.GetLast(), Best: got.GetBest(), Maximize: got.GetMaximize()})
}

// catalog is a fake of the registry.
type catalog struct {
	registrypeerv1.CatalogPeerServiceClient

	away error
}

func (c catalog) FindArtifactsInUse(
	_ context.Context, in *registrypeerv1.FindArtifactsInUseRequest, _ ...grpc.CallOption,
) (*registrypeerv1.FindArtifactsInUseResponse, error) {
	if c.away != nil {
		return nil, c.away
	}
	var used []string
	for i, id := range in.GetArtifactIds() {
		if id == "art_registered" && in.GetRunIds()[i] == "run_1" {
			used = append(used, id)
		}
	}
	return &registrypeerv1.FindArtifactsInUseResponse{ArtifactIds: used}, nil
}

func TestPeerServer_FindArtifactsInUse(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	peer := &reporting.PeerServer{Pool: b.pool, Jobs: &job.Store{}, Catalog: catalog{}}
	used := func(ids ...string) []string {
		in := &jobspeerv1.FindArtifactsInUseRequest{}
		for _, id := range ids {
			in.Artifacts = append(in.Artifacts, &jobspeerv1.RunArtifact{RunId: "run_1", ArtifactId: id})
		}
		out, err := peer.FindArtifactsInUse(t.Context(), in)
		require.NoError(t, err)
		return out.GetArtifactIds()
	}
	all := []string{"art_own", "art_next", "art_past", "art_registered", "art_free"}
	require.Equal(t, []string{"art_registered"}, used(all...))
	b.exec(`UPDATE job SET state = 'failed', end_reason = 'exit', ended_at = now(), checkpoint = '{"artifact_id":"art_own"}'`)
	const other = `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec,
			spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, attempt, queued_at, seq, checkpoint, end_reason, ended_at)
		VALUES ($1, $1, 'n', 'usr_1', 'alice', 'prj_1', 'default', 'all', '{}', 50, '{}', '', '', '[]', 0, 0, 1, 1, 1, now(), $2, 0, now(), 1,
			jsonb_build_object('artifact_id', $3::text), $4, CASE WHEN $4 <> '' THEN now() END)`
	b.exec(other, "job_2", "queued", "art_next", "")
	b.exec(other, "job_3", "succeeded", "art_past", "completed")
	require.ElementsMatch(t, []string{"art_own", "art_next", "art_registered"}, used(all...),
		"a retry of the ended job resumes from its own checkpoint, and the queued job from another one")
	require.Empty(t, used("art_free"))

	peer.Catalog = catalog{away: errors.New("the registry is away")}
	_, err := peer.FindArtifactsInUse(t.Context(), &jobspeerv1.FindArtifactsInUseRequest{Artifacts: []*jobspeerv1.RunArtifact{{RunId: "run_1", ArtifactId: "art_free"}}})
	require.ErrorContains(t, err, "the registry is away", "without the registry, nothing is known to be unused")
}

func TestGangMembersHaveSeparateTokens(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, job_id, attempt, rank,
			owner_id, project_id, node_id, created_at, updated_at)
		SELECT 'wrk_2', kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, job_id, attempt, 1,
			owner_id, project_id, node_id, created_at, updated_at FROM work`)
	second := holder()
	second.WorkID = "wrk_2"
	one, _ := b.mint(holder(), fixtures.Now())
	two, _ := b.mint(second, fixtures.Now())
	require.False(t, one.Equal(two))
	for _, tok := range []secret.String{one, two} {
		_, err := b.resolve(tok, fixtures.Now())
		require.NoError(t, err)
	}
}

func TestStore_Mint_randomFailureKeepsOldToken(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	tok, _ := b.mint(holder(), fixtures.Now())
	broken := errors.New("no entropy")
	failing := &reporting.Store{Rand: iotest.ErrReader(broken)}
	err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, _, err := failing.Mint(ctx, tx, holder(), fixtures.Now())
		return err
	})
	require.ErrorIs(t, err, broken)
	_, err = b.resolve(tok, fixtures.Now())
	require.NoError(t, err)
}
