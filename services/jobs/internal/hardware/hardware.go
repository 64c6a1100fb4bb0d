// Package hardware owns the hardware configuration: which series of accelerators there are and which profiles
// of nodes a job can ask for by name. It is replaced as a whole.
//
// It promises: what takes from a live job what it was admitted with is stored only by who has seen which jobs,
// and only while these are still the ones; once a change was answered, no instance answers from an older
// configuration, and the audit has exactly one row of it; a crash at any point costs time and neither of these.
//
// hardware.go and impact.go are pure; store.go alone speaks SQL; server.go and hardware_proto.go alone speak
// proto; copy.go is what an instance keeps, settle.go what follows a change.
package hardware

import (
	"fmt"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Config is a whole configuration.
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

// Profile is a size of node that a job can ask for by name. CPU, MemoryGB, ShmGB and DiskGB bound nothing
// where they are 0.
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
	Teams       []string `json:"teams"` // keys, as they were given
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

// OpenTo is the part that members of some teams can ask for, for admins all.
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

// typeDuplicate is the type of a name that is there already.
const typeDuplicate = "duplicate_key"

// Check finds what no single field shows: keys that come twice, profiles of no series, two defaults.
func (c *Config) Check() []fault.Field {
	var faults []fault.Field
	names := map[string]bool{}
	claim := func(name, what string, loc ...any) {
		if names[name] {
			faults = append(faults, fault.At(typeDuplicate, fmt.Sprintf("%s %s is there already", what, name), loc...))
		}
		names[name] = true
	}
	series := map[string]bool{}
	for i, s := range c.Series {
		claim(s.Key, "a series or an alias", "series", i, "key")
		series[s.Key] = true
	}
	for i, s := range c.Series {
		for n, alias := range s.Aliases {
			claim(alias, "a series or an alias", "series", i, "aliases", n)
		}
	}
	clear(names)
	defaults := 0
	for i, p := range c.Profiles {
		claim(p.Key, "a profile", "profiles", i, "key")
		if !series[p.Series] {
			faults = append(faults, fault.At(fault.TypeValue, "there is no series "+p.Series, "profiles", i, "series"))
		}
		if p.Default {
			if defaults++; defaults == 2 {
				faults = append(faults, fault.At(fault.TypeValue, "another profile is the default already", "profiles", i, "default"))
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
			faults = append(faults, fault.At(typeDuplicate, name+" is there already", append(slices.Clone(loc), i)...))
		}
	}
	return faults
}

// Ask is a request for a profile: part of a gang, in a project of a team or of none, for at most so long.
type Ask struct {
	Pool     job.Pool
	TeamID   string
	RunningS int
}

// Refusal says in words why a profile does not admit a request, or nothing.
func (p *Profile) Refusal(a Ask) string {
	switch {
	case len(p.Pools) > 0 && !slices.Contains(p.Pools, a.Pool.Pool):
		return fmt.Sprintf("profile %s cannot be asked for in pool %s", p.Key, a.Pool.Pool)
	case !p.OpenTo(a.TeamID):
		return fmt.Sprintf("profile %s is for projects of other teams", p.Key)
	case a.Pool.GPUsPerNode > p.GPUsPerNode:
		return fmt.Sprintf("profile %s has %d GPUs a node, %d are asked for", p.Key, p.GPUsPerNode, a.Pool.GPUsPerNode)
	case a.Pool.Nodes > p.MaxNodes:
		return fmt.Sprintf("profile %s gives %d nodes at most, %d are asked for", p.Key, p.MaxNodes, a.Pool.Nodes)
	case p.CPU > 0 && a.Pool.CPU > p.CPU:
		return fmt.Sprintf("profile %s has %d CPUs a node, %d are asked for", p.Key, p.CPU, a.Pool.CPU)
	case p.MemoryGB > 0 && a.Pool.MemoryGB > p.MemoryGB:
		return fmt.Sprintf("profile %s has %d GB of memory a node, %d are asked for", p.Key, p.MemoryGB, a.Pool.MemoryGB)
	case p.MaxRunningS != nil && a.RunningS > *p.MaxRunningS:
		return fmt.Sprintf("profile %s runs for %d seconds at most, %d are asked for", p.Key, *p.MaxRunningS, a.RunningS)
	}
	return ""
}

// OpenTo says whether it can be asked for in the projects of a team.
func (p *Profile) OpenTo(teamID string) bool {
	return len(p.TeamIDs) == 0 || slices.Contains(p.TeamIDs, teamID)
}

// Fill puts the profile's size where a request names none.
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
