package boundary_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

func TestFindings_Report(t *testing.T) {
	t.Parallel()
	users := boundary.Users{First: 200_000, Last: 200_999}
	const (
		newest     = 6
		open       = "works are not isolated"
		noGroups   = "the agent cannot create cgroups"
		noRoot     = "the agent does not run as root"
		noPasta    = "the program pasta is not in PATH"
		noPorts    = "works share the network of the node, and its kernel has no Landlock that restricts ports; use Linux 6.7 or newer with Landlock"
		noForwards = "the ranks of a job on several nodes meet at ports that pasta does not forward, so they use the network of their nodes; run the agent as root"
		noScopes   = "works share the network of the node, and its kernel has no Landlock that hides abstract Unix sockets; use Linux 6.12 or newer with Landlock"
	)
	root := boundary.Findings{Kind: boundary.OwnUser, Network: boundary.Filtered, Mode: boundary.Cgroup2, Users: users, Required: true, Landlock: newest}
	require.Equal(t, boundary.Report{
		Kind: boundary.OwnUser, Required: true, Users: "200000-200999", Namespaces: []string{"ipc", "mount", "pid"}, Network: boundary.Filtered,
		ClosesNetwork: true, Reasons: map[string]string{},
	}, root.Report())
	root.Landlock = newest - 1
	require.Equal(t, map[string]string{"sockets": noScopes}, root.Report().Reasons, "Linux 6.7 to 6.11 cannot hide abstract sockets")
	root.Landlock = 0
	require.Equal(t, map[string]string{"ports": noPorts, "sockets": noScopes}, root.Report().Reasons)

	user := boundary.Findings{
		Kind: boundary.UserNamespace, Network: boundary.OwnNetwork, Mode: boundary.Rlimit, Users: users, Required: true,
		NoDisk: errors.New(noRoot), NoGroups: errors.New(noGroups),
	}
	limits := map[string]string{"cpu": noGroups, "disk": noRoot, "memory": noGroups, "several_nodes": noForwards}
	require.Equal(t, boundary.Report{
		Kind: boundary.UserNamespace, Required: true, Namespaces: []string{"ipc", "mount", "pid", "user"}, Network: boundary.OwnNetwork,
		ClosesNetwork: true, Unlimited: []string{"cpu", "disk", "memory", "several_nodes"}, Reasons: limits,
	}, user.Report(), "limits of single processes do not limit a work; a network of its own needs no Landlock")
	user.Network, user.NotRestricted, user.Landlock = boundary.Open, errors.New(noPasta), newest
	delete(limits, "several_nodes")
	limits["network"] = noPasta
	require.Equal(t, boundary.Report{
		Kind: boundary.UserNamespace, Required: true, Namespaces: []string{"ipc", "mount", "pid", "user"}, Network: boundary.Open,
		NetworkProblem: noPasta, Unlimited: []string{"cpu", "disk", "memory", "network"}, Reasons: limits,
	}, user.Report())

	none := boundary.Findings{
		Kind: boundary.None, Network: boundary.Open, Mode: boundary.Rlimit, Landlock: newest, NotIsolated: errors.New("switched off"),
		NotRestricted: errors.New(open), NoDisk: errors.New(open), NoGroups: errors.New(noGroups),
	}
	require.Equal(t, boundary.Report{
		Kind: boundary.None, Problem: "switched off", Network: boundary.Open, NetworkProblem: open,
		Unlimited: []string{"cpu", "devices", "disk", "memory", "network", "ports", "processes", "sockets"},
		Reasons: map[string]string{
			"cpu": noGroups, "devices": open, "disk": open, "memory": noGroups, "network": open, "ports": open, "processes": noGroups, "sockets": open,
		},
	}, none.Report())
}
