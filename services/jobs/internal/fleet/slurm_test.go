package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

func gpuSettings() fleet.SlurmPool {
	return fleet.SlurmPool{Partition: "gpu", Account: "lab", Folder: "/shared"}
}

// tested returns a cluster whose pool gpu has the given isolation and was tested with its current settings, with the given
// result.
func tested(isolation string, result fleet.SlurmTest) *fleet.Slurm {
	result.Pool, result.Slurm = "gpu", gpuSettings()
	return &fleet.Slurm{
		Report: &fleet.SlurmReport{Pools: []fleet.SlurmTest{result}, Partitions: []fleet.SlurmPartition{{Name: "gpu", GPUs: 16, GPUsUsed: 5}, {Name: "cpu"}}},
		Pools:  map[string]fleet.SlurmSettings{"gpu": {Slurm: gpuSettings(), Isolation: isolation}},
	}
}

func TestSlurm_Permits(t *testing.T) {
	t.Parallel()
	const required, none = fleet.IsolationRequired, fleet.IsolationNone
	unreachable := tested(required, fleet.SlurmTest{Isolation: "own_user"})
	unreachable.Report.Problem = "slurmctld does not respond"
	changed := tested(required, fleet.SlurmTest{Isolation: "own_user"})
	changed.Report.Pools[0].Slurm.Partition = "old"
	drained := tested(required, fleet.SlurmTest{Isolation: "own_user"})
	drained.Report.Partitions[0].State = "drain"
	down := tested(required, fleet.SlurmTest{Isolation: "own_user"})
	down.Report.Partitions[0].State = "down"
	for name, c := range map[string]struct {
		slurm            *fleet.Slurm
		refusal, waiting string
	}{
		"isolated":               {tested(required, fleet.SlurmTest{Isolation: "own_user"}), "", ""},
		"user namespaces":        {tested(required, fleet.SlurmTest{Isolation: "user_namespace"}), "", ""},
		"not isolated":           {tested(required, fleet.SlurmTest{Isolation: "none", Problem: "no user namespaces"}), "do not isolate the work they run: no user namespaces; repair that, or have an admin permit", ""},
		"not isolated, allowed":  {tested(none, fleet.SlurmTest{Isolation: "none", Problem: "no user namespaces"}), "", ""},
		"isolated, with problem": {tested(none, fleet.SlurmTest{Isolation: "own_user", Problem: "/shared is not shared"}), "cannot be used: /shared is not shared", ""},
		"test could not run":     {tested(none, fleet.SlurmTest{Problem: "Invalid account"}), "cannot be used: Invalid account", ""},
		"unknown isolation":      {tested(none, fleet.SlurmTest{Isolation: "vm"}), "its test ended without a result", ""},
		"not tested":             {changed, "", "pool gpu is not tested yet"},
		"no report":              {&fleet.Slurm{Pools: changed.Pools}, "", "pool gpu is not tested yet"},
		"no settings":            {&fleet.Slurm{}, "", "pool gpu has no Slurm settings yet; an admin sets them with PATCH /api/cluster/pools/gpu"},
		"partition is drained":   {drained, "", "partition gpu of pool gpu accepts no jobs now: Slurm reports it as drain"},
		"partition is down":      {down, "", ""},
		"Slurm is down":          {unreachable, "", "cannot reach Slurm: slurmctld does not respond"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pools := []string{"gpu"}
			require.Equal(t, c.refusal == "", c.slurm.Refusal(pools) == "", c.slurm.Refusal(pools))
			require.Contains(t, c.slurm.Refusal(pools), c.refusal)
			require.Equal(t, c.waiting == "", c.slurm.Waits(pools) == "", c.slurm.Waits(pools))
			require.Contains(t, c.slurm.Waits(pools), c.waiting)
			require.Equal(t, c.refusal+c.waiting == "", c.slurm.Permits(pools))
			require.Equal(t, c.refusal+c.waiting == "", len(c.slurm.Permitted(pools)) == 1)
		})
	}
}

// A job whose pools require isolation to different degrees would run without isolation where an admin does not permit it.
func TestSlurm_Permits_poolsOfOneJob(t *testing.T) {
	t.Parallel()
	s := tested(fleet.IsolationNone, fleet.SlurmTest{Isolation: "none"})
	s.Pools["cpu"] = fleet.SlurmSettings{Slurm: fleet.SlurmPool{Partition: "cpu", Folder: "/shared"}, Isolation: fleet.IsolationRequired}
	s.Report.Pools = append(s.Report.Pools, fleet.SlurmTest{Pool: "cpu", Slurm: s.Pools["cpu"].Slurm, Isolation: "own_user", ClosesNetwork: true})
	require.True(t, s.Permits([]string{"gpu"}))
	require.True(t, s.Permits([]string{"cpu"}))
	require.False(t, s.Permits([]string{"gpu", "cpu"}))
	require.Contains(t, s.Refusal([]string{"gpu", "cpu"}), "another pool of the job requires that")
	require.True(t, s.Open([]string{"gpu"}))
	require.False(t, s.Open([]string{"gpu", "cpu"}))
	require.True(t, s.ClosesNetwork([]string{"cpu"}, false))
	require.False(t, s.ClosesNetwork([]string{"cpu", "gpu"}, true))
	require.False(t, s.ClosesNetwork([]string{"other"}, false))
	require.True(t, s.ClosesNetwork([]string{"other"}, true), "the test of a pool may still succeed")
}

func TestSlurm_GPUs_eachPartitionOnce(t *testing.T) {
	t.Parallel()
	s := tested(fleet.IsolationRequired, fleet.SlurmTest{})
	s.Pools["also"] = fleet.SlurmSettings{Slurm: fleet.SlurmPool{Partition: "gpu", Folder: "/other"}}
	s.Pools["gone"] = fleet.SlurmSettings{Slurm: fleet.SlurmPool{Partition: "gone", Folder: "/other"}}
	total, free := s.GPUs([]string{"gpu", "also", "gone", "unset"})
	require.Equal(t, [2]int{16, 11}, [2]int{total, free})
	require.Equal(t, "partition gpu, account lab, folder /shared", gpuSettings().Describe())
	require.Empty(t, fleet.SlurmPool{}.Describe())
}

func TestSlurmFromProto(t *testing.T) {
	t.Parallel()
	none, err := fleet.SlurmFromProto(nil)
	require.NoError(t, err)
	require.Nil(t, none)
	r, err := fleet.SlurmFromProto(&jobsv1.SlurmReport{
		Version: "22.05", Problem: new("a\x00b"), Partitions: []*jobsv1.SlurmPartition{{Name: "gpu", Nodes: -1, MaxTimeS: -5}},
		Pools: []*jobsv1.SlurmPoolReport{{Pool: "gpu", TestedAt: timestamppb.Now()}},
	})
	require.NoError(t, err)
	require.Equal(t, "ab", r.Problem, "jsonb cannot store NUL")
	require.Equal(t, fleet.SlurmPartition{Name: "gpu"}, r.Partitions[0], "a negative number must become 0")
	require.NotNil(t, r.Pools[0].TestedAt)
	for _, twice := range []*jobsv1.SlurmReport{
		{Partitions: []*jobsv1.SlurmPartition{{Name: "gpu"}, {Name: "gpu"}}},
		{Pools: []*jobsv1.SlurmPoolReport{{Pool: "gpu"}, {Pool: "gpu"}}},
	} {
		_, err := fleet.SlurmFromProto(twice)
		require.True(t, fault.HasCode(err, "slurm_report"), "%v", err)
	}
}
