package slurm

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// reporting is the state of the report. The mutex of the runner guards it.
type reporting struct {
	version    string
	partitions []executor.Partition
	problem    string
	// pools are the desired pools, and tested the results of their tests by name. changed receives a value when the
	// desired pools have changed.
	pools   []executor.Pool
	tested  map[string]executor.PoolReport
	changed chan struct{}
}

func newReporting() reporting {
	return reporting{tested: map[string]executor.PoolReport{}, changed: make(chan struct{}, 1)}
}

// Report implements executor.Cluster.
func (r *Runner) Report() executor.ClusterReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := executor.ClusterReport{Version: r.reporting.version, Partitions: slices.Clone(r.reporting.partitions), Problem: r.reporting.problem}
	for _, p := range r.reporting.pools {
		if tested, ok := r.reporting.tested[p.Name]; ok && tested.Slurm == p.Slurm {
			report.Pools = append(report.Pools, tested)
		}
	}
	return report
}

// ReportChanges implements executor.Cluster.
func (r *Runner) ReportChanges() <-chan struct{} { return r.changes }

func (r *Runner) changed() {
	select {
	case r.changes <- struct{}{}:
	default:
	}
}

// keepReport updates the report until ctx ends.
func (r *Runner) keepReport(ctx context.Context) {
	for {
		version, partitions, err := r.examine(ctx)
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		before := r.reporting
		r.reporting.problem = ""
		if err != nil {
			r.reporting.problem = executor.Tail(err.Error(), maxProblem)
		} else {
			r.reporting.version, r.reporting.partitions = version, partitions
		}
		news := before.problem != r.reporting.problem || before.version != r.reporting.version || !reflect.DeepEqual(before.partitions, r.reporting.partitions)
		r.mu.Unlock()
		if news {
			r.changed()
		}
		if clock.Sleep(ctx, r.deps.Clock, r.cfg.ReportInterval) != nil {
			return
		}
	}
}

// maxProblem is the maximum length of a problem in bytes.
const maxProblem = 1024

// maxPartitions is the maximum number of partitions in a report.
const maxPartitions = 256

// examine queries the version and the partitions of the cluster.
func (r *Runner) examine(ctx context.Context) (version string, partitions []executor.Partition, err error) {
	out, err := r.deps.Commands.Run(ctx, "sinfo", "--version")
	if err != nil {
		return "", nil, fmt.Errorf("query the version of Slurm: %w", err)
	}
	if fields := strings.Fields(string(out)); len(fields) > 0 {
		version = fields[len(fields)-1]
	}
	nodes, err := r.deps.Commands.Run(ctx, "sinfo", "--noheader", "--Node", "--Format="+nodeFormat())
	if err != nil {
		return "", nil, fmt.Errorf("query the partitions of Slurm: %w", err)
	}
	waiting, err := r.deps.Commands.Run(ctx, "squeue", "--noheader", "--states=PENDING", "--format=%P")
	if err != nil {
		return "", nil, fmt.Errorf("query the waiting jobs of Slurm: %w", err)
	}
	partitions = parseNodes(string(nodes))
	countWaiting(partitions, string(waiting))
	return version, partitions[:min(len(partitions), maxPartitions)], nil
}

// column is a column of sinfo's output. All versions of Slurm cut or fill a column to its width.
type column struct {
	name  string
	width int
}

func nodeColumns() []column {
	return []column{
		{"Partition", 65}, {"NodeHost", 80}, {"Available", 12}, {"StateLong", 24}, {"CPUs", 12}, {"Memory", 16}, {"Time", 24}, {"Gres", 256}, {"GresUsed", 256},
	}
}

func nodeFormat() string {
	columns := nodeColumns()
	all := make([]string, 0, len(columns))
	for _, c := range columns {
		all = append(all, c.name+":"+strconv.Itoa(c.width))
	}
	return strings.Join(all, ",")
}

// parseNodes reads the output of sinfo with a line for each node of each partition. It returns the partitions by name.
func parseNodes(text string) []executor.Partition {
	found, columns := map[string]*executor.Partition{}, nodeColumns()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		f := make([]string, 0, len(columns))
		for _, c := range columns {
			n := min(c.width, len(line))
			f = append(f, strings.TrimSpace(line[:n]))
			line = line[n:]
		}
		f[0] = strings.TrimSuffix(f[0], "*") // Slurm marks the default partition
		if f[0] == "" || f[1] == "" {
			continue
		}
		p := found[f[0]]
		if p == nil {
			p = &executor.Partition{Name: f[0], State: f[2], MaxTime: parseTime(f[6])}
			found[f[0]] = p
		}
		p.Nodes++
		switch {
		case down(f[3]):
			p.NodesDown++
		case strings.HasPrefix(f[3], "idle"):
			p.NodesIdle++
		}
		const mebi = 1 << 20
		gpus := countGPUs(f[7])
		p.GPUsTotal, p.GPUsUsed, p.GPUsPerNode = p.GPUsTotal+gpus, p.GPUsUsed+countGPUs(f[8]), max(p.GPUsPerNode, gpus)
		p.CPUsPerNode = max(p.CPUsPerNode, int(leading(f[4])))
		p.MemoryPerNode = max(p.MemoryPerNode, leading(f[5])*mebi)
	}
	all := make([]executor.Partition, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[name])
	}
	return all
}

// down reports whether a node in the state starts no jobs.
func down(state string) bool {
	return slices.ContainsFunc([]string{"down", "drain", "fail", "error", "unknown", "inval", "power", "maint"}, func(word string) bool {
		return strings.Contains(strings.ToLower(state), word)
	})
}

// leading returns the number at the beginning of the text, or 0.
func leading(text string) int64 {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// countGPUs returns the number of GPUs in a list of generic resources, such as gpu:a100:4(S:0-1),gpu:2,shard:8.
func countGPUs(list string) (n int) {
	depth, begin := 0, 0
	list += ","
	for i, c := range list {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			entry, _, _ := strings.Cut(list[begin:i], "(")
			begin = i + 1
			parts := strings.Split(strings.TrimSpace(entry), ":")
			if parts[0] != "gpu" {
				continue
			}
			if len(parts) == 1 {
				n++
				continue
			}
			n += int(leading(parts[len(parts)-1]))
		}
	}
	return n
}

// parseTime reads a limit of time, such as 2-00:30:00, 30:00 or infinite. It returns 0 for no limit.
func parseTime(text string) time.Duration {
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, rest = "", text
	}
	parts := strings.Split(rest, ":")
	const most = 3
	if len(parts) > most || strings.Trim(days+strings.Join(parts, ""), "0123456789") != "" {
		return 0
	}
	unit := time.Second
	if hasDays && len(parts) < most || len(parts) == 1 { // days-hours, days-hours:minutes or minutes
		unit = time.Minute
		if hasDays && len(parts) == 1 {
			unit = time.Hour
		}
	}
	total := time.Duration(leading(days)) * 24 * time.Hour
	for _, p := range slices.Backward(parts) {
		total += time.Duration(leading(p)) * unit
		unit *= 60
	}
	return total
}

// countWaiting adds the waiting jobs to their partitions. A job may wait in several ones.
func countWaiting(partitions []executor.Partition, text string) {
	waiting := map[string]int{}
	for line := range strings.Lines(text) {
		for name := range strings.SplitSeq(strings.TrimSpace(line), ",") {
			waiting[name]++
		}
	}
	for i := range partitions {
		partitions[i].JobsWaiting = waiting[partitions[i].Name]
	}
}
