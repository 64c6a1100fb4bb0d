package scheduler

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

const slurmReport = `{"version": "22.05", "partitions": [], "problem": "", "pools": [{"pool": "gpu",
	"slurm": {"partition": "p1", "account": "lab", "qos": "high", "user": "train", "folder": "/s"}, "isolation": "own_user", "closes_network": false}]}`

// newSlurmHarness makes the node the agent of a Slurm fleet with the given slots, whose pool gpu can be used.
func newSlurmHarness(t *testing.T, slots int) *harness {
	t.Helper()
	b := newHarness(t, 0, slots)
	b.exec(`UPDATE fleet SET kind = 'slurm'`)
	b.exec(`UPDATE node SET slurm = $1, boundary = '{"kind": "none", "required": true}'`, slurmReport)
	b.exec(`INSERT INTO pool (name, isolation, slurm) VALUES ('gpu', 'none', '{"partition": "p1", "account": "lab", "qos": "high", "user": "train", "folder": "/s"}')`)
	return b
}

// gang submits a job of two parts in the pool gpu.
func (b *harness) gang(change ...func(j *job.Job)) *job.Job {
	b.t.Helper()
	j := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 2})
	j.Pools = []job.Pool{{Pool: "gpu", Role: "trainer", Nodes: 2, GPUsPerNode: 2, CPU: 4, MemoryGB: 1}, {Pool: "gpu", Role: "eval", Nodes: 1, GPUsPerNode: 1}}
	b.exec(`UPDATE job SET pools = $2, gpus = 5, priority = 70, running_s = 1000, starting_s = 100, checkpoint_grace_s = 60, queued_s = 500 WHERE id = $1`, j.ID, j.Pools)
	for _, c := range change {
		c(j)
	}
	return j
}

func TestScheduler_placesGangOnSlurm(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t, 1)
	j := b.gang()
	_, err := b.scheduler().RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`work WHERE batch AND gpus = 5 AND slots = 1 AND cpus = 0 AND memory_bytes = 0 AND nnodes = 3 AND rank = 0 AND role = 'trainer' AND master = ''`))
	require.Equal(t, 1, b.count(`work`), "Slurm gets the whole attempt as one work")
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled' AND batch_held AND queue_reason = ''`))
	require.Equal(t, 1, b.count(`attempt WHERE held = 5`))
	require.Equal(t, 1, b.count(`account WHERE held = 5`))
	require.Equal(t, 1, b.count(`event WHERE subject_id = '`+j.ID+`' AND type = 'job.scheduled'`))

	var raw []byte
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT spec FROM work`).Scan(&raw))
	spec := &jobsv1.AttemptSpec{}
	require.NoError(t, proto.Unmarshal(raw, spec))
	set := &jobsv1.SlurmPool{Partition: "p1", Account: "lab", Qos: "high", User: "train", Folder: "/s"}
	want := &jobsv1.BatchSpec{
		Parts: []*jobsv1.BatchPart{
			{Role: "trainer", Nodes: 2, GpusPerNode: 2, Cpus: 4, MemoryBytes: 1 << 30, Pool: "gpu", Slurm: set},
			{Role: "eval", Nodes: 1, GpusPerNode: 1, Pool: "gpu", Slurm: set},
		},
		TimeLimitS: 1000 + 100 + 60 + 30 + 600, Priority: 70, NotIsolated: true,
	}
	require.Empty(t, cmp.Diff(want, spec.GetBatch(), protocmp.Transform()))

	second := b.gang()
	_, err = b.scheduler().RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`job WHERE id = '`+second.ID+`' AND queue_reason = 'pool_capacity' AND queue_detail LIKE 'pool gpu is full: its Slurm fleet already has 1 job;%'`))
}

func TestScheduler_place_outdatedSlurmDecision(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"slot taken": `INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, node_id, created_at, updated_at)
			VALUES ('wrk_other', 'attempt', 1, 1, 'running', now(), '', 'gpu', 0, 1, 'u', 'p', (SELECT id FROM node), now(), now())`,
		"agent lost":       `UPDATE node SET state = 'lost', lost_at = now()`,
		"settings changed": `UPDATE pool SET slurm = jsonb_set(slurm, '{partition}', '"p2"')`,
		"test failed":      `UPDATE node SET slurm = jsonb_set(slurm, '{pools,0,problem}', '"/s is not shared"')`,
		"Slurm is down":    `UPDATE node SET slurm = jsonb_set(slurm, '{problem}', '"timeout"')`,
		"network":          `UPDATE job SET no_network = true`,
		"environment":      `UPDATE job SET runtime = 'node:jax'`,
		"fleet of hosts":   `UPDATE fleet SET kind = 'agent'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSlurmHarness(t, 1)
			b.gang()
			s := b.scheduler()
			decisions, _, err := s.decide(t.Context())
			require.NoError(t, err)
			require.NotNil(t, decisions[0].Places[0].Parts)
			b.exec(change)
			require.NoError(t, s.place(t.Context(), decisions[0]))
			require.Zero(t, b.count("attempt"))
			require.Zero(t, b.count(`account WHERE held > 0`))
		})
	}
}

// A change of the priority of a job that Slurm holds changes nothing in Slurm, and keeps the job held.
func TestScheduler_heldJobKeepsItsPlace(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t, 1)
	j := b.gang()
	_, err := b.scheduler().RunOnce(t.Context())
	require.NoError(t, err)
	require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		held, err := b.jobs.Lock(ctx, tx, j.ID)
		require.NoError(t, err)
		held.Priority = 10
		require.NoError(t, b.jobs.SaveFacts(ctx, tx, held))
		return b.jobs.Save(ctx, tx, held, held.State, job.Cause{Type: "job.updated"})
	}))
	_, err = b.scheduler().RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled' AND batch_held AND priority = 10 AND attempt = 1`))
	require.Equal(t, 1, b.count(`work`))
}
