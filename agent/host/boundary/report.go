package boundary

import (
	"errors"
	"maps"
	"slices"
)

// Report describes the boundary and the limits of works on this machine. The node sends it to the control plane.
type Report struct {
	Kind Kind
	// Required is true if the node refuses works that it cannot isolate.
	Required bool
	// Users is the range of the works' user ids, or "" if works run as the agent's user.
	Users string
	// Namespaces are the kernel's namespaces that a work does not share with the machine.
	Namespaces []string
	// Problem is why works are not isolated, or "".
	Problem string
	// Network is how the network of works is restricted.
	Network NetworkKind
	// NetworkProblem is why the network of works is not restricted, or "".
	NetworkProblem string
	// Unlimited names what is not limited for a work as a whole, see the resources below. Reasons states why, for each
	// of them.
	Unlimited []string
	Reasons   map[string]string
	// ClosesNetwork is true if the node can close the network of works that request none. Otherwise the node gets no
	// such works.
	ClosesNetwork bool
}

// The resources in Report.Unlimited.
const (
	unlimitedCPU       = "cpu"
	unlimitedDevices   = "devices"
	unlimitedDisk      = "disk"
	unlimitedMemory    = "memory"
	unlimitedNetwork   = "network"
	unlimitedPorts     = "ports"
	unlimitedProcesses = "processes"
	unlimitedSockets   = "sockets"
	// unlimitedNodes is the network of jobs on several nodes.
	unlimitedNodes = "several_nodes"
)

// Findings are the results of the tests that an agent makes at its start.
type Findings struct {
	Kind    Kind
	Network NetworkKind
	Mode    Mode
	Users   Users
	// Required is true if the node refuses works that it cannot isolate.
	Required bool
	// NotIsolated, NotRestricted, NoDisk and NoGroups are the reasons that works are not isolated, that their network is
	// not restricted, that they have no disks of their own, and that they have no cgroups. Nil means that they are, or
	// that they have them.
	NotIsolated, NotRestricted, NoDisk, NoGroups error
	// Landlock is the version of the kernel's Landlock, or 0 if it has none.
	Landlock int
}

// Report returns the report for the findings.
func (f Findings) Report() Report {
	r := Report{Kind: f.Kind, Required: f.Required, Network: f.Network, ClosesNetwork: f.Network != Open, Reasons: map[string]string{}}
	if f.NotIsolated != nil {
		r.Problem = f.NotIsolated.Error()
	}
	if f.NotRestricted != nil {
		r.NetworkProblem = f.NotRestricted.Error()
	}
	switch f.Kind {
	case OwnUser:
		r.Users, r.Namespaces = f.Users.String(), []string{"ipc", "mount", "pid"}
	case UserNamespace:
		r.Namespaces = []string{"ipc", "mount", "pid", "user"}
	case None:
	}
	for _, found := range []struct {
		resource string
		why      error
	}{
		{unlimitedCPU, f.noGroups()},
		{unlimitedDevices, f.openDevices()},
		{unlimitedDisk, f.NoDisk},
		{unlimitedMemory, f.noGroups()},
		{unlimitedNetwork, f.NotRestricted},
		{unlimitedPorts, f.openPorts()},
		{unlimitedProcesses, f.openProcesses()},
		{unlimitedSockets, f.openSockets()},
		{unlimitedNodes, f.openNodes()},
	} {
		if found.why != nil {
			r.Reasons[found.resource] = found.why.Error()
		}
	}
	r.Unlimited = slices.Sorted(maps.Keys(r.Reasons))
	return r
}

// errNotIsolated is the reason for everything that only a boundary can limit.
func errNotIsolated() error { return errors.New("works are not isolated") }

// noGroups returns why only single processes are limited. Rlimits apply only to these.
func (f Findings) noGroups() error {
	if f.Mode == Rlimit && f.NoGroups == nil {
		return errors.New("the agent cannot create cgroups")
	}
	return f.NoGroups
}

func (f Findings) openDevices() error {
	if f.Kind == None {
		return errNotIsolated()
	}
	return nil
}

// openProcesses returns why the number of processes is not limited. In a user namespace, an rlimit limits it.
func (f Findings) openProcesses() error {
	if f.Kind == None {
		return f.noGroups()
	}
	return nil
}

// openPorts returns why works can listen on the ports of other programs: those in Ports.
func (f Findings) openPorts() error {
	switch {
	case f.Kind == None:
		return errNotIsolated()
	case f.Network != OwnNetwork && f.Landlock < portsVersion:
		return errors.New("works share the network of the node, and its kernel has no Landlock that restricts ports; use Linux 6.7 or newer with Landlock")
	}
	return nil
}

// openNodes returns why the network of jobs on several nodes is not restricted, although that of other jobs is.
func (f Findings) openNodes() error {
	if f.Kind == UserNamespace && f.Network == OwnNetwork {
		return errors.New("the ranks of a job on several nodes meet at ports that pasta does not forward, so they use the network of their nodes; run the agent as root")
	}
	return nil
}

// openSockets returns why works reach the abstract Unix sockets of other works and of the system.
func (f Findings) openSockets() error {
	switch {
	case f.Kind == None:
		return errNotIsolated()
	case f.Network != OwnNetwork && f.Landlock < scopesVersion:
		return errors.New("works share the network of the node, and its kernel has no Landlock that hides abstract Unix sockets; use Linux 6.12 or newer with Landlock")
	}
	return nil
}
