package hardware

import jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"

func configToProto(c *Config) *jobsv1.HardwareConfig {
	m := &jobsv1.HardwareConfig{}
	for _, s := range c.Series {
		m.Series = append(m.Series, &jobsv1.HardwareSeries{
			Key: &s.Key, Vendor: s.Vendor, Model: &s.Model, VramGb: p32(s.VRAMGB), Arch: s.Arch, Interconnect: s.Interconnect,
			RatePerGpuHour: s.RatePerGPUHour, Aliases: s.Aliases,
		})
	}
	for _, p := range c.Profiles {
		one := &jobsv1.HardwareProfile{
			Key: &p.Key, Series: &p.Series, GpusPerNode: p32(p.GPUsPerNode), MaxNodes: p32(p.MaxNodes), Cpu: int32(p.CPU),
			MemoryGb: int32(p.MemoryGB), ShmGb: int32(p.ShmGB), DiskGb: int32(p.DiskGB), Rdma: p.RDMA, Pools: p.Pools,
			Teams: p.Teams, Default: p.Default,
		}
		if p.MaxRunningS != nil {
			one.MaxRunningS = p32(*p.MaxRunningS)
		}
		m.Profiles = append(m.Profiles, one)
	}
	return m
}

func configFromProto(series []*jobsv1.HardwareSeries, profiles []*jobsv1.HardwareProfile) Config {
	c := Config{Series: []Series{}, Profiles: []Profile{}}
	for _, s := range series {
		c.Series = append(c.Series, Series{
			Key: s.GetKey(), Vendor: s.GetVendor(), Model: s.GetModel(), VRAMGB: int(s.GetVramGb()), Arch: s.GetArch(),
			Interconnect: s.GetInterconnect(), RatePerGPUHour: s.GetRatePerGpuHour(), Aliases: append([]string{}, s.GetAliases()...),
		})
	}
	for _, p := range profiles {
		one := Profile{
			Key: p.GetKey(), Series: p.GetSeries(), GPUsPerNode: int(p.GetGpusPerNode()), MaxNodes: int(p.GetMaxNodes()),
			CPU: int(p.GetCpu()), MemoryGB: int(p.GetMemoryGb()), ShmGB: int(p.GetShmGb()), DiskGB: int(p.GetDiskGb()),
			RDMA: p.GetRdma(), Pools: append([]string{}, p.GetPools()...), Teams: append([]string{}, p.GetTeams()...),
			TeamIDs: []string{}, Default: p.GetDefault(),
		}
		if p.MaxRunningS != nil {
			longest := int(p.GetMaxRunningS())
			one.MaxRunningS = &longest
		}
		c.Profiles = append(c.Profiles, one)
	}
	return c
}

func p32(n int) *int32 {
	v := int32(n)
	return &v
}
