package jobs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

func (w *harness) hardware() jobsv1.HardwareServiceClient {
	return jobsv1.NewHardwareServiceClient(w.dial("gateway"))
}

func series(key string, change ...func(*jobsv1.HardwareSeries)) *jobsv1.HardwareSeries {
	s := &jobsv1.HardwareSeries{Key: &key, Model: new("NVIDIA " + key), VramGb: new(int32(80))}
	for _, c := range change {
		c(s)
	}
	return s
}

func profile(key, of string, gpus, nodes int32, change ...func(*jobsv1.HardwareProfile)) *jobsv1.HardwareProfile {
	p := &jobsv1.HardwareProfile{Key: &key, Series: &of, GpusPerNode: &gpus, MaxNodes: &nodes}
	for _, c := range change {
		c(p)
	}
	return p
}

func config(profiles ...*jobsv1.HardwareProfile) *jobsv1.PutHardwareConfigRequest {
	return &jobsv1.PutHardwareConfigRequest{Series: []*jobsv1.HardwareSeries{series("h100")}, Profiles: profiles}
}

// put replaces the configuration and returns the response headers. The parameters confirm and match are the values of
// request headers; empty values are not sent.
func (w *harness) put(as authn.Caller, in *jobsv1.PutHardwareConfigRequest, confirm, match string) (metadata.MD, error) {
	w.t.Helper()
	var header metadata.MD
	ctx := w.as(as)
	for name, value := range map[string]string{"x-service-confirm": confirm, "if-match": match} {
		if value != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, name, value)
		}
	}
	_, err := w.hardware().PutHardwareConfig(ctx, in, grpc.Header(&header))
	return header, err
}

// profiled returns a change that makes a submission request the profile with this key in the pool gpu.
func profiled(key string, change ...func(*jobsv1.PoolRequest)) func(*jobsv1.SubmitJobRequest) {
	return func(r *jobsv1.SubmitJobRequest) {
		p := r.GetSpec().GetResources().GetPools()[0]
		p.Pool, p.Profile = "gpu", key
		for _, c := range change {
			c(p)
		}
	}
}

func TestPutHardwareConfigReplacesWhole(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	get := func(as authn.Caller) (*jobsv1.HardwareConfig, metadata.MD, error) {
		var header metadata.MD
		got, err := w.hardware().GetHardwareConfig(w.as(as), &jobsv1.GetHardwareConfigRequest{}, grpc.Header(&header))
		return got, header, err
	}
	got, header, err := get(admin())
	require.NoError(t, err)
	require.Empty(t, got.GetSeries())
	require.Empty(t, got.GetProfiles())
	require.Equal(t, []string{`"0"`}, header.Get("etag"))
	_, _, err = get(alice())
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.put(alice(), config(), "", "")
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)

	full := config(profile("h100-8", "h100", 8, 4, func(p *jobsv1.HardwareProfile) {
		p.Cpu, p.MemoryGb, p.ShmGb, p.DiskGb, p.Rdma, p.Pools, p.MaxRunningS, p.Default = 96, 900, 64, 500, true, []string{"gpu"}, new(int32(3600)), true
	}))
	full.Series[0].Vendor, full.Series[0].Arch, full.Series[0].Interconnect = "nvidia", "hopper", "nvlink"
	full.Series[0].RatePerGpuHour, full.Series[0].Aliases = 2.5, []string{"NVIDIA H100 80GB HBM3"}
	header, err = w.put(admin(), full, "", "")
	require.NoError(t, err)
	require.Equal(t, []string{`"1"`}, header.Get("etag"))
	got, header, err = get(admin())
	require.NoError(t, err)
	require.Equal(t, []string{`"1"`}, header.Get("etag"))
	require.Equal(t, full.GetSeries()[0].String(), got.GetSeries()[0].String())
	require.Equal(t, full.GetProfiles()[0].String(), got.GetProfiles()[0].String())

	header, err = w.put(admin(), full, "", "")
	require.NoError(t, err)
	require.Equal(t, []string{`"1"`}, header.Get("etag"), "an unchanged configuration must keep its version")
	require.Equal(t, 1, w.count(`audit WHERE action = 'hardware.replace' AND actor_id = 'usr_root'`))
	_, err = w.put(admin(), config(), "", `"0"`)
	require.True(t, fault.Is(err, fault.Conflict), "a change of an outdated version must be refused: %v", err)
	_, err = w.put(admin(), config(), "", "nonsense")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = w.put(admin(), config(), "", `"1"`)
	require.NoError(t, err)
	got, _, err = get(admin())
	require.NoError(t, err)
	require.Empty(t, got.GetProfiles(), "the configuration must be replaced as a whole")
	require.Equal(t, 2, w.count(`audit WHERE action = 'hardware.replace'`))
	require.Equal(t, 2, w.count(`hardware_config WHERE version > 0 AND settled_at IS NOT NULL`))
	require.Equal(t, 1, w.count(`audit WHERE action = 'hardware.replace' AND before::text LIKE '%h100-8%' AND after::text NOT LIKE '%h100-8%'`))
}

func TestPutHardwareConfigFaultLocations(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	for name, c := range map[string]struct {
		change func(*jobsv1.PutHardwareConfigRequest)
		want   []string // path and type
	}{
		"no key":           {func(r *jobsv1.PutHardwareConfigRequest) { r.Series[0].Key = nil }, []string{"series[0].key missing"}},
		"no memory":        {func(r *jobsv1.PutHardwareConfigRequest) { r.Series[0].VramGb = nil }, []string{"series[0].vram_gb missing"}},
		"invalid key":      {func(r *jobsv1.PutHardwareConfigRequest) { r.Profiles[0].Key = new("Big One") }, []string{"profiles[0].key string_pattern_mismatch"}},
		"negative price":   {func(r *jobsv1.PutHardwareConfigRequest) { r.Series[0].RatePerGpuHour = -1 }, []string{"series[0].rate_per_gpu_hour greater_than_equal"}},
		"no nodes":         {func(r *jobsv1.PutHardwareConfigRequest) { r.Profiles[0].MaxNodes = new(int32(0)) }, []string{"profiles[0].max_nodes greater_than_equal"}},
		"duplicate series": {func(r *jobsv1.PutHardwareConfigRequest) { r.Series = append(r.Series, series("h100")) }, []string{"series[1].key duplicate_key"}},
		"alias equal to a key": {func(r *jobsv1.PutHardwareConfigRequest) {
			r.Series = append(r.Series, series("a100", func(s *jobsv1.HardwareSeries) { s.Aliases = []string{"x", "h100"} }))
		}, []string{"series[1].aliases[1] duplicate_key"}},
		"duplicate profile": {func(r *jobsv1.PutHardwareConfigRequest) {
			r.Profiles = append(r.Profiles, profile("big", "h100", 1, 1))
		}, []string{"profiles[1].key duplicate_key"}},
		"unknown series": {func(r *jobsv1.PutHardwareConfigRequest) { r.Profiles[0].Series = new("tpu") }, []string{"profiles[0].series value_error"}},
		"unknown team":   {func(r *jobsv1.PutHardwareConfigRequest) { r.Profiles[0].Teams = []string{"crew", "nobody"} }, []string{"profiles[0].teams[1] value_error"}},
		"duplicate pool": {func(r *jobsv1.PutHardwareConfigRequest) { r.Profiles[0].Pools = []string{"a", "a"} }, []string{"profiles[0].pools[1] duplicate_key"}},
		"empty pool":     {func(r *jobsv1.PutHardwareConfigRequest) { r.Profiles[0].Pools = []string{""} }, []string{"profiles[0].pools[0] string_too_short"}},
		"two defaults": {func(r *jobsv1.PutHardwareConfigRequest) {
			r.Profiles[0].Default = true
			r.Profiles = append(r.Profiles, profile("two", "h100", 1, 1, func(p *jobsv1.HardwareProfile) { p.Default = true }))
		}, []string{"profiles[1].default value_error"}},
		"several faults": {func(r *jobsv1.PutHardwareConfigRequest) { r.Series[0].Key, r.Profiles[0].Key = nil, nil }, []string{"series[0].key missing", "profiles[0].key missing"}},
		"more series than 200": {func(r *jobsv1.PutHardwareConfigRequest) {
			for range 200 {
				r.Series = append(r.Series, r.GetSeries()[0])
			}
		}, []string{"series too_long"}},
	} {
		in := config(profile("big", "h100", 8, 4))
		c.change(in)
		_, err := w.put(admin(), in, "", "")
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		var got []string
		for _, f := range fault.From(err).Fields {
			got = append(got, fault.Path(f.Loc)+" "+f.Type)
		}
		require.Equal(t, c.want, got, name)
	}
	require.Equal(t, 1, w.count(`hardware_config`), "refused changes must not be stored")
}

func TestPutHardwareConfigImpactConfirmation(t *testing.T) {
	t.Parallel()
	w := newHarness(t, roomy)
	w.fleet("gpu")
	_, err := w.put(admin(), config(profile("big", "h100", 8, 4), profile("small", "h100", 1, 4)), "", "")
	require.NoError(t, err)
	w.submit(profiled("big"))
	without := config(profile("small", "h100", 1, 4))
	header, err := w.put(admin(), without, "", "")
	require.True(t, fault.HasCode(err, "impact"), "%v", err)
	require.True(t, fault.Is(err, fault.Conflict))
	require.Equal(t, "impact: 1 queued job uses profile big (it is removed)", fault.From(err).Text())
	first := header.Get("x-service-impact")[0]
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, first)
	_, err = w.put(admin(), without, "sha256:"+strings.Repeat("0", 64), "")
	require.True(t, fault.HasCode(err, "impact"), "the digest of another impact must not confirm the change: %v", err)

	w.submit(profiled("big"))
	header, err = w.put(admin(), without, first, "")
	require.True(t, fault.HasCode(err, "impact"), "the digest must not confirm the change once other jobs are affected: %v", err)
	require.Equal(t, "impact: 2 queued jobs use profile big (it is removed)", fault.From(err).Text())
	second := header.Get("x-service-impact")[0]
	require.NotEqual(t, first, second)
	shrunk := config(profile("big", "h100", 4, 4), profile("small", "h100", 1, 4))
	_, err = w.put(admin(), shrunk, second, "")
	require.True(t, fault.HasCode(err, "impact"), "the digest of another change must not confirm this one: %v", err)
	require.Equal(t, "impact: 2 queued jobs use profile big (profile big has 4 GPUs per node, 8 requested)", fault.From(err).Text())
	require.Equal(t, 2, w.count(`hardware_config`))

	grown := config(profile("big", "h100", 8, 8), profile("small", "h100", 1, 4))
	_, err = w.put(admin(), grown, "", "")
	require.NoError(t, err, "a change without impact must need no confirmation")
	_, err = w.put(admin(), without, second, "")
	require.True(t, fault.HasCode(err, "impact"), "a digest for an older version must not confirm the change")
	header, _ = w.put(admin(), without, "", "")
	_, err = w.put(admin(), without, header.Get("x-service-impact")[0], "")
	require.NoError(t, err)
	got, err := w.hardware().GetHardware(w.as(alice()), &jobsv1.GetHardwareRequest{})
	require.NoError(t, err)
	require.Len(t, got.GetProfiles(), 1)
	require.Equal(t, 3, w.count(`audit WHERE action = 'hardware.replace'`))
}

// roomy raises the GPU limits, so that the jobs of these tests pass the quota gate.
func roomy(c *jobs.Config) { c.DefaultGPULimit, c.DefaultTeamGPULimit = 64, 64 }

func TestHardwareGateProfiles(t *testing.T) {
	t.Parallel()
	w := newHarness(t, roomy)
	w.fleet("gpu", "cpu")
	refused := func(change ...func(*jobsv1.SubmitJobRequest)) string {
		_, err := w.jobs().SubmitJob(w.as(alice()), w.request(change...))
		require.True(t, fault.Is(err, fault.Refused), "%v", err)
		require.True(t, fault.HasCode(err, "hardware"), "%v", err)
		return fault.From(err).Text()
	}
	require.Equal(t, "hardware: profile big does not exist", refused(profiled("big")), "no profile must exist before one is configured")
	big := profile("big", "h100", 8, 2, func(p *jobsv1.HardwareProfile) {
		p.Cpu, p.MemoryGb, p.Pools, p.MaxRunningS = 32, 64, []string{"gpu"}, new(int32(1000))
	})
	crew := profile("crew-only", "h100", 1, 1, func(p *jobsv1.HardwareProfile) { p.Teams = []string{"crew"} })
	_, err := w.put(admin(), config(big, crew), "", "")
	require.NoError(t, err)
	brief := func(r *jobsv1.SubmitJobRequest) { r.Spec.Limits = &jobsv1.Limits{RunningS: new(int32(1000))} }
	for want, change := range map[string]func(*jobsv1.SubmitJobRequest){
		"hardware: profile huge does not exist":                            profiled("huge"),
		"hardware: profile crew-only does not exist":                       profiled("crew-only"),
		"hardware: profile big has 8 GPUs per node, 9 requested":           profiled("big", func(p *jobsv1.PoolRequest) { p.GpusPerNode = new(int32(9)) }),
		"hardware: profile big allows at most 2 nodes, 3 requested":        profiled("big", func(p *jobsv1.PoolRequest) { p.Nodes = new(int32(3)) }),
		"hardware: profile big has 32 CPUs per node, 33 requested":         profiled("big", func(p *jobsv1.PoolRequest) { p.Cpu = new(int32(33)) }),
		"hardware: profile big has 64 GB of memory per node, 65 requested": profiled("big", func(p *jobsv1.PoolRequest) { p.MemoryGb = new(int32(65)) }),
		"hardware: profile big is not available in pool cpu":               profiled("big", func(p *jobsv1.PoolRequest) { p.Pool = "cpu" }),
	} {
		require.Equal(t, want, refused(brief, change))
	}
	require.Equal(t, "hardware: profile big allows a running limit of at most 1000 seconds, 86400 requested", refused(profiled("big")))
	require.Zero(t, w.count(`job`))
	j := w.submit(brief, profiled("big"))
	require.Contains(t, string(j.GetSpec()),
		`"pools":[{"cpu":32,"gpus_per_node":8,"memory_gb":64,"nodes":1,"pool":"gpu","profile":"big","role":"trainer"}]`, "the job gets the profile's size")
	member := user("carol", authn.RoleOperator, authn.ProjectRole{Project: "prj_crew", Role: authn.ProjectEditor})
	_, err = w.jobs().SubmitJob(w.as(member), w.request(brief, profiled("crew-only"), func(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "crew" }))
	require.NoError(t, err)

	shown := func(as authn.Caller) (keys []string) {
		got, err := w.hardware().GetHardware(w.as(as), &jobsv1.GetHardwareRequest{})
		require.NoError(t, err)
		for _, p := range got.GetProfiles() {
			keys = append(keys, p.GetKey())
		}
		return keys
	}
	inCrew := alice()
	inCrew.Teams = []string{"team_crew"}
	require.Equal(t, []string{"big"}, shown(alice()))
	require.Equal(t, []string{"big", "crew-only"}, shown(inCrew))
	require.Equal(t, []string{"big", "crew-only"}, shown(admin()))
}

// A configuration change may run between the gates and the commit of a submission. Then either the submission is
// checked against the new configuration, or the impact of the change includes the job.
func TestSubmitRacesProfileRemoval(t *testing.T) {
	t.Parallel()
	w := newHarness(t, roomy)
	w.fleet("gpu")
	for round := range 5 {
		_, err := w.put(admin(), config(profile("big", "h100", 1, 4)), "", "")
		require.NoError(t, err)
		submitted, replaced := make(chan error, 4), make(chan error, 1)
		for range cap(submitted) {
			go func() {
				_, err := w.jobs().SubmitJob(w.as(alice()), w.request(profiled("big")))
				submitted <- err
			}()
		}
		go func() {
			_, err := w.put(admin(), config(), "", "")
			replaced <- err
		}()
		refused := <-replaced
		for range cap(submitted) {
			if err := <-submitted; err != nil {
				require.True(t, fault.HasCode(err, "hardware"), "%v", err)
			}
		}
		live := w.count(`job WHERE ended_at IS NULL AND pools::text LIKE '%big%'`)
		if refused == nil {
			require.Zero(t, live, "round %d: a live job names a removed profile, and no impact was reported", round)
		} else {
			require.True(t, fault.HasCode(refused, "impact"), "%v", refused)
		}
		_, err = w.pool.Exec(context.WithoutCancel(t.Context()), `UPDATE job SET state = 'stopped', ended_at = now(), end_reason = 'user_stop' WHERE ended_at IS NULL`)
		require.NoError(t, err)
	}
}
