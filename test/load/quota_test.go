package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// quotaPeriod is the period of a quota in microseconds, quotaTime the CPU time of a process in a period: half a core.
	quotaPeriod, quotaTime = 100_000, 50_000
	// groupEnds is how long a group may take to become empty after its process has ended.
	groupEnds = 10 * time.Second
)

// quotas limits the CPU time of processes with control groups, one for each process.
type quotas struct {
	b *testing.B
	// root is the folder in which groups are created, version 1 or 2 the version of the control groups.
	root    string
	version int
	groups  []string
}

// newQuotas finds out which version of control groups this machine has. It must be called before the installation is
// started, so that the groups are removed after its processes have ended.
func newQuotas(b *testing.B) *quotas {
	b.Helper()
	q := &quotas{b: b}
	const tree = "/sys/fs/cgroup"
	switch {
	case exists(filepath.Join(tree, "cpu", "cpu.cfs_quota_us")):
		q.root, q.version = filepath.Join(tree, "cpu"), 1
	case exists(filepath.Join(tree, "cgroup.subtree_control")):
		q.root, q.version = tree, 2
		err := os.WriteFile(filepath.Join(tree, "cgroup.subtree_control"), []byte("+cpu"), 0)
		require.NoError(b, err, "the benchmark needs root and the controller cpu in the root group")
	default:
		require.Fail(b, "this machine has no control groups with a quota of CPU time; the benchmark needs root and /sys/fs/cgroup")
	}
	b.Cleanup(q.remove)
	return q
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// limit gives the process half a core. The group has the name of the process, also after a restart.
func (q *quotas) limit(p *testenv.Process) {
	q.b.Helper()
	group := q.group(p)
	if !exists(group) {
		require.NoError(q.b, os.Mkdir(group, 0o755), "the benchmark needs root, to create control groups")
		q.groups = append(q.groups, group)
		settings := [][2]string{{"cpu.cfs_period_us", strconv.Itoa(quotaPeriod)}, {"cpu.cfs_quota_us", strconv.Itoa(quotaTime)}}
		if q.version == 2 {
			settings = [][2]string{{"cpu.max", fmt.Sprint(quotaTime, " ", quotaPeriod)}}
		}
		for _, s := range settings {
			require.NoError(q.b, os.WriteFile(filepath.Join(group, s[0]), []byte(s[1]), 0))
		}
	}
	require.NoError(q.b, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(p.PID())), 0))
}

// group returns the folder of the group of a process.
func (q *quotas) group(p *testenv.Process) string {
	return filepath.Join(q.root, fmt.Sprintf("signalbox-replicas-%d-%s", os.Getpid(), p.Name))
}

// periods returns the number of periods in which the process had work, and the number of those in which it has used up its
// quota.
func (q *quotas) periods(p *testenv.Process) (all, held int) {
	q.b.Helper()
	raw, err := os.ReadFile(filepath.Join(q.group(p), "cpu.stat"))
	require.NoError(q.b, err)
	for line := range strings.Lines(string(raw)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.Atoi(text)
		switch name {
		case "nr_periods":
			all = n
		case "nr_throttled":
			held = n
		}
	}
	return all, held
}

// remove removes the groups. The kernel refuses that for a moment after a process has ended.
func (q *quotas) remove() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(q.b.Context()), groupEnds)
	defer cancel()
	for _, group := range q.groups {
		for err := os.Remove(group); err != nil; err = os.Remove(group) {
			if ctx.Err() != nil {
				q.b.Errorf("remove the control group: %v", err)
				break
			}
			time.Sleep(pollBackends)
		}
	}
}
