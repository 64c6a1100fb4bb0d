package slurmtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Command returns a command of Slurm for this cluster.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Bin(name), args...)
	cmd.Env = append(os.Environ(), c.Env()...)
	cmd.Dir = c.Dir
	return cmd
}

// Output runs a command of Slurm, which must succeed, and returns its output without white space at its ends.
func (c *Cluster) Output(ctx context.Context, name string, args ...string) string {
	c.t.Helper()
	limited, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := c.Command(limited, name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(c.t, err, "%s %s: %s%s", name, strings.Join(args, " "), &stderr, c.Logs())
	return strings.TrimSpace(string(out))
}

// Job is a job that the controller knows. The controller forgets a job MinJobAge seconds after its end.
type Job struct {
	ID, Name, Comment string
	// State is Slurm's name of the state in full, such as PENDING.
	State string
	// Reason is why the job waits, or why it has ended, such as Resources; None if there is no reason.
	Reason string
	// Nodes are the names of the job's nodes, such as n[1-2].
	Nodes string
}

// Jobs returns all jobs in the order of their ids. The components of a heterogeneous job are separate jobs with ids
// such as 7+0.
func (c *Cluster) Jobs(ctx context.Context) []Job {
	c.t.Helper()
	// The comment is last, because it may contain the separator.
	out := c.Output(ctx, "squeue", "--noheader", "--states=all", "--sort=i", "--format=%i|%j|%T|%r|%N|%k")
	var jobs []Job
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 6)
		require.Len(c.t, f, 6, line)
		jobs = append(jobs, Job{ID: f[0], Name: f[1], State: f[2], Reason: f[3], Nodes: f[4], Comment: f[5]})
	}
	return jobs
}

// Job returns a job. The test fails if the controller does not know it.
func (c *Cluster) Job(ctx context.Context, id string) Job {
	c.t.Helper()
	for _, j := range c.Jobs(ctx) {
		if j.ID == id {
			return j
		}
	}
	require.Fail(c.t, "the controller does not know job "+id, c.Logs())
	return Job{}
}

// AwaitState waits until a job is in a state.
func (c *Cluster) AwaitState(ctx context.Context, id, state string) Job {
	c.t.Helper()
	var last Job
	c.await(ctx, "job "+id+" is "+state, nil, func() bool {
		last = c.Job(ctx, id)
		return last.State == state
	})
	return last
}

// AwaitIdle waits until no job runs or waits, and all nodes could run one.
func (c *Cluster) AwaitIdle(ctx context.Context) {
	c.t.Helper()
	c.await(ctx, "all nodes are idle", nil, func() bool {
		for state := range strings.Lines(c.Output(ctx, "sinfo", "--noheader", "--Node", "--format=%T")) {
			if strings.TrimSpace(state) != "idle" {
				return false
			}
		}
		return c.Output(ctx, "squeue", "--noheader") == ""
	})
}

// await polls until the condition is true. It fails the test if ctx ends first, or if the machine, which may be nil,
// has ended.
func (c *Cluster) await(ctx context.Context, what string, m *machine, condition func() bool) {
	c.t.Helper()
	var ended chan struct{}
	if m != nil {
		ended = m.done
	}
	for !condition() {
		select {
		case <-ctx.Done():
			require.FailNow(c.t, "condition not met: "+what, c.Logs())
		case <-ended:
			require.FailNow(c.t, "the machine "+m.name+" has ended before "+what, c.Logs())
		case <-time.After(pollInterval):
		}
	}
}
