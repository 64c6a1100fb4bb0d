package executors

import (
	"syscall"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// hosts are two hosts with an agent on each. Both are this machine.
type hosts struct {
	fleet  string
	byName map[string]*testenv.Process
}

// hostNames are the names of the hosts, at which they reach each other.
var hostNames = []string{"127.0.0.1", "127.0.0.2"}

func openHosts(h *harness) executor {
	h.Helper()
	fleet, joinToken := h.createFleet("agent")
	e := &hosts{fleet: fleet, byName: map[string]*testenv.Process{}}
	for _, name := range hostNames {
		e.byName[name] = h.s.StartAgent(name, joinToken(), h.agentSettings()...)
	}
	return e
}

func (e *hosts) agents() (all []*testenv.Process) {
	for _, name := range hostNames {
		all = append(all, e.byName[name])
	}
	return all
}

// hostNode is a node of the fleet as the API returns it.
type hostNode struct {
	ID, Name, State string
	Fleet           string `json:"fleet_id"`
}

// nodes returns the nodes of the fleet by id.
func (e *hosts) nodes(h *harness) map[string]hostNode {
	var all []hostNode
	found := map[string]hostNode{}
	if h.admin.Get(h.Context(), "/api/cluster/nodes", nil, &all) == nil {
		for _, n := range all {
			if n.Fleet == e.fleet {
				found[n.ID] = n
			}
		}
	}
	return found
}

func (e *hosts) awaitReady(h *harness) {
	h.Helper()
	h.until("both nodes are ready", func() bool {
		ready := 0
		for _, n := range e.nodes(h) {
			if n.State == "ready" {
				ready++
			}
		}
		return ready == len(hostNames)
	})
}

func (e *hosts) awaitIdle(h *harness) {
	h.Helper()
	for _, a := range e.agents() {
		h.until("no process of a job is left on "+a.Name, func() bool { return len(h.s.Works(a)) == 0 })
	}
}

func (e *hosts) node(h *harness, a attempt) string {
	return e.nodes(h)[a.NodeID].Name
}

// fail ends all processes of a host, as a loss of its power would.
func (e *hosts) fail(j *job, node string) (message string) {
	j.Helper()
	a := e.byName[node]
	a.Kill()
	j.until("all processes of "+node+" have ended", func() bool {
		works := j.s.Works(a)
		for _, pid := range works {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(works) == 0
	})
	return "the node stopped responding"
}

func (e *hosts) repair(h *harness, node string) {
	e.byName[node].Start()
	e.awaitReady(h)
}

func (e *hosts) servers(h *harness) map[string]func() {
	return map[string]func(){"control plane": h.restartControlPlane}
}

func (e *hosts) logs() string { return "" }
