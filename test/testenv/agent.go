package testenv

import (
	"os"
	"path/filepath"
	"slices"
)

// StartAgent starts an agent as a process of its own, as on another host: it has its own data folder, joins its fleet with
// the token at its first start, and connects over mutual TLS. The name is that of the process and of the node.
func (s *Installation) StartAgent(name, joinToken string, settings ...string) *Process {
	s.T.Helper()
	env := append(os.Environ(), "PATH="+PathWithUV(s.T), smallReserve, smallDisks,
		"SERVICE_AGENT_SERVER="+s.URL, "SERVICE_AGENT_JOIN_TOKEN="+joinToken, "SERVICE_AGENT_HOSTNAME="+name,
		"SERVICE_AGENT_DATA="+s.agentData(name), "SERVICE_AGENT_ENVIRONMENTS="+s.Environments)
	p := newProcess(s.T, s.Dir, name, append(env, settings...), Bin(s.T, "signalbox-agent"), "run")
	s.Processes[name] = p
	s.Order = append(s.Order, name)
	p.Start()
	return p
}

// agentData returns the data folder of an agent that StartAgent has started.
func (s *Installation) agentData(name string) string { return filepath.Join(s.Dir, "agents", name) }

// Works returns the ids of the processes of all works on the host of an agent that StartAgent has started. It returns
// those of a killed agent too.
func (s *Installation) Works(agent *Process) []int {
	return slices.DeleteFunc(LeftProcesses(s.agentData(agent.Name)), func(pid int) bool { return pid == agent.PID() })
}

// Set changes settings of the process. It takes effect at the next start.
func (p *Process) Set(settings ...string) { p.env = append(slices.Clip(p.env), settings...) }
