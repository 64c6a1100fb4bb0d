package boundary

import (
	"path/filepath"
	"strconv"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Plan describes how this machine enforces the limits of one work.
type Plan struct {
	Mode Mode `json:"mode"`
	// Groups are the folders of the cgroups to create and to enter.
	Groups []string `json:"groups,omitempty"`
	// Settings are written in this order after the groups were created.
	Settings []Setting `json:"settings,omitempty"`
	// Data limits the private memory of each process, in bytes. Only the mode Rlimit uses it.
	Data int64 `json:"data,omitempty"`
	// Processes limits the processes and threads of the work's user, for works that are isolated. Only the mode Rlimit
	// uses it.
	Processes int `json:"processes,omitempty"`
}

// Setting is one file of a group and the value to write to it.
type Setting struct {
	Path  string `json:"path"`
	Value string `json:"value"`
	// Optional settings exist only on some kernels.
	Optional bool `json:"optional,omitempty"`
}

// ownThreads are the threads of the first process inside the boundary. Without a user of its own, it counts as a
// process of the work's user.
const ownThreads = 32

const cpuPeriod = 100_000 // microseconds

// Plan returns the plan that enforces the limits of the work called name.
func (h Enforcer) Plan(name string, l executor.Limits) Plan {
	p := Plan{Mode: h.mode}
	for _, base := range h.bases {
		p.Groups = append(p.Groups, filepath.Join(base, name))
	}
	switch h.mode {
	case Cgroup2:
		p.Settings = settingsV2(p.Groups[0], l)
	case Cgroup1:
		p.Settings = settingsV1(p.Groups, l)
	case Rlimit:
		p.Data = l.MemoryBytes
		if l.PIDs > 0 {
			p.Processes = l.PIDs + ownThreads
		}
	}
	return p
}

func settingsV2(group string, l executor.Limits) []Setting {
	var s []Setting
	if l.MemoryBytes > 0 {
		s = append(s,
			Setting{Path: filepath.Join(group, "memory.max"), Value: strconv.FormatInt(l.MemoryBytes, 10)},
			Setting{Path: filepath.Join(group, "memory.swap.max"), Value: "0", Optional: true},
			Setting{Path: filepath.Join(group, "memory.oom.group"), Value: "1", Optional: true})
	}
	if l.PIDs > 0 {
		s = append(s, Setting{Path: filepath.Join(group, "pids.max"), Value: strconv.Itoa(l.PIDs)})
	}
	if l.CPUs > 0 {
		s = append(s, Setting{
			Path:  filepath.Join(group, "cpu.max"),
			Value: strconv.Itoa(l.CPUs*cpuPeriod) + " " + strconv.Itoa(cpuPeriod),
		})
	}
	return s
}

func settingsV1(groups []string, l executor.Limits) []Setting {
	memory, pids, cpu := groups[0], groups[1], groups[2]
	var s []Setting
	if l.MemoryBytes > 0 {
		bytes := strconv.FormatInt(l.MemoryBytes, 10)
		s = append(s,
			Setting{Path: filepath.Join(memory, "memory.limit_in_bytes"), Value: bytes},
			Setting{Path: filepath.Join(memory, "memory.memsw.limit_in_bytes"), Value: bytes, Optional: true})
	}
	if l.PIDs > 0 {
		s = append(s, Setting{Path: filepath.Join(pids, "pids.max"), Value: strconv.Itoa(l.PIDs)})
	}
	if l.CPUs > 0 {
		s = append(s,
			Setting{Path: filepath.Join(cpu, "cpu.cfs_period_us"), Value: strconv.Itoa(cpuPeriod)},
			Setting{Path: filepath.Join(cpu, "cpu.cfs_quota_us"), Value: strconv.Itoa(l.CPUs * cpuPeriod)})
	}
	return s
}
