// Package hardware owns the hardware configuration: the series of accelerators and the node profiles that a job can
// request by name. The configuration is always replaced as a whole.
//
// It promises:
//   - If the new configuration would refuse a job that was admitted earlier and has not ended, it is stored only if the
//     caller confirms exactly the affected jobs.
//   - Once a change has been acknowledged, no instance serves an older configuration, and the audit log has
//     exactly one row for it.
//   - A crash at any point delays a change but breaks neither promise.
//
// hardware.go and impact.go are pure; only store.go uses SQL; only server.go and hardware_proto.go use proto types.
// copy.go holds an instance's copy; settle.go completes a change.
package hardware

import (
	"fmt"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Config is a hardware configuration.
type Config struct {
	Series   []Series  `json:"series"`
	Profiles []Profile `json:"profiles"`
}

// Series is one model of accelerator.
type Series struct {
	Key            string   `json:"key"`
	Vendor         string   `json:"vendor"`
	Model          string   `json:"model"`
	VRAMGB         int      `json:"vram_gb"`
	Arch           string   `json:"arch"`
	Interconnect   string   `json:"interconnect"`
	RatePerGPUHour float64  `json:"rate_per_gpu_hour"`
	Aliases        []string `json:"aliases"`
}

// Profile is a node size that a job can request by name. A value of 0 in CPU, MemoryGB, ShmGB or DiskGB means no
// bound.
type Profile struct {
	Key         string   `json:"key"`
	Series      string   `json:"series"`
	GPUsPerNode int      `json:"gpus_per_node"`
	MaxNodes    int      `json:"max_nodes"`
	CPU         int      `json:"cpu"`
	MemoryGB    int      `json:"memory_gb"`
	ShmGB       int      `json:"shm_gb"`
	DiskGB      int      `json:"disk_gb"`
	RDMA        bool     `json:"rdma"`
	Pools       []string `json:"pools"`
	Teams       []string `json:"teams"` // team keys as requested
	MaxRunningS *int     `json:"max_running_s"`
	Default     bool     `json:"default"`
	// TeamIDs are the ids of Teams.
	TeamIDs []string `json:"team_ids"`
}

// Profile finds a profile by its key.
func (c *Config) Profile(key string) (*Profile, bool) {
	i := slices.IndexFunc(c.Profiles, func(p Profile) bool { return p.Key == key })
	if i < 0 {
		return nil, false
	}
	return &c.Profiles[i], true
}

// OpenTo returns the part of the configuration that members of the given teams can request; for admins, all of it.
func (c *Config) OpenTo(admin bool, teams []string) Config {
	if admin {
		return *c
	}
	var open Config
	named := map[string]bool{}
	for _, p := range c.Profiles {
		if len(p.TeamIDs) == 0 || slices.ContainsFunc(teams, func(id string) bool { return slices.Contains(p.TeamIDs, id) }) {
			named[p.Series] = true
			open.Profiles = append(open.Profiles, p)
		}
	}
	for _, s := range c.Series {
		if named[s.Key] {
			open.Series = append(open.Series, s)
		}
	}
	return open
}

// typeDuplicate is the error type for a duplicate name.
const typeDuplicate = "duplicate_key"

// Check returns the faults that concern several fields: duplicate keys, profiles of unknown series, and more than one
// default.
func (c *Config) Check() []fault.Field {
	var faults []fault.Field
	names := map[string]bool{}
	claim := func(name, what string, loc ...any) {
		if names[name] {
			faults = append(faults, fault.At(typeDuplicate, fmt.Sprintf("%s %s already exists", what, name), loc...))
		}
		names[name] = true
	}
	series := map[string]bool{}
	for i, s := range c.Series {
		claim(s.Key, "series or alias", "series", i, "key")
		series[s.Key] = true
	}
	for i, s := range c.Series {
		for n, alias := range s.Aliases {
			claim(alias, "series or alias", "series", i, "aliases", n)
		}
	}
	clear(names)
	defaults := 0
	for i, p := range c.Profiles {
		claim(p.Key, "profile", "profiles", i, "key")
		if !series[p.Series] {
			faults = append(faults, fault.At(fault.TypeValue, "no such series: "+p.Series, "profiles", i, "series"))
		}
		if p.Default {
			if defaults++; defaults == 2 {
				faults = append(faults, fault.At(fault.TypeValue, "another profile is already the default", "profiles", i, "default"))
			}
		}
		faults = append(faults, twice(p.Pools, "profiles", i, "pools")...)
		faults = append(faults, twice(p.Teams, "profiles", i, "teams")...)
	}
	return faults
}

func twice(names []string, loc ...any) []fault.Field {
	var faults []fault.Field
	for i, name := range names {
		if slices.Index(names, name) < i {
			faults = append(faults, fault.At(typeDuplicate, name+" is already in the list", append(slices.Clone(loc), i)...))
		}
	}
	return faults
}

// ProfileRequest is a request for a profile: one part of a gang, the team of the project ("" for none) and the running limit.
type ProfileRequest struct {
	Pool     job.Pool
	TeamID   string
	RunningS int
}

// Refusal returns why the profile does not allow a request, or "" if it does.
func (p *Profile) Refusal(a ProfileRequest) string {
	switch {
	case len(p.Pools) > 0 && !slices.Contains(p.Pools, a.Pool.Pool):
		return fmt.Sprintf("profile %s is not available in pool %s", p.Key, a.Pool.Pool)
	case !p.OpenTo(a.TeamID):
		return fmt.Sprintf("profile %s is for projects of other teams", p.Key)
	case a.Pool.GPUsPerNode > p.GPUsPerNode:
		return fmt.Sprintf("profile %s has %d GPUs per node, %d requested", p.Key, p.GPUsPerNode, a.Pool.GPUsPerNode)
	case a.Pool.Nodes > p.MaxNodes:
		return fmt.Sprintf("profile %s allows at most %d nodes, %d requested", p.Key, p.MaxNodes, a.Pool.Nodes)
	case p.CPU > 0 && a.Pool.CPU > p.CPU:
		return fmt.Sprintf("profile %s has %d CPUs per node, %d requested", p.Key, p.CPU, a.Pool.CPU)
	case p.MemoryGB > 0 && a.Pool.MemoryGB > p.MemoryGB:
		return fmt.Sprintf("profile %s has %d GB of memory per node, %d requested", p.Key, p.MemoryGB, a.Pool.MemoryGB)
	case p.MaxRunningS != nil && a.RunningS > *p.MaxRunningS:
		return fmt.Sprintf("profile %s allows a running limit of at most %d seconds, %d requested", p.Key, *p.MaxRunningS, a.RunningS)
	}
	return ""
}

// OpenTo reports whether the projects of a team can request the profile.
func (p *Profile) OpenTo(teamID string) bool {
	return len(p.TeamIDs) == 0 || slices.Contains(p.TeamIDs, teamID)
}

// Fill sets each size that a request leaves at 0 to the size of the profile.
func (p *Profile) Fill(want *job.Pool) {
	for _, part := range []struct {
		into *int
		size int
	}{{&want.GPUsPerNode, p.GPUsPerNode}, {&want.CPU, p.CPU}, {&want.MemoryGB, p.MemoryGB}} {
		if *part.into == 0 {
			*part.into = part.size
		}
	}
}
