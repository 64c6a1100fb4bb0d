package hardware_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func big(change ...func(*hardware.Profile)) hardware.Config {
	p := hardware.Profile{Key: "big", Series: "h100", GPUsPerNode: 8, MaxNodes: 4, CPU: 64, MemoryGB: 512, Pools: []string{"gpu"}}
	for _, c := range change {
		c(&p)
	}
	return hardware.Config{Series: []hardware.Series{{Key: "h100"}}, Profiles: []hardware.Profile{p}}
}

func TestImpactOnLiveJobs(t *testing.T) {
	t.Parallel()
	whole := job.Pool{Pool: "gpu", Nodes: 2, GPUsPerNode: 8, CPU: 64, MemoryGB: 512, Profile: "big"}
	uses := []hardware.Use{
		{JobID: "job_2", Waiting: true, RunningS: 100, TeamID: "team_1", Pools: []job.Pool{whole, whole}},
		{JobID: "job_1", Waiting: true, RunningS: 50, TeamID: "team_1", Pools: []job.Pool{whole}},
		{JobID: "job_3", RunningS: 100, TeamID: "team_1", Pools: []job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 1, Profile: "big"}}},
		{JobID: "job_4", RunningS: 100, Pools: []job.Pool{{Pool: "gpu", Nodes: 1}}},
	}
	limit := 60
	for name, c := range map[string]struct {
		after hardware.Config
		want  string
	}{
		"unchanged":          {big(), ""},
		"larger":             {big(func(p *hardware.Profile) { p.GPUsPerNode, p.MaxNodes, p.CPU, p.MemoryGB, p.Pools = 16, 9, 0, 0, nil }), ""},
		"another price":      {func() hardware.Config { c := big(); c.Series[0].RatePerGPUHour = 3; return c }(), ""},
		"removed":            {hardware.Config{}, "impact: 2 queued jobs and 1 running job use profile big (it is removed)"},
		"fewer GPUs":         {big(func(p *hardware.Profile) { p.GPUsPerNode = 4 }), "impact: 2 queued jobs use profile big (profile big has 4 GPUs per node, 8 requested)"},
		"fewer nodes":        {big(func(p *hardware.Profile) { p.MaxNodes = 1 }), "impact: 2 queued jobs use profile big (profile big allows at most 1 nodes, 2 requested)"},
		"fewer CPUs":         {big(func(p *hardware.Profile) { p.CPU = 63 }), "impact: 2 queued jobs use profile big (profile big has 63 CPUs per node, 64 requested)"},
		"less memory":        {big(func(p *hardware.Profile) { p.MemoryGB = 1 }), "impact: 2 queued jobs use profile big (profile big has 1 GB of memory per node, 512 requested)"},
		"another pool":       {big(func(p *hardware.Profile) { p.Pools = []string{"x"} }), "impact: 2 queued jobs and 1 running job use profile big (profile big is not available in pool gpu)"},
		"another team":       {big(func(p *hardware.Profile) { p.TeamIDs = []string{"team_2"} }), "impact: 2 queued jobs and 1 running job use profile big (profile big is for projects of other teams)"},
		"the jobs' own team": {big(func(p *hardware.Profile) { p.TeamIDs = []string{"team_1"} }), ""},
		"shorter running limit": {
			big(func(p *hardware.Profile) { p.MaxRunningS = &limit }),
			"impact: 1 queued job and 1 running job use profile big (profile big allows a running limit of at most 60 seconds, 100 requested)",
		},
	} {
		before, after := big(), c.after
		effects := hardware.Impact(&before, &after, uses)
		if c.want == "" {
			require.Empty(t, effects, name)
			continue
		}
		require.Equal(t, c.want, hardware.DescribeImpact(effects), name)
		for _, e := range effects {
			require.IsIncreasing(t, append([]string{""}, e.Waiting...), "the jobs must be sorted, each listed once")
		}
	}
}

// A request that the old configuration already refuses is not affected by the change.
func TestImpactIgnoresAlreadyRefusedRequests(t *testing.T) {
	t.Parallel()
	before := big(func(p *hardware.Profile) { p.GPUsPerNode = 1 })
	uses := []hardware.Use{{JobID: "job_1", Pools: []job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 8, Profile: "big"}}}}
	require.Empty(t, hardware.Impact(&before, &hardware.Config{}, uses))
	uses[0].Pools[0].Profile = "gone-long-ago"
	require.Empty(t, hardware.Impact(&before, &hardware.Config{}, uses))
}

func TestDigestCoversChangeAndJobs(t *testing.T) {
	t.Parallel()
	digest := func(version int64, document string, effects ...hardware.Effect) string {
		d, err := hardware.Digest(version, []byte(document), effects)
		require.NoError(t, err)
		return d
	}
	one := hardware.Effect{Profile: "big", Why: "it is removed", Waiting: []string{"job_1"}, Placed: []string{}}
	same := digest(1, `{"a":1,"b":2}`, one)
	require.Equal(t, same, digest(1, `{"b":2,"a":1}`, one))
	other := one
	other.Waiting = []string{"job_2"}
	placed := one
	placed.Waiting, placed.Placed = []string{}, []string{"job_1"}
	for name, d := range map[string]string{
		"another version": digest(2, `{"a":1,"b":2}`, one), "another document": digest(1, `{"a":1}`, one),
		"another job": digest(1, `{"a":1,"b":2}`, other), "job placed": digest(1, `{"a":1,"b":2}`, placed),
	} {
		require.NotEqual(t, same, d, name)
	}
}

func TestProfile_Fill(t *testing.T) {
	t.Parallel()
	c := big()
	p, ok := c.Profile("big")
	require.True(t, ok)
	want := job.Pool{Pool: "gpu", Nodes: 1, CPU: 2, Profile: "big"}
	p.Fill(&want)
	require.Equal(t, job.Pool{Pool: "gpu", Nodes: 1, GPUsPerNode: 8, CPU: 2, MemoryGB: 512, Profile: "big"}, want)
	_, ok = c.Profile("")
	require.False(t, ok)
}
