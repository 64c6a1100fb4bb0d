package boundary

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Plan describes how this machine enforces the limits of one work.
type Plan struct {
	Mode Mode `json:"mode"`
	// Groups are the folders of the cgroups to create and to enter.
	Groups []string `json:"groups,omitempty"`
	// Settings are written in this order after the groups have been created.
	Settings []Setting `json:"settings,omitempty"`
	// Data limits the private memory of each process, in bytes. Only the mode Rlimit uses it.
	Data int64 `json:"data,omitempty"`
	// Processes limits the processes and threads of the work's user, for works that are isolated. Only the mode Rlimit
	// uses it.
	Processes int `json:"processes,omitempty"`
	// Files limits the files that all processes have open together; 0 means no limit. A file that several processes
	// have open counts once for each of them. The shim enforces this limit.
	Files int64 `json:"files,omitempty"`
}

// Setting is one file of a group and the value to write to it.
type Setting struct {
	Path  string `json:"path"`
	Value string `json:"value"`
	// Optional settings exist only on some kernels.
	Optional bool `json:"optional,omitempty"`
}

// ownThreads is the number of threads of the first process inside the boundary. If works have no users of their own,
// these threads count towards the limit of the work.
const ownThreads = 32

const cpuPeriod = 100_000 // microseconds

// Defaults are the limits of works that request none. Engines have no default for memory: the kernel would kill an
// engine that ran without a limit under an earlier version of the agent.
type Defaults struct {
	memory int64
}

const (
	// maxPIDs is the default limit of a work's processes and threads. It is more than a training uses, and far less
	// than a machine can have.
	maxPIDs = 4096
	// reserved is the minimum memory in bytes that is kept for the agent and the system. On large machines, a tenth of
	// the memory is kept.
	reserved = 512 << 20
)

// NewDefaults returns the defaults for a machine with the given memory.
func NewDefaults(memory int64) Defaults {
	const part, least = 10, 2 // at most half of the memory is reserved
	return Defaults{memory: max(memory-max(memory/part, reserved), memory/least)}
}

// Fill returns the limits with the defaults for memory and processes. In the mode Rlimit, a work with GPUs gets no
// default for memory, because the limit of a process would include the address space that GPU drivers reserve.
func (d Defaults) Fill(l executor.Limits, mode Mode) executor.Limits {
	if l.MemoryBytes == 0 && (mode != Rlimit || l.GPUs == 0) {
		l.MemoryBytes = d.memory
	}
	return d.FillEngine(l)
}

// FillEngine returns the limits of an engine, which get the default for processes only.
func (d Defaults) FillEngine(l executor.Limits) executor.Limits {
	if l.PIDs == 0 {
		l.PIDs = maxPIDs
	}
	return l
}

// Plan returns the plan that enforces the limits of the work with the given name.
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

// buffers returns how many bytes the TCP buffers of a work with the given memory may fill. All works together stay
// below the kernel's limit for the TCP buffers of the whole machine, which is usually a tenth of its memory. If that
// limit is reached, connections of other programs stall.
func buffers(memory int64) int64 {
	const part, least = 16, 16 << 20
	return max(memory/part, least)
}

func settingsV1(groups []string, l executor.Limits) []Setting {
	memory, pids, cpu := groups[0], groups[1], groups[2]
	var s []Setting
	if l.MemoryBytes > 0 {
		bytes := strconv.FormatInt(l.MemoryBytes, 10)
		s = append(s,
			Setting{Path: filepath.Join(memory, "memory.limit_in_bytes"), Value: bytes},
			Setting{Path: filepath.Join(memory, "memory.memsw.limit_in_bytes"), Value: bytes, Optional: true},
			// Version 1 counts the buffers of TCP connections separately. Version 2 counts them as memory.
			Setting{Path: filepath.Join(memory, "memory.kmem.tcp.limit_in_bytes"), Value: strconv.FormatInt(buffers(l.MemoryBytes), 10), Optional: true})
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

// fileShare is the part of the kernel's table of open files that one work may fill.
const fileShare = 4

// FileBound returns how many files the processes of a work may have open together, or 0 for no limit. The parameter
// wanted is the configured number. The result is at most a quarter of what the kernel's table holds for the whole
// machine, because other programs could open no files if the table was full. The parameter proc is the path /proc.
func FileBound(wanted int64, proc string) int64 {
	if wanted == 0 {
		return 0
	}
	if table, err := number(filepath.Join(proc, "sys/fs/file-max")); err == nil {
		return min(wanted, max(table/fileShare, 1))
	}
	return wanted
}

// FileTable is the state of the kernel's table of open files, which the whole machine shares.
type FileTable struct{ Open, Size int64 }

// Scarce reports whether at least half of the table is full.
func (t FileTable) Scarce() bool { return t.Open >= t.Size/2 }

// OpenFiles returns the state of the kernel's table of open files.
func OpenFiles() (FileTable, error) {
	const path = "/proc/sys/fs/file-nr"
	raw, err := os.ReadFile(path)
	if err != nil {
		return FileTable{}, fmt.Errorf("read the state of the table of open files: %w", err)
	}
	var t FileTable
	var free int64
	if _, err := fmt.Sscan(string(raw), &t.Open, &free, &t.Size); err != nil {
		return FileTable{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return t, nil
}

// number returns the number in the file.
func number(path string) (int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the size of the table of open files: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", path, err)
	}
	return n, nil
}

// DescriptorsOf returns how many descriptors of open files the process has, or 0 if it has ended.
func DescriptorsOf(pid int) int64 { return ofThread(pid, descriptorsIn) }

// MappedFiles returns how many files the process has mapped into its memory, or 0 if it has ended. A mapping keeps its
// file open without a descriptor. Several mappings of a file usually share one open file, as the segments of a library
// do. But a program can also open the file again for each mapping, and /proc does not show the difference. MappedFiles
// counts the mappings of a file as one, and at least one file for every eight mappings of the process. If the parameter
// strict is true, it counts each mapping, so that the result is never too small. MappedFiles stops reading when the
// result is larger than the parameter most.
func MappedFiles(pid int, strict bool, most int64) int64 {
	return ofThread(pid, func(dir string) int64 { return mappedIn(dir, strict, most) })
}

// ofThread calls count with the folder of the process in /proc. If the first thread of the process has ended, that
// folder shows no files, so ofThread tries the folders of the other threads.
func ofThread(pid int, count func(dir string) int64) int64 {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if n := count(dir); n > 0 {
		return n
	}
	threads, _ := filepath.Glob(filepath.Join(dir, "task", "*"))
	for _, thread := range threads {
		if n := count(thread); n > 0 {
			return n
		}
	}
	return 0
}

func descriptorsIn(dir string) int64 {
	if info, err := os.Stat(filepath.Join(dir, "fd")); err == nil && info.Size() > 0 {
		return info.Size()
	}
	// Linux before 6.2 does not report the number as the size.
	names, _ := os.ReadDir(filepath.Join(dir, "fd"))
	return int64(len(names))
}

// pathBytes is more than the longest line of /proc/PID/maps if the mapped file has a path that a program can open.
const pathBytes = 8 << 10

// mappedIn implements MappedFiles for a folder of /proc.
func mappedIn(dir string, strict bool, most int64) (count int64) {
	maps, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return 0
	}
	defer func() { _ = maps.Close() }()
	segments := int64(8) // A library has about five.
	if strict {
		segments = 1
	}
	var mappings, rest int64
	files, lines, partial := map[string]bool{}, bufio.NewReaderSize(maps, pathBytes), false
	for count <= most {
		line, more, err := lines.ReadLine()
		if err != nil {
			break
		}
		if partial {
			rest++ // Reading a very long line takes time. Count it, so that the limit also limits this time.
		} else if file, ok := mappedFile(line); ok {
			mappings++
			if !strict {
				files[file] = true
			}
		}
		partial = more
		count = rest + max(int64(len(files)), (mappings+segments-1)/segments)
	}
	return count
}

// mappedFile returns the device and the inode of the file in a line of /proc/PID/maps. ok is false if the mapping has no
// file.
func mappedFile(line []byte) (file string, ok bool) {
	// The fields are the address, the permissions, the offset, the device, the inode and the path, which is absolute for
	// a file.
	place, _, ok := bytes.Cut(line, []byte(" /"))
	const device = 3
	if fields := strings.Fields(string(place)); ok && len(fields) > device {
		file = strings.Join(fields[device:], " ")
	}
	return file, ok
}
