package run_test

import (
	"context"
	"errors"
	"testing"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// deletePeers fakes the registry and ingest.
type deletePeers struct {
	registrypeerv1.CatalogPeerServiceClient
	ingestpeerv1.RunDataPeerServiceClient

	uses    registrypeerv1.FindRunUsesResponse
	busy    bool
	away    error
	deleted []string
}

func (p *deletePeers) FindRunUses(
	_ context.Context, _ *registrypeerv1.FindRunUsesRequest, _ ...grpc.CallOption,
) (*registrypeerv1.FindRunUsesResponse, error) {
	return &p.uses, p.away
}

func (p *deletePeers) SealRun(_ context.Context, _ *ingestpeerv1.SealRunRequest, _ ...grpc.CallOption) (*ingestpeerv1.SealRunResponse, error) {
	return &ingestpeerv1.SealRunResponse{Sealed: !p.busy}, p.away
}

func (p *deletePeers) DeleteRun(_ context.Context, in *ingestpeerv1.DeleteRunRequest, _ ...grpc.CallOption) (*ingestpeerv1.DeleteRunResponse, error) {
	p.deleted = append(p.deleted, in.GetRunId())
	return &ingestpeerv1.DeleteRunResponse{}, p.away
}

// deletion is a harness with a server for deletions.
type deletion struct {
	*harness

	peers  deletePeers
	queue  queued
	server *run.DeleteServer
}

// firstJob is the job of the first run.
const firstJob = "job_01jd000000000000000000000a"

// newDeletion has a job of the first run, a link to it, notes, and a run that was derived from it.
func newDeletion(t *testing.T) *deletion {
	t.Helper()
	h := newHarness(t)
	d := &deletion{harness: h}
	d.server = &run.DeleteServer{Pool: h.pool, Ingest: &d.peers, Catalog: &d.peers, Events: h.server.Events, Trail: h.server.Trail, Queue: &d.queue}
	h.update(&jobsv1.UpdateRunRequest{RunId: first, Notes: new("noted")})
	h.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec,
			spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, attempt, queued_at, seq, ended_at, end_reason)
		VALUES ($2, $1, 'train', 'usr_a', 'alice', 'prj_1', 'default', 'team', '{}', 50, '{}', '', '', '[]', 0, 0, 1, 1, 1,
			now(), 'succeeded', 1, now(), 1, now(), 'completed')`, first, firstJob)
	h.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, job_id, attempt, owner_id, project_id, node_id,
			created_at, updated_at, released_at) VALUES ('wrk_1', 'attempt', 1, 1, 'gone', now(), '', 'cpu', 0, 1, $1, 1, 'usr_a', 'prj_1', '', now(), now(), now())`, firstJob)
	h.exec(`INSERT INTO attempt (id, job_id, number, state, created_at) VALUES ('att_1', $1, 1, 'succeeded', now())`, firstJob)
	h.exec(`UPDATE run SET job_id = $2 WHERE id = $1`, first, firstJob)
	h.exec(`INSERT INTO ingest_token (hash, job_id, run_id, attempt, work_id, created_at, expires_at)
		VALUES (sha256('t'), $2, $1, 1, 'wrk_1', now(), now() + interval '1 day')`, first, firstJob)
	h.exec(`INSERT INTO share (id, kind, title, owner_id, owner_name, hash, prefix, targets, runs, fields, pinned, created_at)
		VALUES ('shr_1', 'job', 'Look', 'usr_a', 'alice', sha256('s'), 'p', ARRAY[$1], ARRAY[$1], '{}', true, now())`, first)
	h.exec(`INSERT INTO share_pin (share_id, run, part, data) VALUES ('shr_1', 0, 'run', '')`)
	h.exec(`UPDATE run SET parents = jsonb_build_array(jsonb_build_object('kind', 'retry', 'run_id', $2::text)) WHERE id = $1`, third, first)
	return d
}

func (d *deletion) delete(ctx context.Context, runID string) error {
	_, err := d.server.DeleteRun(edits(ctx), &jobsv1.DeleteRunRequest{RunId: runID})
	return err
}

func TestDeleteServer_DeleteRun_leavesNothing(t *testing.T) {
	t.Parallel()
	d := newDeletion(t)
	refs, err := d.server.GetRunReferences(alice(t.Context()), &jobsv1.GetRunReferencesRequest{RunId: first})
	require.NoError(t, err)
	require.True(t, refs.GetDeletable())
	var shown []string
	for _, r := range refs.GetReferences() {
		shown = append(shown, r.GetKind()+" "+r.GetName()+" "+r.GetEffect())
	}
	require.Equal(t, []string{"job train deleted", "share Look deleted", "run n kept"}, shown)
	require.NoError(t, d.delete(alice(t.Context()), first))
	require.Zero(t, d.count(`SELECT (SELECT count(*) FROM run WHERE id = $1) + (SELECT count(*) FROM run_note) + (SELECT count(*) FROM job)
		+ (SELECT count(*) FROM work) + (SELECT count(*) FROM attempt) + (SELECT count(*) FROM ingest_token) + (SELECT count(*) FROM share_pin)
		+ (SELECT count(*) FROM share WHERE revoked_at IS NULL)`, first))
	require.Equal(t, 3, d.count(`SELECT count(*) FROM run`))
	require.Equal(t, 1, d.count(`SELECT count(*) FROM audit WHERE action = 'run.delete' AND target_id = $1`, first))
	require.Equal(t, 1, d.count(`SELECT count(*) FROM event WHERE type = 'run.deleted' AND subject_id = $1`, first))
	require.Equal(t, []river.JobArgs{run.DeleteArgs{RunID: first}}, d.queue.args)
	require.True(t, fault.Is(d.delete(alice(t.Context()), first), fault.Absent))
	// The streams of a deleted run need no end.
	closer := &run.Closer{Pool: d.pool, Clock: d.clock}
	require.NoError(t, closer.Work(t.Context(), &river.Job[run.CloseArgs]{Args: run.CloseArgs{RunID: first}}))
	deleter := &run.Deleter{Ingest: &d.peers, Clock: d.clock}
	require.NoError(t, deleter.Work(t.Context(), &river.Job[run.DeleteArgs]{Args: run.DeleteArgs{RunID: first}}))
	require.Equal(t, []string{first, first}, d.peers.deleted, "the data must be hidden before the response, and again by the queue")
	d.peers.away = errors.New("away")
	require.ErrorIs(t, deleter.Work(t.Context(), &river.Job[run.DeleteArgs]{Args: run.DeleteArgs{RunID: first}}), d.peers.away)
}

func TestDeleteServer_DeleteRun_refusals(t *testing.T) {
	t.Parallel()
	d := newDeletion(t)
	owner := alice(t.Context())
	use := &registrypeerv1.RunUse{Kind: "model_version", Id: "mdl_1", Name: "mdl/p/m@1"}
	for name, c := range map[string]struct {
		ctx    context.Context
		run    string
		change func()
		kind   fault.Kind
		code   string
	}{
		"viewer":              {user(t.Context(), "usr_c", "prj_1", authn.ProjectViewer), first, nil, fault.Forbidden, ""},
		"hidden":              {user(t.Context(), "usr_c"), first, nil, fault.Absent, ""},
		"malformed ID":        {owner, "run_x", nil, fault.Invalid, ""},
		"live":                {owner, fourth, nil, fault.Conflict, "run_state"},
		"model":               {owner, first, func() { d.peers.uses.Uses = append(d.peers.uses.Uses, use) }, fault.Conflict, "run_in_use"},
		"hidden model":        {owner, first, func() { d.peers.uses.Hidden = 1 }, fault.Conflict, "run_in_use"},
		"model in the making": {owner, first, func() { d.peers.busy = true }, fault.Conflict, "run_in_use"},
		"registry away":       {owner, first, func() { d.peers.away = fault.New(fault.Unavailable, "", "away") }, fault.Unavailable, ""},
		"queue full":          {owner, first, func() { d.queue.err = fault.New(fault.Internal, "", "full") }, fault.Internal, ""},
		"live child":          {owner, first, func() { d.exec(`UPDATE run SET ended_at = NULL WHERE id = $1`, third) }, fault.Conflict, "run_in_use"},
		"unreleased work":     {owner, first, func() { d.exec(`UPDATE work SET released_at = NULL`) }, fault.Conflict, "job_state"},
		"live job":            {owner, first, func() { d.exec(`UPDATE job SET ended_at = NULL, end_reason = '', state = 'running'`) }, fault.Conflict, "job_state"},
	} {
		if c.change != nil {
			c.change()
		}
		err := d.delete(c.ctx, c.run)
		require.True(t, fault.Is(err, c.kind) && (c.code == "" || fault.HasCode(err, c.code)), "%s: %v", name, err)
		d.peers, d.queue.err = deletePeers{}, nil
		d.exec(`UPDATE run SET ended_at = now() WHERE id = $1`, third)
		d.exec(`UPDATE work SET released_at = now()`)
		d.exec(`UPDATE job SET ended_at = now(), end_reason = 'completed', state = 'succeeded'`)
	}
	require.Equal(t, 4, d.count(`SELECT count(*) FROM run`))
	require.Equal(t, 1, d.count(`SELECT count(*) FROM job`))
	require.Zero(t, d.count(`SELECT count(*) FROM audit WHERE action = 'run.delete'`))
}

// Names and ids of objects that the caller may not see must not be shown, but they prevent the deletion.
func TestDeleteServer_GetRunReferences_hidden(t *testing.T) {
	t.Parallel()
	d := newDeletion(t)
	d.exec(`UPDATE run SET visibility = 'team', ended_at = NULL WHERE id = $1`, third)
	refs, err := d.server.GetRunReferences(alice(t.Context()), &jobsv1.GetRunReferencesRequest{RunId: first})
	require.NoError(t, err)
	require.False(t, refs.GetDeletable())
	require.EqualValues(t, 1, refs.GetHidden())
	require.NotContains(t, refs.String(), third)
	require.ErrorContains(t, d.delete(alice(t.Context()), first), "1 that you may not see")
}

func TestDeleteServer_DeleteJob_keepsRun(t *testing.T) {
	t.Parallel()
	d := newDeletion(t)
	drop := func(ctx context.Context, jobID string) error {
		_, err := d.server.DeleteJob(edits(ctx), &jobsv1.DeleteJobRequest{JobId: jobID})
		return err
	}
	const job = firstJob
	require.True(t, fault.Is(drop(user(t.Context(), "usr_c", "prj_1", authn.ProjectViewer), job), fault.Forbidden))
	require.True(t, fault.Is(drop(user(t.Context(), "usr_c"), job), fault.Absent))
	d.exec(`UPDATE job SET ended_at = NULL, end_reason = '', state = 'running'`)
	require.True(t, fault.HasCode(drop(alice(t.Context()), job), "job_state"))
	d.exec(`UPDATE job SET ended_at = now(), end_reason = 'completed', state = 'succeeded'`)
	require.NoError(t, drop(alice(t.Context()), job))
	require.Zero(t, d.count(`SELECT (SELECT count(*) FROM job) + (SELECT count(*) FROM work) + (SELECT count(*) FROM ingest_token)`))
	require.Equal(t, 4, d.count(`SELECT count(*) FROM run`))
	require.Equal(t, 1, d.count(`SELECT count(*) FROM audit WHERE action = 'job.delete' AND target_id = $1`, job))
	require.True(t, fault.Is(drop(alice(t.Context()), job), fault.Absent))
}
