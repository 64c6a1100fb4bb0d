package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Place is what a node of a batch system needs to know to complete the start of a rank: how the agent isolates works, and
// what they may reach.
type Place struct {
	// Isolate is false if works are not isolated at all. With Open, a node that cannot isolate the work runs it in the open.
	Isolate bool `json:"isolate"`
	Open    bool `json:"open,omitempty"`
	// Closed means that the work requests no network. Ranks is the number of ranks of the attempt.
	Closed bool `json:"closed,omitempty"`
	Ranks  int  `json:"ranks"`
	// Endpoint is the URL of the ingest routes.
	Endpoint string `json:"endpoint"`

	WorkUsers     boundary.Users `json:"work_users"`
	WorkFiles     int64          `json:"work_files,omitempty"`
	WorkReach     []string       `json:"work_reach,omitempty"`
	ClosedReach   []string       `json:"closed_reach,omitempty"`
	WorkAvoid     []string       `json:"work_avoid,omitempty"`
	ControlPlane  []string       `json:"control_plane,omitempty"`
	ReservedPorts []uint16       `json:"reserved_ports,omitempty"`
}

// Template is a start of a rank before a node of a batch system has completed it. Only the agent's user can read it.
type Template struct {
	Start shim.Start `json:"start"`
	Place Place      `json:"place"`
}

func templateFile(dir string) string { return filepath.Join(dir, "template.json") }

// Write writes the template into the folder of a rank's shim.
func (t Template) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the rank: %w", err)
	}
	t.Start.Version = shim.Version
	return localfile.WriteJSON(templateFile(dir), t, localfile.PrivateMode)
}

// ReadTemplate reads the template of a rank.
func ReadTemplate(dir string) (t Template, err error) {
	err = localfile.ReadJSON(templateFile(dir), &t)
	return t, err
}

// NewPlace returns the place of an attempt with one rank, for an agent with the given configuration.
func NewPlace(cfg Config) Place {
	return Place{
		Isolate: cfg.Isolate, Ranks: 1, WorkUsers: cfg.WorkUsers, WorkFiles: cfg.WorkFiles, WorkReach: cfg.WorkReach,
		ClosedReach: cfg.ClosedReach, WorkAvoid: cfg.WorkAvoid, ReservedPorts: cfg.ReservedPorts,
	}
}

// place returns the place of a batched attempt.
func (w *work) place() Place {
	spec := w.assignment.Work.Attempt
	p := NewPlace(w.host.cfg)
	p.Open, p.Closed, p.Ranks, p.Endpoint = spec.Batch.NotIsolated, spec.NoNetwork, spec.Batch.Ranks(), w.endpoint()
	if w.host.cfg.ControlPlane != nil {
		p.ControlPlane = w.host.cfg.ControlPlane()
	}
	return p
}

// setPlace sets the variables that describe a rank of a batched attempt. The address of the main process and the GPUs are
// known only on the node.
func (w *work) setPlace(v map[string]string, rank int) {
	part := w.part(rank)
	v["SERVICE_JOB_NODE_RANK"], v["SERVICE_JOB_NNODES"] = strconv.Itoa(rank), strconv.Itoa(w.ranks())
	v["SERVICE_JOB_GPUS_PER_NODE"] = strconv.Itoa(part.GPUsPerNode)
	if part.Role != "" {
		v["SERVICE_JOB_ROLE"] = part.Role
	}
	if part.CPUs > 0 {
		v["OMP_NUM_THREADS"] = strconv.Itoa(part.CPUs)
	}
	delete(v, "SERVICE_JOB_MASTER_ADDR")
	delete(v, "SERVICE_JOB_MASTER_PORT")
}

// unsuitable returns why this executor cannot run the work, or "".
func (w *work) unsuitable() string {
	switch {
	case w.host.deps.Runner == nil:
		return ""
	case w.assignment.Work.Kind == executor.KindEngine:
		return "engines cannot run on Slurm; use a pool of a fleet of hosts"
	case !w.batched() || w.ranks() < 1:
		return "the attempt has no description for Slurm; upgrade the server"
	}
	return ""
}

// Node completes starts of ranks on a node of a batch system.
type Node struct {
	host *Host
	// self is the working folder of the node, which only this node uses.
	self string
}

// NewNode tries how works can be isolated on this machine, as the agent of a host does. The folder self must be empty and
// on a disk of the machine.
func NewNode(ctx context.Context, self string, exec, environ []string, p Place, d Deps) (*Node, error) {
	h, err := New(Config{ //nolint:contextcheck // New only logs without it
		Data: self, Exec: exec, Environ: environ, Isolate: p.Isolate, WorkUsers: p.WorkUsers, WorkFiles: p.WorkFiles,
		WorkReach: p.WorkReach, ClosedReach: p.ClosedReach, WorkAvoid: p.WorkAvoid, ReservedPorts: p.ReservedPorts,
		ControlPlane: func() []string { return p.ControlPlane },
	}, d)
	if err != nil {
		return nil, err
	}
	h.tryIsolation(ctx)
	return &Node{host: h, self: self}, h.cutOff
}

// Report returns how the node isolates works.
func (n *Node) Report(ctx context.Context) (boundary.Report, error) { return n.host.Boundary(ctx) }

// Complete adds to a start what depends on the node: its boundary, and its limit of open files. The parameter gpus are the
// numbers of the devices that the batch system has assigned.
func (n *Node) Complete(ctx context.Context, t Template, rank int, gpus []int) (shim.Start, error) {
	s, p := t.Start, t.Place
	s.Limits = boundary.Plan{Files: boundary.FileBound(p.WorkFiles, "/proc")}
	if n.host.kind == boundary.None {
		s.Isolation = boundary.Isolation{}
		switch {
		case p.Isolate && !p.Open:
			return s, fmt.Errorf("the node cannot isolate works (%w); let an admin allow user namespaces on the nodes of the partition, "+
				"or set the isolation of the pool to none", n.host.notIsolated)
		case p.Closed:
			return s, errOpenNetwork(n.host.notRestricted)
		}
		return s, nil
	}
	i := s.Isolation
	i.Kind = n.host.kind
	if i.Kind == boundary.UserNamespace {
		i.UID = os.Geteuid()
	}
	if i.UID == 0 {
		return s, errors.New("the agent runs as another user than the job; start the agent as the user of the pool")
	}
	if err := os.MkdirAll(i.Root, 0o700); err != nil {
		return s, fmt.Errorf("create the folder of the work's root: %w", err)
	}
	for _, number := range gpus {
		i.Binds = append(i.Binds, boundary.Bind{Path: n.host.folders.Device(number), Access: boundary.Device, Optional: true})
	}
	if len(gpus) > 0 {
		i.Binds = append(i.Binds, boundary.Bind{Path: "/sys", Access: boundary.ReadOnly})
		for _, name := range []string{"ctl", "-uvm", "-uvm-tools", "-modeset"} {
			i.Binds = append(i.Binds, boundary.Bind{Path: filepath.Join(n.host.folders.Dev, "nvidia"+name), Access: boundary.Device, Optional: true})
		}
	}
	var err error
	if i.Network, err = n.Network(ctx, t, rank, p.Endpoint); err != nil {
		return s, err
	}
	if i.Ports, err = n.host.ports(i); err != nil {
		return s, err
	}
	s.Isolation = i
	return s, nil
}

// Network returns what a rank may reach, with the ingest endpoint at the given URL.
func (n *Node) Network(ctx context.Context, t Template, rank int, endpoint string) (boundary.Network, error) {
	kind, p := n.host.net, t.Place
	switch {
	case kind == boundary.Open && p.Closed:
		return boundary.Network{}, errOpenNetwork(n.host.notRestricted)
	case kind == boundary.Open, !p.Closed && kind == boundary.OwnNetwork && p.Ranks > 1:
		// The ranks of an attempt connect to each other at any port, which pasta does not forward.
		return boundary.Network{}, nil
	case !p.Closed:
		return n.host.network(ctx, endpoint)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	net := boundary.Network{Kind: kind, Program: n.host.pasta, Closed: true, Hosts: t.Start.Isolation.Network.Hosts + "-" + strconv.Itoa(rank)}
	// A name that cannot be looked up now is looked up again while the rank runs.
	reach, hosts, _ := boundary.Reachable(ctx, n.host.deps.Names, append([]string{endpoint}, p.ClosedReach...))
	net.Reach = reach
	own, err := os.Hostname()
	if err != nil {
		return net, fmt.Errorf("find the host name: %w", err)
	}
	const readable = 0o644 // by the work's user, see writeEndpoint
	return net, localfile.Write(net.Hosts, []byte(hosts+boundary.OwnHosts(own, "")), readable)
}

// Visible returns the value of CUDA_VISIBLE_DEVICES for a rank that has the devices with the given numbers, or the given
// value of the batch system if the machine has no such devices.
func (n *Node) Visible(gpus []int, value string) string {
	if len(gpus) == 0 {
		return value
	}
	for _, number := range gpus {
		if !slices.ContainsFunc(n.host.folders.List(), func(g executor.GPU) bool { return g.Number == number }) {
			return value
		}
	}
	names, err := visibleTo(gpus, n.host.folders.List(), n.host.kind != boundary.None)
	if err != nil {
		return value
	}
	return names
}
