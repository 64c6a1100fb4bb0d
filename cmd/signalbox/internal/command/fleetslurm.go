package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// maxQueue is how many jobs of the queue are searched for those that Slurm holds.
const maxQueue = 5000

// slurmFleet is what the command line looks at of a fleet.
type slurmFleet struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`
	Pools []string `json:"pools"`
	Slurm *struct {
		Version    string            `json:"version"`
		Problem    *string           `json:"problem"`
		Partitions []json.RawMessage `json:"partitions"`
		Pools      []slurmTest       `json:"pools"`
	} `json:"slurm"`
}

// slurmTest is the result of the test of a pool.
type slurmTest struct {
	Pool      string    `json:"pool"`
	Slurm     slurmPool `json:"slurm"`
	Isolation string    `json:"isolation"`
	Problem   *string   `json:"problem"`
	TestedAt  *string   `json:"tested_at"`
}

// slurmPool is how the jobs of a pool run on Slurm.
type slurmPool struct {
	Partition string `json:"partition"`
	Account   string `json:"account"`
	QOS       string `json:"qos"`
	User      string `json:"user"`
	Folder    string `json:"folder"`
}

// poolOfSlurm is a row of the table of pools.
type poolOfSlurm struct {
	slurmPool

	Pool      string  `json:"pool"`
	Test      string  `json:"test"`
	Isolation string  `json:"isolation"`
	TestedAt  *string `json:"tested_at"`
	Held      string  `json:"held"`

	remedy string
}

func partitionColumns() []output.Column {
	return []output.Column{
		{Name: "partition", Path: "name"},
		{Name: "state"},
		{Name: "nodes", Right: true},
		{Name: "idle", Path: "nodes_idle", Right: true},
		{Name: "down", Path: "nodes_down", Right: true},
		{Name: "gpus", Path: "gpus_total", Right: true},
		{Name: "used", Path: "gpus_used", Right: true},
		{Name: "waiting", Path: "jobs_waiting", Right: true},
		{Name: "max_time", Path: "max_time_s", Right: true, As: timeLimit},
		{Name: "node_gpus", Path: "gpus_per_node", Right: true, Wide: true},
		{Name: "node_cpus", Path: "cpus_per_node", Right: true, Wide: true},
		{Name: "node_memory", Path: "memory_bytes_per_node", Right: true, Wide: true, As: output.Bytes},
	}
}

// timeLimit formats the longest time that a job may run.
func timeLimit(value any, now time.Time) string {
	if text := output.Text(value, now); text == "0" {
		return "none"
	}
	return output.Seconds(value, now)
}

func poolOfSlurmColumns() []output.Column {
	return []output.Column{
		{Name: "pool"},
		{Name: "partition"},
		{Name: "account"},
		{Name: "qos"},
		{Name: "user", Wide: true},
		{Name: "folder"},
		{Name: "test"},
		{Name: "isolation"},
		{Name: "tested", Path: "tested_at", Right: true, As: output.Age},
		{Name: "held", Right: true},
	}
}

// getFleet returns the command that shows a fleet. Of a Slurm fleet, it also shows the partitions, and the pools with their tests.
func (t *tool) getFleet() *cobra.Command {
	k := fleetKind()
	cmd := t.get(k, "Show a fleet", "signalbox fleets get lab\nsignalbox fleets get hpc -o wide")
	cmd.Long = `Show a fleet. Of a Slurm fleet, also show the partitions of the cluster as its agent reported them when it was last seen, and the pools: their
settings, the result of the test of each, and how many of its jobs Slurm holds.`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, id, err := t.object(cmd, k, args[0])
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := c.Get(cmd.Context(), k.at(id), nil, &raw); err != nil {
			return err
		}
		p, err := t.Printer()
		if err != nil {
			return err
		}
		var f slurmFleet
		if err := json.Unmarshal(raw, &f); err != nil {
			return fmt.Errorf("decode a fleet: %w", err)
		}
		if err := p.Object(k.all(), raw); err != nil || f.Kind != "slurm" || !p.ForPeople() || len(p.Columns) > 0 {
			return err
		}
		return t.printSlurm(cmd.Context(), c, p, f)
	}
	return cmd
}

// printSlurm prints the tables of a Slurm fleet, and what to do about each pool that cannot be used.
func (t *tool) printSlurm(ctx context.Context, c *client.Client, p *output.Printer, f slurmFleet) error {
	switch {
	case f.Slurm == nil:
		t.Say("no agent of the fleet has reported its Slurm cluster yet; start one with a token of signalbox fleets token %s", output.Printable(f.Name))
	case f.Slurm.Problem != nil:
		t.Say("the agent cannot reach Slurm: %s; repair that on the host of the agent", output.Printable(*f.Slurm.Problem))
	}
	if f.Slurm != nil && len(f.Slurm.Partitions) > 0 {
		fmt.Fprintln(t.Out)
		if err := p.Rows(partitionColumns(), f.Slurm.Partitions); err != nil {
			return err
		}
	}
	pools, err := slurmPools(ctx, c, f)
	if err != nil || len(pools) == 0 {
		return err
	}
	rows := make([]json.RawMessage, len(pools))
	for i, pool := range pools {
		if rows[i], err = json.Marshal(pool); err != nil {
			return fmt.Errorf("print the pools: %w", err)
		}
	}
	fmt.Fprintln(t.Out)
	if err := p.Rows(poolOfSlurmColumns(), rows); err != nil {
		return err
	}
	for _, pool := range pools {
		if pool.remedy != "" {
			t.Say("pool %s: %s", output.Printable(pool.Pool), output.Printable(pool.remedy))
		}
	}
	return nil
}

// slurmPools returns the pools of a Slurm fleet, with the results of their tests and the numbers of their held jobs.
func slurmPools(ctx context.Context, c *client.Client, f slurmFleet) ([]poolOfSlurm, error) {
	var cluster struct {
		Pools []struct {
			Pool      string     `json:"pool"`
			Isolation string     `json:"isolation"`
			Slurm     *slurmPool `json:"slurm"`
		} `json:"pools"`
	}
	if err := c.Get(ctx, "/api/cluster", nil, &cluster); err != nil {
		return nil, err
	}
	held, err := heldJobs(ctx, c)
	if err != nil {
		return nil, err
	}
	served := map[string]bool{}
	for _, name := range f.Pools {
		served[name] = true
	}
	var rows []poolOfSlurm
	for _, p := range cluster.Pools {
		if !served[p.Pool] {
			continue
		}
		row := poolOfSlurm{Pool: p.Pool, Held: held.of(p.Pool)}
		if p.Slurm != nil {
			row.slurmPool = *p.Slurm
		}
		row.judge(f, p.Isolation != "none")
		rows = append(rows, row)
	}
	return rows, nil
}

// judge sets the result of the test of a pool, and what to do about it. A test with earlier settings does not count.
func (r *poolOfSlurm) judge(f slurmFleet, isolated bool) {
	if r.slurmPool == (slurmPool{}) {
		r.Test, r.remedy = "no settings", "an admin sets how its jobs run: signalbox cluster pool "+r.Pool+" --partition NAME --folder FOLDER"
		return
	}
	var tested *slurmTest
	if f.Slurm != nil {
		for i := range f.Slurm.Pools {
			if one := &f.Slurm.Pools[i]; one.Pool == r.Pool && one.Slurm == r.slurmPool {
				tested = one
			}
		}
	}
	if tested == nil {
		r.Test = "not tested"
		return
	}
	r.Isolation, r.TestedAt = tested.Isolation, tested.TestedAt
	problem := "its test ended without a result"
	if tested.Problem != nil {
		problem = *tested.Problem
	}
	switch {
	case tested.Isolation == "none" && isolated:
		r.Test = "not isolated"
		r.remedy = problem + "; repair that, or permit work without isolation: signalbox cluster pool " + r.Pool + " --isolation none"
	case tested.Isolation == "" || tested.Isolation != "none" && tested.Problem != nil:
		r.Test = "failed"
		r.remedy = problem + "; correct the settings with signalbox cluster pool " + r.Pool + ", or repair the cluster: the agent repeats the test"
	default:
		r.Test = "passed"
	}
}

// heldCount is how many jobs Slurm holds.
type heldCount struct {
	pools map[string]int
	// more states that the queue has more jobs than were searched.
	more bool
}

func (h heldCount) of(pool string) string {
	if h.more {
		return strconv.Itoa(h.pools[pool]) + "+"
	}
	return strconv.Itoa(h.pools[pool])
}

// heldJobs counts the jobs that Slurm holds, by their pools.
func heldJobs(ctx context.Context, c *client.Client) (heldCount, error) {
	held := heldCount{pools: map[string]int{}}
	var err error
	_, held.more, err = c.Each(ctx, queueKind().path, nil, maxQueue, func(row json.RawMessage) error {
		var job struct {
			Pools  []string `json:"pools"`
			Reason string   `json:"reason"`
		}
		if err := json.Unmarshal(row, &job); err != nil {
			return fmt.Errorf("decode a job of the queue: %w", err)
		}
		if !heldBySlurm(job.Reason) {
			return nil
		}
		counted := map[string]bool{}
		for _, pool := range job.Pools {
			if !counted[pool] {
				counted[pool] = true
				held.pools[pool]++
			}
		}
		return nil
	})
	return held, err
}

// slurmSummary formats the report of a Slurm cluster on one line.
func slurmSummary(value any, now time.Time) string {
	report, ok := value.(map[string]any)
	if !ok {
		return output.Text(value, now)
	}
	if report["problem"] != nil {
		return "not reachable"
	}
	partitions, _ := report["partitions"].([]any)
	waiting := 0
	for _, p := range partitions {
		members, _ := p.(map[string]any)
		n, _ := strconv.Atoi(output.Text(members["jobs_waiting"], now))
		waiting += n
	}
	return fmt.Sprintf("%s, partitions: %d, waiting: %d", cmp.Or(output.Text(report["version"], now), "unknown version"), len(partitions), waiting)
}

// slurmNote returns the line about the Slurm fleets of a list that need attention, or "".
func slurmNote(rows []json.RawMessage) string {
	var names []string
	for _, row := range rows {
		var f slurmFleet
		if json.Unmarshal(row, &f) == nil && f.troubled() {
			names = append(names, output.Printable(f.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Slurm has problems in " + strings.Join(names, ", ") + "; signalbox fleets get " + names[0] + " shows them"
}

// troubled reports whether the agent cannot reach Slurm, or the last test of a pool has failed.
func (f slurmFleet) troubled() bool {
	if f.Slurm == nil {
		return false
	}
	for _, tested := range f.Slurm.Pools {
		if tested.Problem != nil && tested.Isolation != "none" {
			return true
		}
	}
	return f.Slurm.Problem != nil
}
