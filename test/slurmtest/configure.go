package slurmtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// controllerName is the host name of the controller's machine.
const controllerName = "ctl"

// configure writes the configuration of the cluster and its GPUs.
func (c *Cluster) configure() {
	c.t.Helper()
	for i := range c.config.GPUs {
		// Slurm requires character devices, and numbers the GPUs by the ends of their names.
		require.NoError(c.t, os.Symlink("/dev/null", c.path("gpu"+strconv.Itoa(i))))
	}
	require.NoError(c.t, os.Mkdir(c.path("state"), 0o700))
	files := map[string]string{"slurm.conf": c.slurmConf(), "gres.conf": c.gresConf(), "cgroup.conf": "", "hosts": c.hosts()}
	for name, text := range files {
		require.NoError(c.t, os.WriteFile(c.path(name), []byte(text), 0o644)) //nolint:gosec // jobs of other users read the files
	}
}

// settings returns the settings of slurm.conf, except those of nodes and partitions.
func (c *Cluster) settings() map[string]string {
	all := map[string]string{
		"ClusterName":       "test",
		"SlurmctldHost":     controllerName + "(127.0.0.1)",
		"SlurmctldPort":     c.ports[0],
		"SlurmUser":         "root",
		"SlurmdUser":        "root",
		"PluginDir":         filepath.Join(filepath.Dir(c.bin), "plugins"),
		"AuthType":          "auth/none",
		"CredType":          "cred/none",
		"MpiDefault":        "none",
		"ProctrackType":     "proctrack/linuxproc",
		"TaskPlugin":        "task/none",
		"SwitchType":        "switch/none",
		"GresTypes":         "gpu",
		"StateSaveLocation": c.path("state"),
		"SlurmdSpoolDir":    c.path("%n"),
		"SlurmctldPidFile":  c.path("slurmctld.pid"),
		"SlurmdPidFile":     c.path("%n.pid"),
		// Nodes and their resources are invented: do not compare them with this machine.
		"SlurmdParameters":     "config_overrides",
		"SelectType":           "select/cons_tres",
		"SelectTypeParameters": "CR_Core_Memory",
		"DefMemPerCPU":         "100",
		// Start jobs at once.
		"SchedulerParameters": "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1",
		// Notice soon that a node is dead, and use it again when it returns.
		"SlurmdTimeout":   "10",
		"MessageTimeout":  "5",
		"ReturnToService": "1",
		// Slurm kills processes this many seconds after scancel has sent them SIGTERM. The default is 30.
		"KillWait":    "5",
		"PreemptType": "preempt/partition_prio",
		"PreemptMode": "CANCEL",
	}
	maps.Copy(all, c.config.Settings)
	return all
}

const (
	cpusPerNode     = 16
	memoryMiBOfNode = 64000
)

// slurmConf returns slurm.conf. Jobs of the partition urgent preempt those of the partition gpu. Jobs of the partition
// short may run for ten minutes.
func (c *Cluster) slurmConf() string {
	var out strings.Builder
	all := c.settings()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&out, "%s=%s\n", key, all[key])
	}
	for i := range c.config.Nodes {
		fmt.Fprintf(&out, "NodeName=%s NodeAddr=127.0.0.1 Port=%s CPUs=%d RealMemory=%d", nodeName(i), c.ports[i+1], cpusPerNode, memoryMiBOfNode)
		if c.config.GPUs > 0 {
			fmt.Fprintf(&out, " Gres=gpu:%d", c.config.GPUs)
		}
		out.WriteString(" State=UNKNOWN\n")
	}
	out.WriteString("PartitionName=gpu Nodes=ALL Default=YES MaxTime=UNLIMITED PriorityTier=1\n")
	out.WriteString("PartitionName=short Nodes=ALL MaxTime=10 PriorityTier=1\n")
	out.WriteString("PartitionName=urgent Nodes=ALL MaxTime=UNLIMITED PriorityTier=2 PreemptMode=OFF\n")
	return out.String()
}

func (c *Cluster) gresConf() string {
	if c.config.GPUs == 0 {
		return ""
	}
	return fmt.Sprintf("Name=gpu File=%s[0-%d]\n", c.path("gpu"), c.config.GPUs-1)
}
