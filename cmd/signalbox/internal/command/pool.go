package command

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func poolColumns() []output.Column {
	return slices.Concat([]output.Column{
		{Name: "pool"},
		{Name: "nodes", Right: true},
		{Name: "ready", Path: "nodes_ready", Right: true},
		{Name: "gpus", Path: "gpus_total", Right: true},
		{Name: "free", Path: "gpus_free", Right: true},
		{Name: "queued", Path: "jobs_queued", Right: true},
		{Name: "isolation", Wide: true},
	}, slurmColumns(true))
}

// slurmColumns returns the columns of the Slurm settings of a pool.
func slurmColumns(wide bool) []output.Column {
	names := []string{"partition", "account", "qos", "user", "folder"}
	columns := make([]output.Column, 0, len(names))
	for _, name := range names {
		columns = append(columns, output.Column{Name: name, Path: "slurm." + name, Wide: wide})
	}
	return columns
}

// poolFields are the settings of every pool.
func poolFields() []field {
	return []field{
		{flag: "isolation", usage: "required or none"},
		{flag: "on-silence", usage: "continue or stop: what works do when their node is silent"},
		{flag: "default-memory-gb", usage: "memory of a work that requests none", number: true},
		{flag: "default-processes", usage: "processes and threads that a job may have on each node; 0 for 4096", number: true},
	}
}

// slurmFields are the settings of a pool that a Slurm fleet serves.
func slurmFields() []field {
	return []field{
		{flag: "partition", usage: "Slurm partition of its jobs"},
		{flag: "folder", usage: "absolute path of the folder that the agent and the nodes of the partition share"},
		{flag: "account", usage: "account that Slurm charges; without it, the default account of the user"},
		{flag: "qos", usage: "quality of service in Slurm; without it, the default"},
		{flag: "user", usage: "user that jobs run as: that of the agent; without it, any"},
	}
}

// clearable are the Slurm settings that a pool can do without.
func clearable() []string { return []string{"account", "qos", "user"} }

// pool returns the command that changes the settings of a pool.
func (t *tool) pool() *cobra.Command {
	var cleared []string
	cmd := t.update(kind{one: "pool", many: "pools"}, "Change the settings of a pool (admins)",
		"signalbox cluster pool default --isolation required\n"+
			"signalbox cluster pool hpc --partition gpu --account lab --folder /shared/signalbox\nsignalbox cluster pool hpc --clear account,qos",
		slices.Concat(poolFields(), slurmFields())...)
	cmd.Use = "pool POOL"
	cmd.Long = `Change the settings of a pool. The partition, the folder, the account, the quality of service and the user are how the jobs of a pool run on
a Slurm cluster. A pool needs a partition and a folder; what is not given stays as it is. The agent of the fleet then tests the pool with a short
job, whose result signalbox fleets get shows.`
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().StringSliceVar(&cleared, "clear", nil, "Slurm settings to remove, with commas between them: account, qos or user")
	must(cmd.RegisterFlagCompletionFunc("clear", cobra.FixedCompletions(clearable(), cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := changes(cmd, poolFields())
		if err != nil {
			return err
		}
		slurm, err := slurmChanges(cmd, cleared)
		if err != nil {
			return err
		}
		if len(body)+len(slurm) == 0 {
			return errNoChange()
		}
		c, err := t.Client()
		if err != nil {
			return err
		}
		if len(slurm) > 0 {
			if body["slurm"], err = wholeSlurm(cmd.Context(), c, args[0], slurm); err != nil {
				return err
			}
		}
		columns := append([]output.Column{{Name: "pool"}, {Name: "isolation"}, {Name: "default_memory_gb"}, {Name: "default_processes"}, {Name: "on_silence"}}, slurmColumns(false)...)
		return t.send(cmd, c, http.MethodPatch, "/api/cluster/pools/"+url.PathEscape(args[0]), body, t.showObject(columns))
	}
	return cmd
}

// slurmChanges returns the Slurm settings that the command line sets. Settings to remove are empty.
func slurmChanges(cmd *cobra.Command, cleared []string) (map[string]any, error) {
	slurm, err := changes(cmd, slurmFields())
	if err != nil {
		return nil, err
	}
	for name, value := range slurm {
		if value == "" {
			return nil, session.Usage("--%s must not be empty; an unset variable?", name)
		}
	}
	for _, name := range cleared {
		if err := oneOf("clear", name, clearable()); err != nil {
			return nil, err
		}
		if slurm[name] != nil {
			return nil, session.Usage("--%s and --clear %s contradict each other; give one of them", name, name)
		}
		slurm[name] = ""
	}
	return slurm, nil
}

// wholeSlurm returns all Slurm settings of a pool after changes, because the server replaces them as a whole.
func wholeSlurm(ctx context.Context, c *client.Client, pool string, slurm map[string]any) (map[string]any, error) {
	var cluster struct {
		Pools []struct {
			Pool  string         `json:"pool"`
			Slurm map[string]any `json:"slurm"`
		} `json:"pools"`
	}
	if err := c.Get(ctx, "/api/cluster", nil, &cluster); err != nil {
		return nil, err
	}
	whole := map[string]any{}
	for _, p := range cluster.Pools {
		if p.Pool == pool {
			maps.Copy(whole, p.Slurm)
		}
	}
	maps.Copy(whole, slurm)
	if whole["partition"] == nil || whole["folder"] == nil {
		return nil, session.Usage("pool %s has no Slurm settings yet; give both --partition and --folder", pool)
	}
	return whole, nil
}
