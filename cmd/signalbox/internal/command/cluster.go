package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

func fleetKind() kind {
	return kind{
		one: "fleet", many: "fleets", path: "/api/fleets", prefix: "flt_", name: "name",
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "kind"},
			{Name: "state"},
			{Name: "pools"},
			{Name: "nodes", Right: true},
			{Name: "gpus", Path: "gpus_total", Right: true},
			{Name: "free", Path: "gpus_free", Right: true},
			{Name: "unhealthy", Path: "gpus_unhealthy", Right: true, Wide: true},
			{Name: "seen", Path: "last_seen_at", Right: true, As: output.Age},
			{Name: "slurm", Wide: true, As: slurmSummary},
		},
		note: slurmNote,
	}
}

func nodeKind() kind {
	return kind{
		one: "node", many: "nodes", lister: "cluster nodes", path: "/api/cluster/nodes", prefix: "nod_", name: "name",
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "state"},
			{Name: "pools"},
			{Name: "gpus", Right: true},
			{Name: "free", Path: "gpus_free", Right: true},
			{Name: "cpus", Right: true},
			{Name: "memory", Path: "memory_bytes", Right: true, As: output.Bytes},
			{Name: "works", Right: true},
			{Name: "seen", Path: "last_seen_at", Right: true, As: output.Age},
			{Name: "reason", Wide: true},
			{Name: "isolation", Path: "boundary.kind", Wide: true},
			{Name: "network", Path: "boundary.network", Wide: true},
			{Name: "limits", Wide: true},
			{Name: "unlimited", Path: "boundary.unlimited", Wide: true},
			{Name: "version", Wide: true},
		},
		details: slices.Concat(boundaryColumns(), []output.Column{{Name: "pythons"}, {Name: "drain"}, {Name: "joined", Path: "joined_at", As: output.Time}}),
	}
}

// boundaryColumns returns the columns for why something of a node's boundary does not hold. They are empty where it holds.
func boundaryColumns() []output.Column {
	resources := []string{"cpu", "devices", "disk", "memory", "ports", "processes", "several_nodes", "sockets"}
	columns := slices.Grow([]output.Column{{Name: "isolation_problem", Path: "boundary.problem"}, {Name: "network_problem", Path: "boundary.network_problem"}}, len(resources))
	for _, resource := range resources {
		columns = append(columns, output.Column{Name: "unlimited_" + resource, Path: "boundary.reasons." + resource})
	}
	return columns
}

func (t *tool) fleets() *cobra.Command {
	k := fleetKind()
	return noun("fleets", groupCluster, "Fleets: groups of machines that run work", "signalbox fleets ls\nsignalbox fleets token lab > join-token", []string{"fleet"},
		t.list(k, "List fleets", "signalbox fleets ls"), t.getFleet(),
		t.createFleet(),
		t.update(k, "Change a fleet, or let it drain (admins)", "signalbox fleets update lab --state draining",
			field{flag: "name", usage: "new name"}, field{flag: "state", usage: "active, draining or disabled"},
			field{flag: "pools", usage: "all pools, with commas between them", list: true}),
		t.joinToken(), t.revokeJoinToken(),
		t.part(k, "tokens", "join-tokens", kind{one: "token", many: "tokens", columns: []output.Column{
			{Name: "id"},
			{Name: "usable"},
			{Name: "uses", Right: true},
			{Name: "max_uses", Right: true},
			{Name: "expires", Path: "expires_at", As: output.Time},
			{Name: "revoked", Path: "revoked_at", As: output.Time},
		}}, "List the join tokens of a fleet (admins)", "signalbox fleets tokens lab"),
		t.remove(k, "Delete a fleet on which nothing runs, with its nodes (admins)", "signalbox fleets rm lab"),
		t.open(k, "/fleets/", "signalbox fleets open lab"),
	)
}

func (t *tool) createFleet() *cobra.Command {
	var kindOf string
	var pools []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a fleet (admins)", Example: "signalbox fleets create lab --pool default --pool a100", Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.create(cmd, fleetKind(), map[string]any{"name": args[0], "kind": kindOf, "pools": pools})
		},
	}
	cmd.Flags().StringVar(&kindOf, "kind", "agent", "agent, kubernetes or slurm")
	cmd.Flags().StringSliceVar(&pools, "pool", []string{"default"}, "pool of its nodes; can be repeated")
	return cmd
}

func (t *tool) joinToken() *cobra.Command {
	k := fleetKind()
	var uses, ttl int
	cmd := &cobra.Command{
		Use: "token FLEET", Short: "Create a token with which a machine joins, and print it once (admins)", Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		Example: "signalbox fleets token lab > join-token\nsignalbox fleets token lab -o json --jq .command",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			body := map[string]any{}
			if uses > 0 {
				body["max_uses"] = uses
			}
			if ttl > 0 {
				body["ttl_s"] = ttl
			}
			var raw json.RawMessage
			if err := c.Post(cmd.Context(), k.at(id, "join-tokens"), body, &raw); err != nil {
				return err
			}
			var made struct{ Command string }
			if err := json.Unmarshal(raw, &made); err != nil {
				return fmt.Errorf("decode the token: %w", err)
			}
			return t.printSecret(raw, "token", "on the new machine, run "+output.Printable(made.Command)+" with this token on standard input; it is shown only once:")
		},
	}
	cmd.Flags().IntVar(&uses, "uses", 0, "number of machines that can join with it")
	cmd.Flags().IntVar(&ttl, "ttl", 0, "seconds for which it is valid")
	return cmd
}

func (t *tool) revokeJoinToken() *cobra.Command {
	k := fleetKind()
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke-token FLEET TOKEN", Short: "End a join token at once, by its id (admins)", Args: arguments(2, 2),
		Example: "signalbox fleets revoke-token lab jtk_01kab3c4d5e6f7g8h9j0kmnpqr -y", ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Revoke the join token %s? No machine can join with it any more.", args[1]); err != nil {
				return err
			}
			if err := c.Do(cmd.Context(), http.MethodDelete, k.at(id, "join-tokens", args[1]), nil, nil); err != nil {
				return err
			}
			t.Say("revoked the join token %s", args[1])
			return nil
		},
	}
	addYes(cmd, &yes)
	return cmd
}

func (t *tool) cluster() *cobra.Command {
	k := nodeKind()
	removeNode := t.remove(k, "Remove a node that is gone (admins)", "signalbox cluster rm-node gpu-01 -y")
	removeNode.Use, removeNode.Aliases = "rm-node NODE...", nil
	nodes := t.list(k, "List nodes", "signalbox cluster nodes -o wide")
	nodes.Use, nodes.Aliases = "nodes", nil
	node := t.get(k, "Show a node", "signalbox cluster node gpu-01")
	node.Use, node.Aliases = "node NODE", nil
	queue := t.list(queueKind(), "List what waits, and for what", "signalbox cluster queue --pool a100",
		filter{flag: "pool", param: "pool", usage: "only jobs that wait for this pool"})
	queue.Use, queue.Aliases = "queue", nil
	return noun("cluster", groupCluster, "Nodes, pools and the queue", "signalbox cluster pools\nsignalbox cluster queue", nil,
		t.top(), t.pools(), nodes, node, queue, t.drain(), t.cordon(), t.pool(), removeNode,
		t.act(k, "uncordon", "Let a node accept work again (admins)", "signalbox cluster uncordon gpu-01"),
	)
}

func (t *tool) pools() *cobra.Command {
	return &cobra.Command{
		Use: "pools", Short: "List the pools with their nodes and GPUs", Example: "signalbox cluster pools", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			var cluster struct {
				Pools []json.RawMessage `json:"pools"`
			}
			if err := c.Get(cmd.Context(), "/api/cluster", nil, &cluster); err != nil {
				return err
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			return t.rows(p, "pools", poolColumns(), cluster.Pools)
		},
	}
}

func (t *tool) drain() *cobra.Command {
	var mode, reason string
	var deadline int
	var yes bool
	k := nodeKind()
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Empty a node before maintenance (admins)", Example: "signalbox cluster drain gpu-01 --mode checkpoint --deadline 600",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			if mode != "wait" {
				if err := t.Confirm(cmd.Context(), yes, "Drain %s with %s? Its works are moved or ended.", args[0], mode); err != nil {
					return err
				}
			}
			body := map[string]any{"mode": mode}
			if deadline > 0 {
				body["deadline_s"] = deadline
			}
			if reason != "" {
				body["reason"] = reason
			}
			return t.send(cmd, c, http.MethodPost, k.at(id, "drain"), body, t.showChange(k))
		},
	}
	f := cmd.Flags()
	f.StringVar(&mode, "mode", "wait", "wait until works end, checkpoint to pause and move them, or kill")
	f.StringVar(&reason, "reason", "", "why, for the people who look at the node")
	f.IntVar(&deadline, "deadline", 0, "seconds after which works are killed")
	addYes(cmd, &yes)
	return cmd
}

func (t *tool) cordon() *cobra.Command {
	var reason string
	k := nodeKind()
	cmd := &cobra.Command{
		Use: "cordon NODE", Short: "Let a node accept no new work (admins)", Example: "signalbox cluster cordon gpu-01 --reason 'a fan is loud'",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			body := map[string]any{}
			if reason != "" {
				body["reason"] = reason
			}
			return t.send(cmd, c, http.MethodPost, k.at(id, "cordon"), body, t.showChange(k))
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the people who look at the node")
	return cmd
}

func (t *tool) find() *cobra.Command {
	var kinds []string
	var limit int
	cmd := &cobra.Command{
		Use: "search TEXT", GroupID: groupWork, Short: "Find anything by its name or id", Example: "signalbox search sums\nsignalbox search sums --kind dataset",
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			chosen, err := t.Settings()
			if err != nil {
				return err
			}
			query := url.Values{"q": {args[0]}, "limit": {strconv.Itoa(limit)}}
			if len(kinds) > 0 {
				query["kinds"] = kinds
			}
			if chosen.Project != "" {
				query.Set("project", chosen.Project)
			}
			var found struct {
				Results []json.RawMessage `json:"results"`
				Missing []string          `json:"missing"`
			}
			if err := c.Get(cmd.Context(), "/api/search", query, &found); err != nil {
				return err
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			columns := []output.Column{{Name: "kind"}, {Name: "title"}, {Name: "id"}, {Name: "project"}, {Name: "snippet", Wide: true}}
			if err := t.rows(p, "results", columns, found.Results); err != nil {
				return err
			}
			if len(found.Missing) > 0 {
				t.Say("not searched in time: %v", found.Missing)
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "only objects of this kind, such as dataset; can be repeated")
	cmd.Flags().IntVar(&limit, "limit", defaultPreview, "maximum number of results, at most 50")
	return cmd
}
