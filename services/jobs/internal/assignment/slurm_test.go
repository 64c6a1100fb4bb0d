package assignment_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

const slurmSettings = `{"partition": "p", "account": "", "qos": "", "user": "", "folder": "/s"}`

// slurmFleet makes nod_1 the agent of a Slurm fleet with the pools cpu and gpu.
func (b *harness) slurmFleet(t *testing.T) {
	t.Helper()
	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'slurm', 'active', '{cpu,gpu}', now())`)
	b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
		VALUES ('nod_1', 'flt_1', 'n', 'ready', 8, 0, 0, 8, '', '', now())`)
	b.exec(`INSERT INTO pool (name, slurm, on_silence) VALUES ('gpu', $1, 'stop')`, slurmSettings)
}

// batch stores the work of an attempt in the pools cpu and gpu that Slurm runs as a whole.
func (b *harness) batch(t *testing.T, noNetwork bool) {
	t.Helper()
	b.attempt("wrk_1")
	spec, err := proto.Marshal(&jobsv1.AttemptSpec{JobId: "job_1", RunId: "run_1", NoNetwork: noNetwork, Batch: &jobsv1.BatchSpec{
		Parts: []*jobsv1.BatchPart{{Pool: "cpu", Nodes: 1}, {Pool: "gpu", Nodes: 1}},
	}})
	require.NoError(t, err)
	b.exec(`UPDATE work SET batch = true, phase = 'pending', spec = $1`, spec)
}

func TestAgentStream_slurm(t *testing.T) {
	t.Parallel()
	b, c := newHarness(t), newCluster()
	b.slurmFleet(t)
	a := b.connect(c)
	m := hello("nod_1")
	m.GetHello().RunsOn, m.GetHello().Slurm = jobsv1.FleetKind_FLEET_KIND_SLURM, &jobsv1.SlurmReport{Version: "22.05"}
	a.in <- m
	require.NotNil(t, (<-a.out).GetWelcome())
	pools := (<-a.out).GetDesired().GetPools()
	require.Len(t, pools, 1, "the agent must get the pools that have settings")
	require.Equal(t, []string{"gpu", "p", "/s"}, []string{pools[0].GetPool(), pools[0].GetSlurm().GetPartition(), pools[0].GetSlurm().GetFolder()})
	require.Equal(t, fleet.KindSlurm, c.hellos[0].RunsOn)
	require.Equal(t, "22.05", c.hellos[0].Slurm.Version)

	a.in <- &jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Heartbeat{Heartbeat: &jobsv1.Heartbeat{Slurm: &jobsv1.SlurmReport{Version: "23.02"}}}}
	require.Equal(t, "23.02", (<-c.clusters).Version)
	b.exec(`INSERT INTO pool (name, slurm) VALUES ('cpu', $1)`, slurmSettings)
	a.hub.Wake(db.NodeTopic("nod_1"))
	require.Len(t, (<-a.out).GetDesired().GetPools(), 2)
	twice := &jobsv1.SlurmReport{Pools: []*jobsv1.SlurmPoolReport{{Pool: "gpu"}, {Pool: "gpu"}}}
	a.in <- &jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Heartbeat{Heartbeat: &jobsv1.Heartbeat{Slurm: twice}}}
	err := <-a.done
	require.True(t, fault.HasCode(err, "slurm_report"), "%v", err)
}

func TestAgentStream_hostReportsNoSlurm(t *testing.T) {
	t.Parallel()
	b, c := newHarness(t), newCluster()
	a := b.connect(c)
	a.open(t)
	require.Equal(t, fleet.KindAgent, c.hellos[0].RunsOn, "an agent of an earlier version runs works on its host")
	a.in <- &jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Heartbeat{Heartbeat: &jobsv1.Heartbeat{Slurm: &jobsv1.SlurmReport{}}}}
	a.in <- observed()
	<-a.reports
	require.Empty(t, c.clusters)
}

// Slurm may hold a work for days after its token was minted. Its lease begins when its shim first renews it.
func TestMintIngestToken_heldWorkHasNoLease(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.slurmFleet(t)
	b.batch(t, false)
	s, _, _ := b.agents()
	got, err := s.MintIngestToken(asNode(t.Context(), "nod_1"), mintOf("wrk_1"))
	require.NoError(t, err)
	require.Zero(t, b.count(`work WHERE renewed_at IS NOT NULL`))
	require.EqualValues(t, 90, got.GetSilenceS(), "one of the pools stops silent attempts")
	lease, err := b.leases().RenewLease(t.Context(), &jobsv1.RenewLeaseRequest{WorkId: "wrk_1", Token: got.GetLeaseToken()})
	require.NoError(t, err)
	require.False(t, lease.GetStop())
	require.Equal(t, 1, b.count(`work WHERE renewed_at IS NOT NULL`))
}

func TestMintIngestToken_slurmWithoutNetwork(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.slurmFleet(t)
	b.batch(t, true)
	b.exec(`INSERT INTO pool (name, slurm) VALUES ('cpu', $1)`, slurmSettings)
	s, _, _ := b.agents()
	closes := func(cpu, gpu string) error {
		b.exec(`UPDATE node SET slurm = jsonb_build_object('pools', jsonb_build_array(
			jsonb_build_object('pool', 'cpu', 'slurm', $1::text::jsonb, 'isolation', 'own_user', 'closes_network', $2::text::boolean),
			jsonb_build_object('pool', 'gpu', 'slurm', $1::text::jsonb, 'isolation', 'own_user', 'closes_network', $3::text::boolean)))`, slurmSettings, cpu, gpu)
		_, err := s.MintIngestToken(asNode(t.Context(), "nod_1"), mintOf("wrk_1"))
		return err
	}
	err := closes("true", "false")
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "isolation"), "%v", err)
	require.NoError(t, closes("true", "true"))
}

func TestPeerServer_refusesEnginesOnSlurm(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.slurmFleet(t)
	onPool := func(r *jobspeerv1.PutWorkRequest) { r.Pool = "gpu" }
	_, err := b.peer().PutWork(t.Context(), orderOf("wrk_1", 1, running, onPool))
	require.True(t, fault.Is(err, fault.Unconfigured) && fault.HasCode(err, "slurm_engine"), "%v", err)
	require.Equal(t, "engines do not run on Slurm, and only Slurm fleets serve pool gpu; use another pool", fault.From(err).Text())
	require.Zero(t, b.count("work"))
	_, err = b.peer().PutWork(t.Context(), orderOf("wrk_1", 1, gone, onPool))
	require.NoError(t, err, "an engine can always be ended")
	_, err = b.peer().CheckPool(t.Context(), &jobspeerv1.CheckPoolRequest{Pool: "gpu"})
	require.True(t, fault.HasCode(err, "slurm_engine"), "%v", err)

	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_2', 'hosts', 'agent', 'active', '{gpu}', now())`)
	_, err = b.peer().PutWork(t.Context(), orderOf("wrk_1", 1, running, onPool))
	require.NoError(t, err, "hosts serve the pool too")
	_, err = b.peer().CheckPool(t.Context(), &jobspeerv1.CheckPoolRequest{Pool: "gpu"})
	require.NoError(t, err)
}
